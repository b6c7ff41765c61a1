//! Checks the linked library against the man pages, by a C program compiled with the official
//! headers (`programs/contract.c`).

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use common::{library_directory, program};

/// Returns the compiled program, or `None` if the machine has no verbs headers.
fn contract() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compiled = PROGRAM.get_or_init(|| {
        let headers = ["/usr/include", "/usr/local/include"];
        let has = |directory: &&str| PathBuf::from(directory).join("infiniband/verbs.h").exists();
        headers.iter().any(has).then(|| program("contract"))
    });
    compiled.as_ref()
}

fn check(name: &str) {
    let Some(program) = contract() else {
        eprintln!("SKIPPED {name}: no <infiniband/verbs.h>; install libibverbs-dev");
        return;
    };
    let output = Command::new(program)
        .arg(name)
        .env("LD_LIBRARY_PATH", library_directory())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}: {said}{complained}",
        output.status
    );
}

macro_rules! contracts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*
    };
}

contracts! {
    objects_in_use_cannot_be_destroyed
    null_and_nonsense_are_refused
    what_is_not_supported_says_so
    a_list_stops_at_the_request_that_is_refused
    events_wait_to_be_acknowledged
    asynchronous_events_name_their_object
    an_event_that_nobody_took_goes_with_its_object
    a_moderated_queue_raises_its_event_all_the_same
    a_batch_is_posted_whole_or_not_at_all
    only_queue_pairs_made_for_it_have_the_extended_interface
    an_atomic_write_takes_its_value_at_once
    the_extended_queue_iterates_over_completions
    queries_fill_as_much_as_the_header_knows
    what_is_imported_is_the_same_object
    a_region_keeps_its_key_when_it_is_registered_again
    a_window_moves_only_to_keys_of_its_own
    domains_of_every_kind
    the_receiving_side_of_xrc_can_be_opened_again
    device_memory_is_in_words
    advice_is_taken_about_on_demand_memory_only
}
