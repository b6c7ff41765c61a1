//! A study's points are the same however they are shared out, and none is computed twice.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbena_model::profile::{Library, Overrides};
use verbena_predict::sweep::{Part, Store, Study, run};

const TEXT: &str = r#"
benchmark = "latency.write-inline"
system = ["connectx-ddr", "infinihost3-ddr"]
size = [1, 256]
pairs = [1, 4]

[profile]
"bensley.pcie.read_buffer" = [512, 4096]
"#;

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn study(text: &str) -> Result<Study, String> {
    Study::read("study.toml", text, &library()).map_err(|e| e.to_string())
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("verbena-sweep-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Runs a part; how many points it computed.
fn part(store: &Store, part: Part) -> usize {
    let count = AtomicUsize::new(0);
    run(
        &study(TEXT).expect("sound"),
        &library(),
        store,
        part,
        2,
        &|_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        },
    )
    .expect("runs");
    count.into_inner()
}

#[test]
fn three_tasks_give_what_one_gives_and_nothing_is_computed_twice() {
    let (whole, shared) = (directory("whole"), directory("shared"));
    let one = Store::open(&whole, TEXT).expect("opens");
    assert_eq!(part(&one, Part::ALL), 16);
    assert_eq!(part(&one, Part::ALL), 0);
    let several = Store::open(&shared, TEXT).expect("opens");
    for number in 0..3 {
        part(&several, Part { number, of: 3 });
    }
    assert_eq!(part(&several, Part::ALL), 0);
    assert_eq!(
        (
            one.merge().expect("merges"),
            several.merge().expect("merges")
        ),
        (16, 16)
    );
    for file in ["sweep.csv", "sweep.jsonl"] {
        let read = |path: &PathBuf| std::fs::read(path.join(file)).expect("merged");
        assert_eq!(read(&whole), read(&shared), "{file}");
    }
    let _ = (
        std::fs::remove_dir_all(whole),
        std::fs::remove_dir_all(shared),
    );
}

#[test]
fn a_task_that_was_ended_while_writing_loses_one_point_only() {
    let path = directory("cut");
    let store = Store::open(&path, TEXT).expect("opens");
    part(&store, Part::ALL);
    let file = path.join("part-0-of-1.jsonl");
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::write(&file, &text[..text.len() - 20]).expect("cut");
    assert_eq!(part(&store, Part::ALL), 1);
    assert_eq!(store.merge().expect("merges"), 16);
    let _ = std::fs::remove_dir_all(path);
}

#[test]
fn results_of_another_study_are_not_mixed_in() {
    let path = directory("other");
    Store::open(&path, TEXT).expect("opens");
    assert!(Store::open(&path, "benchmark = \"halo\"\n").is_err());
    let _ = std::fs::remove_dir_all(path);
}

#[test]
fn a_wrong_study_is_told_what_is_wrong() {
    for (text, expected) in [
        (
            "benchmark = \"halo\"\nsystem = \"connectx-ddr\"\nsize = 4\n",
            "takes ranks, nodes, tile",
        ),
        (
            "benchmark = \"speed\"\nsystem = \"connectx-ddr\"\n",
            "there are latency.write",
        ),
        (
            "benchmark = \"halo\"\nsystem = \"mine\"\n",
            "no such system",
        ),
        (
            "benchmark = \"halo\"\nsystem = \"connectx-ddr\"\ncolour = 3\n",
            "colour",
        ),
        (
            "benchmark = \"halo\"\nsystem = \"connectx-ddr\"\n[profile]\n\"a.b\" = 1\n",
            "no profile has such a value",
        ),
    ] {
        let error = study(text).expect_err("the study is wrong");
        assert!(error.contains(expected), "{error}");
    }
}
