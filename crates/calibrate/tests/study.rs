//! A study's points do not depend on their distribution over tasks, and none is computed twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbena_calibrate::study::{Done, FabricSource, Part, Store, StoreError, Study, run};
use verbena_model::profile::{Library, Overrides, Topology};
use verbena_model::topology::{Built, BuiltLink, Routing, Shape, Table, Wiring};
use verbena_reproduce::suite::Suite;

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
    let load = |source: &FabricSource| match source.topology.as_str() {
        "leaves" => Ok(leaves(source.routes.as_deref() == Some("one-cable"))),
        other => Err(format!("{other}: no such file")),
    };
    Study::read("study.toml", text, &library(), None, load).map_err(|e| e.to_string())
}

/// Returns two switches with two nodes each and two cables between them; by the tables, all packets
/// take the first cable, otherwise the destination's number chooses.
fn leaves(has_tables: bool) -> Topology {
    let cables = vec![(0, 1), (0, 1)];
    let table = Table::new(2, vec![0, 0, 1, 1], cables).expect("sound");
    let table = match has_tables {
        true => table.forwarding(&[vec![-1, -1, 0, 0], vec![0, 0, -1, -1]]),
        false => Ok(table),
    };
    let table = table.expect("sound");
    let link = |one: String, other: String| BuiltLink {
        ports: [one, other],
        rate: None,
    };
    let nodes = (0..4).map(|node| {
        let port = format!("leaf-{} port {}", node / 2, 1 + node % 2);
        link(format!("host-{node} port 1"), port)
    });
    let ends = |port: usize| link(format!("leaf-0 port {port}"), format!("leaf-1 port {port}"));
    Topology {
        about: "leaves".to_owned(),
        wiring: Arc::new(Wiring::new(Shape::Table(table), Routing::Deterministic)),
        built: Some(Arc::new(Built {
            switches: vec!["leaf-0".to_owned(), "leaf-1".to_owned()],
            nodes: nodes.collect(),
            cables: vec![ends(3), ends(4)],
        })),
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("verbena-sweep-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Opens a directory for the study on the shipped profiles.
fn open(path: &Path, text: &str) -> Result<Store, StoreError> {
    Store::open(path, text, "shipped")
}

/// Runs a part; returns the number of computed points.
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
fn three_tasks_give_the_results_of_one_without_duplicates() {
    let (whole, shared) = (directory("whole"), directory("shared"));
    let one = open(&whole, TEXT).expect("opens");
    assert_eq!(part(&one, Part::ALL), 16);
    assert_eq!(part(&one, Part::ALL), 0);
    let several = open(&shared, TEXT).expect("opens");
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
fn a_suite_benchmark_gives_the_selected_point() {
    let text = r#"
benchmark = "latency.send"
system = "connectx-ddr"
size = [1, 1024]
transport = ["rc", "ud"]
receive-queue = "own"
inline = 0
"#;
    let study = study(text).expect("sound");
    assert_eq!(study.size(), 4);
    let figures: Vec<_> = study
        .points()
        .map(|point| point.compute(&library()).expect("one point").figures)
        .collect();
    assert!(figures.iter().all(|all| all[0].unit == "us"));
    let system = library().system("connectx-ddr").expect("shipped");
    let suite = Suite::new(&system, "latency.send")
        .transport("rc")
        .size(1)
        .inline(0);
    // The size changes slowest, because parameters are sorted by name.
    assert_eq!(figures[0][0].value, suite.figure());
    assert!(figures[2][0].value > figures[0][0].value);
}

#[test]
fn an_ambiguous_suite_point_is_refused() {
    let text = "benchmark = \"latency.send\"\nsystem = \"connectx-ddr\"\nsize = 8\n";
    let point = study(text).expect("sound").points().next().expect("one");
    let error = point
        .compute(&library())
        .expect_err("four transports")
        .to_string();
    assert!(
        error.contains("name one: ") && error.contains("transport"),
        "{error}"
    );
    let text = "benchmark = \"internals.contexts\"\nsystem = \"infinihost3-mem-sdr\"\n\
                queue-pairs = 7\nseries = \"active\"\n";
    let point = study(text).expect("sound").points().next().expect("one");
    let error = point
        .compute(&library())
        .expect_err("no such point")
        .to_string();
    assert!(error.contains("has queue-pairs = 7; there are"), "{error}");
}

#[test]
fn a_task_killed_while_writing_loses_one_point() {
    let path = directory("cut");
    let store = open(&path, TEXT).expect("opens");
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
    open(&path, TEXT).expect("opens");
    assert!(open(&path, "benchmark = \"halo\"\n").is_err());
    assert!(Store::open(&path, TEXT, "others").is_err());
    let _ = std::fs::remove_dir_all(path);
}

#[test]
fn the_basis_changes_with_the_profiles() {
    let basis = |library: &Library| study(TEXT).expect("sound").basis(library).expect("there");
    let slower = Overrides::none().with("bensley.cpu.post", 200.0);
    let slower = Library::shipped(&slower).expect("within bounds");
    assert_eq!(basis(&library()), basis(&library()));
    assert_ne!(basis(&library()), basis(&slower));
}

/// Fabrics that differ in their routes.
const FABRICS: &str = "[fabric.shortest]\ntopology = \"leaves\"\n\
                       [fabric.narrow]\ntopology = \"leaves\"\nroutes = \"one-cable\"\n";

#[test]
fn fabrics_are_an_axis_and_their_hot_ports_are_named() {
    let mpi = "benchmark = \"mpi.alltoall-latency\"\nsystem = \"connectx6-hdr\"\nsize = 262144\n";
    let pattern = "benchmark = \"patterns.bisection\"\nsystem = \"connectx6-hdr:message\"\n\
                   size = 262144\nprocesses = 4\n";
    for text in [mpi, pattern] {
        let study = study(&format!("{text}{FABRICS}")).expect("sound");
        let path = directory(&text[13..16]);
        let store = Store::open(&path, text, &study.basis(&library()).expect("there"));
        let store = store.expect("opens");
        run(&study, &library(), &store, Part::ALL, 2, &|_, _| {}).expect("runs");
        store.merge().expect("merges");
        let done = store.load().expect("there");
        let [narrow, shortest] = done.as_slice() else {
            panic!("{done:?}");
        };
        assert_eq!(narrow.fabric.as_deref(), Some("narrow"));
        assert_eq!(shortest.fabric.as_deref(), Some("shortest"));
        let value = |one: &Done| one.figures[0].value;
        let slower = match text == mpi {
            true => value(narrow) / value(shortest),
            false => value(shortest) / value(narrow),
        };
        assert!(slower > 1.1, "{slower}");
        // All packets between the switches take one cable; the other one carries nothing.
        let has = |done: &Done, name: &str| {
            let mut ports = done.hot_ports.iter();
            ports.any(|one| one.port.starts_with("leaf-") && one.port.ends_with(name))
        };
        assert!(has(narrow, "port 3") && !has(narrow, "port 4"), "{done:?}");
        assert!(!shortest.hot_ports.is_empty(), "{done:?}");
        let table = std::fs::read_to_string(path.join("sweep.csv")).expect("merged");
        assert!(
            table.starts_with("number,benchmark,system,fabric,"),
            "{table}"
        );
        let _ = std::fs::remove_dir_all(path);
    }
}

#[test]
fn the_basis_changes_with_the_routes_of_a_fabric() {
    let text = "benchmark = \"halo\"\nsystem = \"connectx6-hdr\"\n";
    let basis = |fabric: &str| {
        let study = study(&format!(
            "{text}[fabric.a]\ntopology = \"leaves\"\n{fabric}"
        ));
        study.expect("sound").basis(&library()).expect("there")
    };
    assert_eq!(basis(""), basis(""));
    assert_ne!(basis(""), basis("routes = \"one-cable\"\n"));
}

#[test]
fn a_study_has_fabrics_of_its_own_or_one_for_all_points() {
    let text = "benchmark = \"halo\"\nsystem = \"connectx6-hdr\"\nnodes = [4, 5]\nranks = 8\n";
    let load = |_: &FabricSource| Ok(leaves(false));
    let read = |text: &str| Study::read("study.toml", text, &library(), Some(leaves(false)), load);
    let study = read(&text.replace("[4, 5]", "4")).expect("sound");
    let results: Vec<_> = study.points().map(|one| one.compute(&library())).collect();
    let [Ok(fits)] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert!(!fits.hot_ports.is_empty());
    let error = read(text).expect_err("four hosts").to_string();
    assert!(error.starts_with("study.toml:3: nodes: "), "{error}");
    assert!(error.ends_with("has 4 hosts, fewer than 5"), "{error}");
    let error = read(&format!("{text}{FABRICS}")).expect_err("two sources");
    assert!(error.to_string().contains("without --topology"), "{error}");
}

#[test]
fn study_errors_name_line_and_reason() {
    let halo = "benchmark = \"halo\"\nsystem = \"connectx-ddr\"\n";
    for (text, expected) in [
        (
            format!("{halo}size = 4\n"),
            ":3: size: halo has no such parameter; it takes ranks, nodes, tile",
        ),
        (format!("{halo}colour = 3\n"), ":3: colour: "),
        (format!("{halo}tile = []\n"), ":3: tile: an empty list"),
        (
            format!("{halo}tile = [1, 0]\n"),
            ":3: tile: expected whole numbers from 1 to ",
        ),
        (
            format!("{halo}ranks = [4,\n 2_000_000]\n"),
            ":4: ranks: expected whole numbers",
        ),
        (
            format!("{halo}tile = \"2\"\n"),
            ":3: tile: expected whole numbers",
        ),
        (format!("{halo}tile = = 2\n"), ":3: -: "),
        (
            format!("{halo}[profile]\n\"a.b\" = 1\n"),
            ":4: profile.\"a.b\": no profile has such a value",
        ),
        (
            format!("{halo}[profile]\nbensley.cpu.post = 1\n"),
            "quotation marks",
        ),
        (
            format!("{halo}[profile]\n\"bensley.cpu.post\" = [100, -1]\n"),
            ":4: profile.\"bensley.cpu.post\": ",
        ),
        (
            format!("{halo}[profile]\n\"bensley.cpu.post\" = nan\n"),
            "expected numbers",
        ),
        (
            "benchmark = \"latency.send\"\nsystem = \"connectx-ddr\"\nsize = 8\ncolour = 3\n"
                .to_owned(),
            ":4: colour: latency.send has no such parameter; its points have ",
        ),
        (
            "benchmark = \"latency.send\"\nsystem = \"connectx-ddr\"\ntransport = \"tcp\"\n"
                .to_owned(),
            ":3: transport: expected rc, uc, ud, xrc",
        ),
        (
            "benchmark = \"speed\"\nsystem = \"connectx-ddr\"\n".to_owned(),
            ":1: benchmark: no \"speed\"; known are latency.write",
        ),
        (
            "benchmark = \"halo\"\nsystem = [\"connectx-ddr\",\n \"mine\"]\n".to_owned(),
            ":3: system: mine: no such system",
        ),
        ("benchmark = \"halo\"\n".to_owned(), "system: is missing"),
        (
            format!("{halo}fabric = \"leaves\"\n"),
            ":3: fabric: expected sections [fabric.NAME]",
        ),
        (
            format!("{halo}[fabric.a]\nroutes = \"one-cable\"\n"),
            ":3: fabric.a: topology is missing",
        ),
        (
            format!("{halo}[fabric.a]\ntopology = \"leaves\"\nswitches = 3\n"),
            ":5: fabric.a.switches: expected topology, routes, hosts",
        ),
        (
            format!("{halo}[fabric.a]\ntopology = \"gone\"\n"),
            ":3: fabric.a: gone: no such file",
        ),
        (
            format!("{halo}[fabric.\"a,b\"]\ntopology = \"leaves\"\n"),
            ":3: fabric.a,b: a name must not be empty or contain commas",
        ),
        (
            format!("{halo}[fabric.a]\ntopology = \"-\"\n"),
            ":3: fabric.a: a study has no standard input",
        ),
        (
            format!("{halo}[fabric.a]\ntopology = \"leaves\"\nhosts = \"@-\"\n"),
            ":3: fabric.a: a study has no standard input",
        ),
        (
            "benchmark = \"halo\"\nsystem = \"connectx6-hdr\"\nnodes = [4, 5]\n[fabric.a]\n\
             topology = \"leaves\"\n"
                .to_owned(),
            ":3: nodes: [fabric.a] has 4 hosts, fewer than 5",
        ),
        (
            "benchmark = \"halo\"\nsystem = \"connectx-qdr-back-to-back\"\n[fabric.a]\n\
             topology = \"leaves\"\n"
                .to_owned(),
            ":2: system: connectx-qdr-back-to-back: needs a switch profile",
        ),
    ] {
        let error = study(&text).expect_err("the study is wrong");
        assert!(error.starts_with("study.toml:"), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn more_nodes_than_the_system_has_are_refused() {
    let text =
        "benchmark = \"halo\"\nsystem = \"connectx-qdr-back-to-back\"\nnodes = 3\nranks = 6\n";
    let point = study(text).expect("sound").points().next().expect("one");
    let error = point.compute(&library()).expect_err("a cable has two ends");
    let expected = "connectx-qdr-back-to-back joins at most 2 nodes, not 3: it has no switch";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn too_many_points_are_refused() {
    let values: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let list = values.join(", ");
    let text = format!(
        "benchmark = \"halo\"\nsystem = \"connectx-ddr\"\nranks = [{list}]\nnodes = [{list}]\n\
         tile = [{list}]\n"
    );
    let error = study(&text).expect_err("eight million points");
    assert!(error.contains("more than 1000000 points"), "{error}");
}

#[test]
fn part_numbers_are_parsed() {
    assert_eq!("3/16".parse(), Ok(Part { number: 3, of: 16 }));
    for wrong in ["", "3", "16/16", "0/0", "-1/4", "a/4", "1/4/2"] {
        assert!(wrong.parse::<Part>().is_err(), "{wrong}");
    }
}
