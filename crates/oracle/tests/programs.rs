//! Programs survive a text round trip, and a seed reproduces its program.

use verbena_oracle::generate::{self, Class, Wishes};
use verbena_oracle::program::Program;
use verbena_oracle::reference::candidate_states::CandidateStates;

fn wishes() -> Wishes {
    Wishes {
        processes: 4,
        classes: Class::ALL.to_vec(),
        steps: 40,
        rules: 30,
        losses: true,
    }
}

#[test]
fn program_text_round_trips() {
    for seed in 0..60 {
        let program = generate::program(seed, &wishes());
        let text = program.to_string();
        let read: Program = text
            .parse()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(read.steps, program.steps, "seed {seed}");
        assert_eq!(read.rules, program.rules, "seed {seed}");
        assert_eq!(read.to_string(), text, "seed {seed}");
    }
}

#[test]
fn a_seed_always_makes_the_same_program() {
    for seed in 0..20 {
        assert_eq!(
            generate::program(seed, &wishes()),
            generate::program(seed, &wishes())
        );
    }
}

/// The reference allows an outcome for every generated program: no step leaves it without a state.
#[test]
fn the_reference_has_an_outcome_for_every_program() {
    for seed in 0..60 {
        let program = generate::program(seed, &wishes());
        let mut candidates = CandidateStates::new(&program);
        for step in &program.steps {
            if candidates.step(step).is_err() {
                break;
            }
            assert!(!candidates.worlds().is_empty(), "seed {seed}: {step}");
            candidates.forget_all_but_one();
        }
    }
}

/// The stored programs can be parsed.
#[test]
fn the_stored_programs_parse() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        text.parse::<Program>()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn invalid_programs_are_refused_with_the_line() {
    for (text, line) in [
        (
            "program processes=1 arena=4096\np0 alloc_pd(pd=pd1",
            "line 2",
        ),
        (
            "program processes=1 arena=4096\np1 alloc_pd(pd=pd1)",
            "line 2",
        ),
        ("program processes=0 arena=4096", "line 1"),
        ("program processes=1 arena=4096\ntogether", "without `end`"),
        ("program processes=1 arena=4096\np0 launch()", "line 2"),
        (
            "program processes=1 arena=4096\nrule p0 link: cut",
            "line 2",
        ),
        (
            "program processes=1 arena=4096\nrule p1 link: loss",
            "line 2",
        ),
        (
            "program processes=1 arena=4096\np0 fill(at=4000,len=200,tag=1)",
            "line 2",
        ),
    ] {
        let error = text.parse::<Program>().expect_err(text);
        assert!(error.contains(line), "{text}: {error}");
    }
}
