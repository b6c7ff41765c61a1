use super::{Action, Schedule, is_msccl, run};
use std::fmt::Write;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Library, Overrides};

/// Returns a ring that gathers one chunk of each GPU, as public generators print it.
fn ring(gpus: usize) -> String {
    let mut text = format!(
        "<algo name=\"ring\" nchunksperloop=\"{gpus}\" nchannels=\"1\" proto=\"Simple\" \
         ngpus=\"{gpus}\">\n"
    );
    for gpu in 0..gpus {
        let (next, last) = ((gpu + 1) % gpus, (gpu + gpus - 1) % gpus);
        let _ = writeln!(
            text,
            "  <gpu id=\"{gpu}\" i_chunks=\"1\" o_chunks=\"{gpus}\" s_chunks=\"0\">\n    \
             <tb id=\"0\" send=\"{next}\" recv=\"{last}\" chan=\"0\">"
        );
        for step in 0..gpus {
            let kind = match step {
                0 => "s",
                _ if step == gpus - 1 => "r",
                _ => "rcs",
            };
            let _ = writeln!(
                text,
                "      <step s=\"{step}\" type=\"{kind}\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" \
                 dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
            );
        }
        text.push_str("    </tb>\n  </gpu>\n");
    }
    text + "</algo>\n"
}

/// Returns an exchange of two GPUs, with a step in place of the second GPU's receive.
fn exchange(step: &str) -> String {
    format!(
        "<algo name=\"x\" nchunksperloop=\"4\">\n<gpu id=\"0\">\n\
         <tb id=\"0\" send=\"1\" recv=\"-1\" chan=\"3\">\n\
         <step s=\"0\" type=\"s\" cnt=\"2\"/>\n</tb>\n\
         </gpu>\n<gpu id=\"1\">\n<tb id=\"0\" send=\"-1\" recv=\"0\" chan=\"3\">\n{step}\n</tb>\n\
         </gpu>\n</algo>\n"
    )
}

#[test]
fn ring_has_its_messages_and_bytes() {
    for gpus in [2, 4, 16] {
        let schedule = Schedule::of_msccl(&ring(gpus), gpus as u64 * 1000).expect("a ring");
        assert_eq!(schedule.ranks, gpus);
        let messages = (gpus * (gpus - 1)) as u64;
        assert_eq!(schedule.sent(), (messages * 1000, messages));
    }
}

#[test]
fn ring_takes_the_time_of_its_steps() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles");
    let system = library.system("connectx6-hdr").expect("a shipped system");
    let time = |bytes| {
        let schedule = Schedule::of_msccl(&ring(4), bytes).expect("a ring");
        let ends = run(&system, &schedule, 4, Fidelity::Message).expect("it runs");
        ends.last().nanos()
    };
    // Three steps of 4 MiB at less than 25 GB/s each.
    assert!(time(16 << 20) > 3.0 * 160_000.0);
    assert!(time(4096) < 100_000.0);
}

#[test]
fn lengths_follow_from_the_buffer() {
    let text = exchange("<step s=\"0\" type=\"r\" cnt=\"2\"/>");
    let schedule = Schedule::of_msccl(&text, 100).expect("an exchange");
    let receive = schedule.operations[&1][0].action;
    let from = Some(0);
    let (bytes, tag) = (50, Some(3));
    assert_eq!(receive, Action::Receive { from, bytes, tag });
    assert_eq!(
        Schedule::of_msccl(&text, 1).expect("the same").sent(),
        (1, 1)
    );
}

#[test]
fn dependency_between_blocks_is_kept() {
    let text = r#"<?xml version="1.0"?><!-- of two blocks -->
        <algo nchunksperloop="1" ngpus="2">
          <gpu id="0">
            <tb id="5" send="1" recv="-1" chan="0">
              <step s="0" type="nop" depid="7" deps="0"/>
              <step s="1" type="s"/>
            </tb>
            <tb id="7" send="-1" recv="1" chan="1"><step s="0" type="rrc"/></tb>
          </gpu>
          <gpu id="1">
            <tb id="0" send="0" recv="0" chan="0"><step s="0" type="r"/></tb>
            <tb id="1" send="0" recv="-1" chan="1"><step s="0" type="s"/></tb>
          </gpu>
        </algo>"#;
    let schedule = Schedule::of_msccl(text, 8).expect("two blocks");
    let first = &schedule.operations[&0];
    assert_eq!(first[0].action, Action::Calculate { nanos: 0 });
    assert_eq!(first[0].requires, [2]);
    assert_eq!(first[1].requires, [0]);
    assert_eq!((first[1].cpu, first[2].cpu), (0, 1));
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles");
    let system = library.system("connectx6-hdr").expect("a shipped system");
    assert!(run(&system, &schedule, 2, Fidelity::Message).is_ok());
}

#[test]
fn invalid_algorithms_are_refused_with_the_line() {
    for (step, line, text) in [
        ("<step s=\"0\" type=\"r\" cnt=\"1\"/>", 4, "2 chunks"),
        (
            "<step s=\"1\" type=\"r\" cnt=\"2\"/>",
            9,
            "step 0 is expected",
        ),
        (
            "<step s=\"0\" type=\"rrcbd\"/>",
            9,
            "\"rrcbd\"; known are s, r,",
        ),
        ("<step s=\"0\" type=\"s\"/>", 9, "needs `send`"),
        ("<step s=\"0\" type=\"nop\"/>", 4, "1 messages are sent"),
        ("<step s=\"0\" type=\"r\" cnt=\"-2\"/>", 9, "needs `cnt`"),
        (
            "<step s=\"0\" type=\"r\" cnt=\"2\" depid=\"9\" deps=\"0\"/>",
            9,
            "block 9",
        ),
        (
            "<step s=\"0\" type=\"r\" cnt=\"2\" depid=\"0\" deps=\"0\"/>",
            9,
            "waits for itself",
        ),
        ("<step s=\"0\" s=\"0\"/>", 9, "twice"),
        ("<step s=0/>", 9, "an attribute is expected"),
        ("<gpu id=\"2\">", 9, "<gpu> is not expected"),
        ("words", 9, "a tag is expected"),
        ("<!-- no end", 9, "\"-->\" is missing"),
    ] {
        let fault = Schedule::of_msccl(&exchange(step), 8).expect_err(step);
        assert!(fault.reason.contains(text), "{step}: {fault}");
        assert_eq!(fault.line, line, "{step}: {fault}");
    }
    let fault = Schedule::of_msccl("<algo nchunksperloop=\"1\" ngpus=\"3\">\n</algo>", 8);
    assert!(fault.expect_err("no GPU").reason.contains("`ngpus` is 3"));
    assert!(Schedule::of_msccl("", 8).is_err());
    assert!(Schedule::of_msccl(&ring(4), u64::MAX).is_err());
}

#[test]
fn algorithms_are_recognised_by_their_first_element() {
    assert!(is_msccl(&ring(2)));
    assert!(is_msccl("<?xml version='1.0'?>\n<!-- x -->\n<algo>"));
    assert!(!is_msccl("num_ranks 2\n"));
    assert!(!is_msccl("<html>"));
}
