//! What is wrong with a profile is told with file, line and key.

use verbena_model::profile::{Error, Library, Overrides};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn refused(text: &str) -> Error {
    library()
        .add("mine.toml", text, &Overrides::none())
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
        "{HEAD}[engines]\nrequest = {{ value = 1, {GOOD} }}\n"
    ));
    assert_eq!(
        (error.line, error.key.as_str()),
        (5, "engines.request.unit")
    );
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
        "{HEAD}[engines]\nrequest = {{ value = 1, unit = \"ns\", {fitted} }}\n"
    ));
    assert!(error.reason.contains("bounds"), "{error}");
    let error = refused(&format!(
        "{HEAD}[engines]\nrequest = {{ value = 9, unit = \"ns\", low = 1, high = 5, {fitted} }}\n"
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
    let mut library = library();
    let text = format!("{HEAD}[engines]\nrequest = {{ value = 77, unit = \"ns\", {GOOD} }}\n");
    library
        .add("mine.toml", &text, &Overrides::none())
        .expect("the profile is sound");
    let mine: Vec<_> = library
        .recorded()
        .iter()
        .filter(|r| r.path.starts_with("mine."))
        .collect();
    assert_eq!(mine.len(), 1);
    assert_eq!(
        (mine[0].path.as_str(), mine[0].value),
        ("mine.engines.request", 77.0)
    );
}
