//! Errors in a profile are reported with file, line and key.

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
fn an_unknown_key_is_refused() {
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
fn a_missing_unit_is_refused() {
    let error = refused(&format!(
        "{HEAD}[engines]\npacket = {{ value = 1, {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "engines.packet.unit"));
}

#[test]
fn a_negative_rate_is_refused() {
    let error = refused(&format!(
        "kind = \"host\"\nbase = \"bensley\"\nabout = \"Mine\"\n[memory]\n\
         bandwidth = {{ value = -5, unit = \"MB/s\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "memory.bandwidth"));
    assert!(error.reason.contains("above zero"), "{error}");
}

#[test]
fn a_cache_of_size_zero_is_refused() {
    let error = refused(&format!(
        "{HEAD}[caches]\nqueue_pairs = {{ value = 0, unit = \"1\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (5, "caches.queue_pairs"));
}

#[test]
fn a_switch_with_one_port_is_refused() {
    let error = refused(&format!(
        "kind = \"switch\"\nbase = \"infiniscale3\"\nabout = \"Mine\"\n\
         ports = {{ value = 1, unit = \"1\", {GOOD} }}\n"
    ));
    assert_eq!((error.line, error.key.as_str()), (4, "ports"));
}

#[test]
fn fitted_values_without_or_outside_bounds_are_refused() {
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
fn an_override_of_an_unknown_value_is_refused() {
    let error = Library::shipped(&Overrides::none().with("connectx.send.wings", 2.0))
        .expect_err("there is no such value");
    assert_eq!(error.key, "connectx.send.wings");
}

#[test]
fn a_profile_overrides_values_of_its_base() {
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

/// Loads the shipped profiles and several files at once.
fn with_files(files: &[(&str, &str)]) -> Result<Library, Error> {
    library().and(files.iter().copied())
}

const PART: &str = "kind = \"adapter\"\nbase = \"connectx\"\nabout = \"Fast\"\n";

fn system_of(adapter: &str) -> String {
    format!("kind = \"system\"\nbase = \"connectx-ddr\"\nadapter = \"{adapter}\"\n")
}

#[test]
fn profiles_of_two_kinds_may_share_a_name() {
    let fast = system_of("fast");
    let library = with_files(&[("adapter/fast.toml", PART), ("system/fast.toml", &fast)])
        .expect("both are there");
    let system = library.system("fast").expect("made of the other");
    assert_eq!(system.adapter.about, "Fast");
    // An ambiguous path needs the kind.
    let bandwidth = format!("[memory]\nbandwidth = {{ value = 1, unit = \"GB/s\", {GOOD} }}\n");
    let memory = format!(
        "[memory]\nlatency = {{ value = 9, unit = \"ns\", {GOOD} }}\n\
         bandwidth = {{ value = 2, unit = \"GB/s\", {GOOD} }}\n"
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
fn a_base_may_be_in_a_later_file() {
    let later = format!("{HEAD}[engines]\npacket = {{ value = 77, unit = \"ns\", {GOOD} }}\n");
    let earlier = "kind = \"adapter\"\nbase = \"z\"\nabout = \"Earlier\"\n";
    let library = with_files(&[
        ("a.toml", earlier),
        ("b.toml", &system_of("a")),
        ("z.toml", &later),
    ])
    .expect("in any order");
    let system = library.system("b").expect("all of it");
    assert_eq!(system.adapter.engines.packet.nanos(), 77.0);
}

#[test]
fn a_profile_may_be_based_on_the_one_that_it_replaces() {
    let text = format!(
        "kind = \"adapter\"\nbase = \"connectx\"\n[engines]\npacket = {{ value = 77, \
         unit = \"ns\", {GOOD} }}\n"
    );
    let library = with_files(&[("connectx.toml", &text)]).expect("sound");
    // Profiles based on the name get the new values.
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
fn circular_bases_are_refused() {
    let based = |on: &str| format!("kind = \"link\"\nbase = \"{on}\"\nabout = \"Mine\"\n");
    let error = with_files(&[("a.toml", &based("b")), ("b.toml", &based("a"))])
        .expect_err("neither begins");
    assert!(error.reason.contains("based on itself"), "{error}");
    let error = with_files(&[("a.toml", &based("a"))]).expect_err("there is none beneath");
    assert!(error.reason.contains("no link profile"), "{error}");
}

#[test]
fn a_profile_without_a_kind_is_refused() {
    let error = refused("about = \"Mine\"\n");
    assert_eq!(error.key, "kind");
    assert!(error.reason.contains("adapter"), "{error}");
}

const MPI: &str = "kind = \"mpi\"\nbase = \"mvapich-0.9.9\"\nabout = \"Mine\"\n";

/// Returns a library with choices for all-reduce, one per line from line 8 on.
fn choosing(choices: &str) -> String {
    format!("{MPI}[collectives.all_reduce]\n{GOOD_LINES}choices = [\n{choices}]\n")
}

const GOOD_LINES: &str = "tag = \"assumed\"\nsource = \"mine\"\n";
const LAST: &str = "{ algorithm = \"ring\" },\n";

fn chosen_wrongly(choices: &str) -> (usize, String, String) {
    let error = refused(&choosing(choices));
    (error.line, error.key, error.reason)
}

#[test]
fn an_unknown_algorithm_is_refused() {
    let (line, key, reason) = chosen_wrongly(&format!(
        "{{ bytes_below = 8, algorithm = \"doubling\" }},\n{LAST}"
    ));
    assert_eq!(
        (line, key.as_str()),
        (8, "collectives.all_reduce.1.algorithm")
    );
    assert!(
        reason.contains("recursive-doubling, rabenseifner"),
        "{reason}"
    );
}

#[test]
fn choices_must_cover_all_message_sizes() {
    let (line, key, reason) = chosen_wrongly("{ bytes_below = 8, algorithm = \"ring\" },\n");
    assert_eq!((line, key.as_str()), (8, "collectives.all_reduce.1"));
    assert!(reason.contains("last"), "{reason}");
    let (line, key, _) = chosen_wrongly(&format!("{LAST}{LAST}"));
    assert_eq!((line, key.as_str()), (8, "collectives.all_reduce.1"));
    let (_, key, _) = chosen_wrongly("");
    assert_eq!(key, "collectives.all_reduce.choices");
}

#[test]
fn parameters_foreign_to_the_algorithm_are_refused() {
    let first = "{ bytes_below = 8, algorithm = \"ring\", segment = 1024 },\n";
    let (line, key, _) = chosen_wrongly(&format!("{first}{LAST}"));
    assert_eq!(
        (line, key.as_str()),
        (8, "collectives.all_reduce.1.segment")
    );
    let (line, key, _) = chosen_wrongly(&format!(
        "{LAST_BUT_ONE}{{ bites_below = 8, algorithm = \"ring\" }},\n{LAST}"
    ));
    assert_eq!(
        (line, key.as_str()),
        (9, "collectives.all_reduce.2.bites_below")
    );
}

#[test]
fn pieces_are_long_enough_and_stay_in_their_buffers() {
    let wrong = |value: u64, more: &str| {
        let piece = format!(
            "piece = {{ value = {value}, unit = \"B\", tag = \"assumed\", source = \"mine\" }}"
        );
        let error = refused(&format!("{MPI}{piece}\n{more}"));
        assert_eq!(error.key, "piece");
        error.reason
    };
    assert!(wrong(255, "").contains("256 B"));
    assert!(wrong(256, "unexpected = \"copied\"\n").contains("kept"));
}

const LAST_BUT_ONE: &str = "{ bytes_below = 4, algorithm = \"ring\" },\n";

#[test]
fn limits_must_be_positive_whole_numbers() {
    for (limit, wrong) in [("\"8\"", "a number"), ("0", "at least 1"), ("1.5", "whole")] {
        let first = format!("{{ bytes_below = {limit}, algorithm = \"ring\" }},\n");
        let (line, key, reason) = chosen_wrongly(&format!("{first}{LAST}"));
        assert_eq!(
            (line, key.as_str()),
            (8, "collectives.all_reduce.1.bytes_below")
        );
        assert!(reason.contains(wrong), "{reason}");
    }
    let slope = "{ ranks_per_byte = 0.5, algorithm = \"ring\" },\n";
    let (_, key, _) = chosen_wrongly(&format!("{slope}{LAST}"));
    assert_eq!(key, "collectives.all_reduce.1.ranks_per_byte");
}

#[test]
fn missing_sources_and_unknown_operations_are_refused() {
    let error = refused(&format!(
        "{MPI}[collectives.all_reduce]\ntag = \"assumed\"\nchoices = [\n{LAST}]\n"
    ));
    assert_eq!(
        (error.line, error.key.as_str()),
        (4, "collectives.all_reduce.source")
    );
    let error = refused(&format!("{MPI}[collectives.all_reduces]\n{GOOD_LINES}"));
    assert_eq!(
        (error.line, error.key.as_str()),
        (4, "collectives.all_reduces")
    );
    let error = refused(&format!(
        "{MPI}[collectives.all_reduce]\ntag = \"fitted\"\nsource = \"mine\"\nchoices = [\n{LAST}]\n"
    ));
    assert_eq!(
        (error.line, error.key.as_str()),
        (5, "collectives.all_reduce.tag")
    );
}

#[test]
fn choice_limits_are_recorded_and_overridable_values() {
    let text = choosing(&format!("{LAST_BUT_ONE}{LAST}"));
    let mine = library()
        .and([("mine.toml", text.as_str())])
        .expect("sound");
    let path = "mine.collectives.all_reduce.1.bytes_below";
    let value = |library: &Library| {
        let found = library.recorded().iter().find(|value| value.path == path);
        found.map(|value| (value.value, value.unit.clone(), value.source.clone()))
    };
    let told = |value: f64| Some((value, "B".to_owned(), "mine".to_owned()));
    assert_eq!(value(&mine), told(4.0));
    let changed = mine
        .with(&Overrides::none().with(path, 64.0))
        .expect("sound");
    assert_eq!(value(&changed), told(64.0));
}

#[test]
fn contradictory_message_protocols_are_refused() {
    let one = |key: &str| format!("{key} = {{ value = 4, unit = \"1\", {GOOD} }}\n");
    let (credits, returned) = (one("credits"), one("credits_returned"));
    for (text, line, key) in [
        ("rendezvous = \"pipeline\"\n".to_owned(), 4, "rendezvous"),
        (credits.clone(), 4, "credits"),
        (returned.clone(), 4, "credits_returned"),
        (
            format!(
                "unexpected = \"copied\"\n{credits}{}",
                returned.replace('4', "5")
            ),
            6,
            "credits_returned",
        ),
        ("unexpected = \"dropped\"\n".to_owned(), 4, "unexpected"),
        (
            format!("[pipeline]\n{}", one("depth")),
            4,
            "pipeline.fragment",
        ),
    ] {
        let error = refused(&format!("{MPI}{text}"));
        assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
    }
}

#[test]
fn a_choice_table_replaces_the_whole_table_of_its_base() {
    let base = choosing(&format!("{LAST_BUT_ONE}{LAST_BUT_ONE}{LAST}"));
    let own = choosing(&format!("{LAST_BUT_ONE}{LAST}")).replace("mvapich-0.9.9", "mine");
    let system = "kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"ours\"\n";
    let library = with_files(&[
        ("mine.toml", &base),
        ("ours.toml", &own),
        ("sys.toml", system),
    ]);
    let library = library.expect("sound");
    let used = library.used_by("sys").expect("made of them");
    let limits = used.iter().filter(|value| value.key.contains("all_reduce"));
    let paths: Vec<_> = limits.map(|value| value.path.as_str()).collect();
    assert_eq!(paths, ["ours.collectives.all_reduce.1.bytes_below"]);
    let system = library.system("sys").expect("made of them");
    let choices = &system.mpi.expect("it has one").collectives.all_reduce;
    assert!(choices.of(100, 4).is_some() && choices.of(3, 4).is_some());
}
