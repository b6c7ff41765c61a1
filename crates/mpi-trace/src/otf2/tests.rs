//! Output of `otf2-print` is converted to calls; truncated or inconsistent output is reported.

use super::*;
use crate::{Messages, Trace};
use proptest::prelude::*;

const DEFINITIONS: &str = r#"
=== OTF2-PRINT ===

=== Global Definitions =========================================================

Definition                            ID  Attributes
--------------------------------------------------------------------------------
CLOCK_PROPERTIES                          Ticks per Seconds: 100000000, Global Offset: 5, Length: 94, Date: UNDEFINED
STRING                                 0  ""
LOCATION                               0  Name: "Main Thread" <5>, Type: CPU_THREAD, # Events: 17, Group: "MPI Rank 0" <0>
LOCATION                               1  Name: "Main Thread" <5>, Type: CPU_THREAD, # Events: 9, Group: "MPI Rank 1" <1>
LOCATION                               2  Name: "OMP thread" <6>, Type: CPU_THREAD, # Events: 2, Group: "MPI Rank 1" <1>
REGION                                 0  Name: "MPI_Waitall" <8> (Aka. "MPI_Waitall" <8>), Descr.: "" <0>, Role: FUNCTION, Paradigm: MPI, Flags: NONE, File: UNDEFINED, Begin: 0, End: 0
REGION                                 8  Name: "weird "name"
newline <1>" <15> (Aka. "weird "name"
newline <1>" <15>), Descr.: "" <0>, Role: FUNCTION, Paradigm: NONE, Flags: NONE, File: UNDEFINED, Begin: 0, End: 0
GROUP                                  0  Name: "" <0>, Type: COMM_LOCATIONS, Paradigm: MPI, Flags: NONE, 2 Members: "Main Thread" <1>, "Main Thread" <0>
GROUP                                  1  Name: "w" <16>, Type: COMM_GROUP, Paradigm: MPI, Flags: NONE, 2 Members: 0 ("Main Thread" <1>), 1 ("Main Thread" <0>)
GROUP                                  3  Name: "self" <18>, Type: COMM_SELF, Paradigm: MPI, Flags: NONE, 0 Members
COMM                                   0  Name: "MPI_COMM_WORLD" <19>, Group: "w" <1>, Parent: UNDEFINED, Flags: NONE
COMM                                   2  Name: "self" <18>, Group: "self" <3>, Parent: UNDEFINED, Flags: NONE
"#;

const HEAD: &str = "
=== OTF2-PRINT ===
=== Events =====================================================================
Event                                   Location            Timestamp  Attributes
--------------------------------------------------------------------------------
";

/// Location 1 is rank 0. A tick is 10 ns.
const EVENTS: &str = r#"ENTER                                          2                    5  Region: "weird "name"
newline <1>" <8>
MPI_IRECV_REQUEST                              0                   10  Request: 34
MPI_ISEND                                      1                   20  Receiver: 1 ("Main Thread" <0>), Communicator: "a, Tag: 3" <0>, Tag: 7, Length: 100, Request: 33
                                               ADDITIONAL ATTRIBUTES: ("what" <3>; UINT8; 1)
ENTER                                          0                   30  Region: "MPI_Waitall" <0>
MPI_IRECV                                      0                   31  Sender: 0 ("Main Thread" <1>), Communicator: "MPI_COMM_WORLD" <0>, Tag: 7, Length: 100, Request: 34
LEAVE                                          0                   40  Region: "MPI_Waitall" <0>
MPI_ISEND_COMPLETE                             1                   50  Request: 33
MPI_COLLECTIVE_BEGIN                           0                   60
MPI_COLLECTIVE_BEGIN                           1                   60
MPI_COLLECTIVE_END                             0                   70  Operation: ALLREDUCE, Communicator: "MPI_COMM_WORLD" <0>, Root: NONE, Sent: 16, Received: 16
MPI_COLLECTIVE_END                             1                   75  Operation: ALLREDUCE, Communicator: "MPI_COMM_WORLD" <0>, Root: NONE, Sent: 16, Received: 16
RMA_PUT                                        1                   80  Window: 0
"#;

fn definitions() -> Definitions {
    Definitions::read(DEFINITIONS.as_bytes()).expect("they are sound")
}

fn imported(events: &str) -> Result<Imported, Error> {
    import(&definitions(), format!("{HEAD}{events}").as_bytes())
}

fn read(imported: &Imported) -> Trace {
    let ranks = imported
        .ranks
        .iter()
        .map(|file| crate::RankTrace::read(file).expect("it is written whole"));
    Trace {
        path: "nowhere".into(),
        ranks: ranks.collect(),
    }
}

#[test]
fn events_become_calls() {
    let imported = imported(EVENTS).expect("they are sound");
    assert_eq!(imported.left_out, [("RMA_PUT".to_owned(), 1)].into());
    assert_eq!(imported.others, 1);
    let trace = read(&imported);
    assert_eq!(trace.unfinished().count(), 0);
    let calls = |rank: usize| -> Vec<(String, u64, u64)> {
        let rank = &trace.ranks[rank];
        let told = |record| rank.name(record).to_owned();
        rank.records
            .iter()
            .map(|record| (told(record), record.computing, record.within))
            .collect()
    };
    let expected = |all: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        all.iter()
            .map(|&(name, computing, within)| (name.to_owned(), computing, within))
            .collect()
    };
    assert_eq!(
        calls(0),
        expected(&[
            ("MPI_Init", 0, 0),
            ("MPI_Isend", 0, 0),
            ("MPI_Wait", 300, 0),
            ("MPI_Collective", 100, 150),
            ("MPI_Finalize", 50, 0),
        ])
    );
    assert_eq!(
        calls(1),
        expected(&[
            ("MPI_Init", 0, 0),
            ("MPI_Irecv", 0, 0),
            ("MPI_Waitall", 200, 100),
            ("MPI_Collective", 200, 100),
            ("MPI_Finalize", 0, 0),
        ])
    );
    let messages = Messages::of(&trace).expect("they make sense");
    assert_eq!(messages.sent(), (1, 100));
    assert!(messages.imbalances().is_empty());
    let all_reduce = crate::Part::Collective {
        kind: crate::Collective::AllReduce,
        comm: 0,
        root: None,
        slot: None,
        bytes: 8,
    };
    for rank in &trace.ranks {
        assert_eq!(
            rank.parts(&rank.records[3]),
            std::slice::from_ref(&all_reduce)
        );
    }
}

#[test]
fn invalid_events_are_refused_with_the_line() {
    let faults = [
        ("NONSENSE\n", "line 6 ", "begins no record"),
        (
            "MPI_SEND 0 10 Receiver: 5 (\"x\" <0>), Communicator: \"w\" <0>, Tag: 7, Length: 100\n",
            "line 6 ",
            "has 2 ranks",
        ),
        (
            "MPI_SEND 0 10 Receiver: 1 (\"x\" <0>), Communicator: \"w\" <9>, Tag: 7, Length: 100\n",
            "line 6 ",
            "no communicator 9",
        ),
        ("MPI_SEND 0 10 Receiver: 1\n", "line 6 ", "MPI_SEND"),
        (
            "MPI_ISEND_COMPLETE 0 10 Request: 3\n",
            "line 6 ",
            "without having begun",
        ),
        (
            "LEAVE 0 10 Region: \"MPI_Waitall\" <0>\n",
            "line 6 ",
            "without being entered",
        ),
        (
            "ENTER 0 10 Region: \"MPI_Waitall\" <0>\n",
            "rank 1",
            "end within an MPI call",
        ),
        ("CALLING_CONTEXT_SAMPLE 0 10 x\n", "line 6 ", "sampled"),
        (
            "MPI_COLLECTIVE_END 0 10 Operation: BARRIER, Communicator: \"w\" <0>, Root: NONE, \
             Sent: 0, Received: 0\n",
            "rank 1",
            "others of its communicator have not",
        ),
    ];
    for (events, at, reason) in faults {
        let told = imported(events).expect_err(events).to_string();
        assert!(
            told.contains(at) && told.contains(reason),
            "{events}: {told}"
        );
    }
    for (text, reason) in [
        ("", "no table"),
        ("---\n", "no ranks of MPI"),
        ("---\nGROUP 1 x\n", "line 2 "),
    ] {
        let told = Definitions::read(text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(told.contains(reason), "{text}: {told}");
    }
}

#[test]
fn cancelled_receives_are_dropped_and_unknown_operations_counted() {
    let events = "MPI_IRECV_REQUEST 0 10 Request: 1\nMPI_REQUEST_CANCELLED 0 12 Request: 1\n\
                  MPI_IRECV_REQUEST 0 14 Request: 1\n\
                  MPI_COLLECTIVE_END 1 20 Operation: ALLOCATE, Communicator: \"w\" <0>, Root: \
                  NONE, Sent: 0, Received: 0\n";
    let imported = imported(events).expect("they are sound");
    let left_out = [
        ("ALLOCATE".to_owned(), 1),
        ("end of a request".to_owned(), 1),
    ];
    assert_eq!(imported.left_out, left_out.into());
    let trace = read(&imported);
    let parts = trace.ranks[1]
        .records
        .iter()
        .flat_map(|record| trace.ranks[1].parts(record));
    assert!(parts.into_iter().all(|part| matches!(
        part,
        crate::Part::Communicator { .. } | crate::Part::Finalized
    )));
}

proptest! {
    #[test]
    fn arbitrary_text_is_imported_or_refused(
        text in "(?s).{0,200}", cut in 0usize..3000, at in 0usize..3000) {
        let _ = Definitions::read(text.as_bytes());
        let _ = imported(&text);
        for whole in [DEFINITIONS, EVENTS] {
            let mut bytes = whole.as_bytes()[..cut.min(whole.len())].to_vec();
            let at = at.min(bytes.len());
            let _ = import(&definitions(), [HEAD.as_bytes(), &bytes].concat().as_slice());
            bytes.splice(at..at, text.bytes());
            let _ = Definitions::read(bytes.as_slice());
            let _ = import(&definitions(), [HEAD.as_bytes(), &bytes].concat().as_slice());
        }
    }

    #[test]
    fn lines_in_any_order_are_imported_or_refused(
        order in proptest::collection::vec(0usize..14, 0..30)) {
        let lines: Vec<&str> = EVENTS.lines().collect();
        let text: Vec<&str> = order.iter().map(|&line| lines[line]).collect();
        let _ = imported(&text.join("\n"));
    }
}

/// Score-P defines its paradigms, and `otf2-print` prints their names and numbers.
#[test]
fn groups_of_a_defined_paradigm_are_read() {
    let defined = DEFINITIONS.replace("Paradigm: MPI,", "Paradigm: \"M, P\" <4>,");
    assert_ne!(defined, DEFINITIONS);
    let defined = Definitions::read(defined.as_bytes()).expect("they are sound");
    assert_eq!(defined.ranks, definitions().ranks);
    assert_eq!(defined.communicators, definitions().communicators);
    let other = DEFINITIONS.replace("Paradigm: MPI,", "Paradigm: \"MPI\" <5>,");
    let refused = Definitions::read(other.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("no ranks of MPI"), "{refused}");
}

#[test]
fn time_without_measurement_is_not_computing() {
    let line = |kind: &str, ticks: u64, rest: &str| format!("{kind:<30} 1 {ticks:>20}  {rest}\n");
    let call = |at: u64| {
        line("ENTER", at, "Region: \"MPI_Waitall\" <0>")
            + &line("LEAVE", at + 1, "Region: \"MPI_Waitall\" <0>")
    };
    let events = [
        line("MEASUREMENT_ON_OFF", 0, "Mode: OFF"),
        line("MEASUREMENT_ON_OFF", 100, "Mode: ON"),
        call(110),
        line("MEASUREMENT_ON_OFF", 120, "Mode: OFF"),
        line("MEASUREMENT_ON_OFF", 125, "Mode: OFF"),
        line("MEASUREMENT_ON_OFF", 150, "Mode: ON"),
        call(155),
        // On again without an event that says so.
        line("MEASUREMENT_ON_OFF", 160, "Mode: OFF"),
        call(190),
        line("MEASUREMENT_ON_OFF", 200, "Mode: OFF"),
    ];
    let imported = imported(&events.concat()).expect("they are sound");
    assert!(imported.left_out.is_empty(), "{:?}", imported.left_out);
    let trace = read(&imported);
    let computing: Vec<u64> = trace.ranks[0]
        .records
        .iter()
        .map(|record| record.computing)
        .collect();
    // The initialization is not in the trace. A tick is 10 ns.
    assert_eq!(computing, [0, 100, 140, 40, 90]);
    assert_eq!(
        imported.unmeasured,
        Unmeasured {
            spans: 4,
            nanoseconds: 10 * (100 + 30 + 30),
            traced: 2000,
        }
    );
}
