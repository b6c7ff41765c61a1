//! What is wrong with a profile is told with file, line and key.

use verbena_model::profile::{Error, Library, Overrides};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn refused(text: &str) -> Error {
    library()
        .and([("mine.toml", text)])
        .expect_err("the profile is wrong")
}

const HEAD: &str = "kind = \"adapter\"\nbase = \"connectx\"\nabout = \"Mine\"\n";
const GOOD: &str = "tag = \"datasheet\", source = \"mine\"";

#[test]
fn an_unknown_key() {
    let error = refused(&format!(
        "{HEAD}[send]\nspeed = {{ value = 1, unit = \"ns\", {GOOD} }}\n"
    ));
    assert_eq!(
        (error.file.as_str(), error.line, error.key.as_str()),
        ("mine.toml", 5, "send.speed")
    );
    assert!(error.reason.contains("unknown key"), "{error}");
}

#[test]
fn a_missing_unit() {
    let error = refused(&format!(
        "{HEAD}[engines]\npacket = {{ value = 1, {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "engines.packet.unit"));
}

#[test]
fn a_negative_rate() {
    let error = refused(&format!(
        "kind = \"host\"\nbase = \"bensley\"\nabout = \"Mine\"\n[memory]\nbandwidth = {{ value = -5, unit = \"MB/s\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "memory.bandwidth"));
    assert!(error.reason.contains("above zero"), "{error}");
}

#[test]
fn a_cache_of_size_zero() {
    let error = refused(&format!(
        "{HEAD}[caches]\nqueue_pairs = {{ value = 0, unit = \"1\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "caches.queue_pairs"));
}

#[test]
fn a_switch_with_one_port() {
    let error = refused(&format!(
        "kind = \"switch\"\nbase = \"infiniscale3\"\nabout = \"Mine\"\nports = {{ value = 1, unit = \"1\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (4, "ports"));
}

#[test]
fn a_fitted_value_without_bounds_or_outside_them() {
    let fitted = "tag = \"fitted\", source = \"mine\"";
    let error = refused(&format!(
        "{HEAD}[engines]\npacket = {{ value = 1, unit = \"ns\", {fitted} }}\n"
    ));
    assert!(error.reason.contains("bounds"), "{error}");
    let error = refused(&format!(
        "{HEAD}[engines]\npacket = {{ value = 9, unit = \"ns\", low = 1, high = 5, {fitted} }}\n"
    ));
    assert!(error.reason.contains("outside its bounds"), "{error}");
}

#[test]
fn an_override_of_nothing() {
    let error = Library::shipped(&Overrides::none().with("connectx.send.wings", 2.0))
        .expect_err("there is no such value");
    assert_eq!(error.key, "connectx.send.wings");
}

#[test]
fn a_base_changes_what_it_is_the_base_of() {
    let text = format!("{HEAD}[engines]\npacket = {{ value = 77, unit = \"ns\", {GOOD} }}\n");
    let library = library()
        .and([("mine.toml", text.as_str())])
        .expect("the profile is sound");
    let mine: Vec<_> = library
        .recorded()
        .iter()
        .filter(|r| r.path.starts_with("mine."))
        .collect();
    assert_eq!(mine.len(), 1);
    assert_eq!(
        (mine[0].path.as_str(), mine[0].value),
        ("mine.engines.packet", 77.0)
    );
}

/// The shipped profiles and some that come all at once.
fn with_files(files: &[(&str, &str)]) -> Result<Library, Error> {
    library().and(files.iter().copied())
}

const PART: &str = "kind = \"adapter\"\nbase = \"connectx\"\nabout = \"Fast\"\n";

fn system_of(adapter: &str) -> String {
    format!("kind = \"system\"\nbase = \"connectx-ddr\"\nadapter = \"{adapter}\"\n")
}

#[test]
fn two_kinds_may_have_one_name() {
    let fast = system_of("fast");
    let library = with_files(&[("adapter/fast.toml", PART), ("system/fast.toml", &fast)])
        .expect("both are there");
    let system = library.system("fast").expect("made of the other");
    assert_eq!(system.adapter.about, "Fast");
    // A path says whose value is meant; where both have one, with the kind.
    let bandwidth = format!("[memory]\nbandwidth = {{ value = 1, unit = \"GB/s\", {GOOD} }}\n");
    let memory = format!(
        "[memory]\nlatency = {{ value = 9, unit = \"ns\", {GOOD} }}\nbandwidth = {{ value = 2, unit = \"GB/s\", {GOOD} }}\n"
    );
    let host = format!("kind = \"host\"\nbase = \"bensley\"\nabout = \"Mine\"\n{bandwidth}");
    let adapter = format!("{PART}{memory}");
    let library = library
        .and([
            ("host/fast.toml", host.as_str()),
            ("adapter/fast.toml", adapter.as_str()),
        ])
        .expect("sound");
    let error = library
        .with(&Overrides::none().with("fast.memory.bandwidth", 3.0))
        .expect_err("which of the two?");
    assert!(
        error.reason.contains("host/fast.memory.bandwidth"),
        "{error}"
    );
    let changed = library
        .with(&Overrides::none().with("host/fast.memory.bandwidth", 3.0))
        .expect("that one");
    let value = |kind: &str| {
        let path = format!("{kind}/fast.memory.bandwidth");
        let found = changed.recorded().iter().find(|value| value.path == path);
        found.map(|value| value.value)
    };
    assert_eq!((value("host"), value("adapter")), (Some(3.0), Some(2.0)));
}

#[test]
fn a_base_may_come_later() {
    let later = format!("{HEAD}[engines]\npacket = {{ value = 77, unit = \"ns\", {GOOD} }}\n");
    let earlier = "kind = \"adapter\"\nbase = \"z\"\nabout = \"Earlier\"\n";
    let library = with_files(&[
        ("a.toml", earlier),
        ("b.toml", &system_of("a")),
        ("z.toml", &later),
    ])
    .expect("whatever their order");
    let system = library.system("b").expect("all of it");
    assert_eq!(system.adapter.engines.packet.nanos(), 77.0);
}

#[test]
fn a_profile_may_be_based_on_the_one_that_it_replaces() {
    let text = format!(
        "kind = \"adapter\"\nbase = \"connectx\"\n[engines]\npacket = {{ value = 77, unit = \"ns\", {GOOD} }}\n"
    );
    let library = with_files(&[("connectx.toml", &text)]).expect("sound");
    // What is based on the name has the new values.
    for name in ["connectx-ddr", "connectx-qdr"] {
        let system = library.system(name).expect("shipped");
        assert_eq!(system.adapter.engines.packet.nanos(), 77.0, "{name}");
    }
    let given = library
        .recorded()
        .iter()
        .filter(|v| v.path == "connectx.engines.packet");
    assert_eq!(given.map(|v| v.value).collect::<Vec<_>>(), [77.0]);
}

#[test]
fn bases_in_a_circle() {
    let based = |on: &str| format!("kind = \"link\"\nbase = \"{on}\"\nabout = \"Mine\"\n");
    let error = with_files(&[("a.toml", &based("b")), ("b.toml", &based("a"))])
        .expect_err("neither begins");
    assert!(error.reason.contains("based on itself"), "{error}");
    let error = with_files(&[("a.toml", &based("a"))]).expect_err("there is none beneath");
    assert!(error.reason.contains("no link profile"), "{error}");
}

#[test]
fn a_profile_of_no_kind() {
    let error = refused("about = \"Mine\"\n");
    assert_eq!(error.key, "kind");
    assert!(error.reason.contains("adapter"), "{error}");
}
