//! Effects of a library's profile on message times: credits, unexpected messages, rendezvous in
//! fragments.

use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::{Rank, Wanted, World};
use verbena_model::profile::{Library, Overrides, System};

const HEAD: &str = "kind = \"mpi\"\nbase = \"mvapich-0.9.9\"\nabout = \"Mine\"\n";
const COPIED: &str = "unexpected = \"copied\"\n";

/// Returns a system whose library has these keys in addition to MVAPICH's.
fn system(keys: &str) -> System {
    let library = format!("{HEAD}{keys}");
    let system = "kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"mine\"\n";
    Library::shipped(&Overrides::none())
        .and_then(|shipped| {
            shipped.and([
                ("mpi/mine.toml", library.as_str()),
                ("system/mine.toml", system),
            ])
        })
        .and_then(|library| library.system("mine"))
        .expect("sound profiles")
}

fn quantity(key: &str, value: u64, unit: &str) -> String {
    format!(
        "{key} = {{ value = {value}, unit = \"{unit}\", tag = \"assumed\", source = \"mine\" }}\n"
    )
}

fn credits(number: u64) -> String {
    format!("{COPIED}{}", quantity("credits", number, "1"))
}

/// Time at which a rank ended, and busy time of its processor.
type End = Rc<Cell<Option<(Time, Time)>>>;

/// Runs two ranks on two nodes; returns the time at which each ended and the busy time of its
/// processor.
fn run(
    system: &System,
    one: impl AsyncFnOnce(&Rank) + 'static,
    other: impl AsyncFnOnce(&Rank) + 'static,
) -> [(Time, Time); 2] {
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let world = World::new(&cluster, vec![0, 1]);
    let ends: [End; 2] = Default::default();
    let (first, second) = (world.rank(0), world.rank(1));
    let end = |rank: &Rank| Some((rank.process().now(), rank.process().busy()));
    let [told_first, told_second] = ends.clone();
    cluster.sim().start(async move {
        one(&first).await;
        told_first.set(end(&first));
    });
    cluster.sim().start(async move {
        other(&second).await;
        told_second.set(end(&second));
    });
    cluster.sim().run();
    cluster.finish();
    let breaches = cluster.audit().breaches();
    assert!(breaches.is_empty(), "{breaches:?}");
    ends.map(|end| end.get().expect("it comes to its end"))
}

fn marked(tag: u32) -> Wanted {
    Wanted {
        source: Some(0),
        tag: Some(tag),
    }
}

#[test]
fn a_sender_without_credits_waits_for_the_receiver() {
    let late = Time::from_nanos(1e6);
    let ended = |keys: &str, messages: u64| {
        let [sender, receiver] = run(
            &system(keys),
            async move |rank: &Rank| {
                for _ in 0..messages {
                    rank.send(1, 64).await;
                }
            },
            async move |rank: &Rank| {
                rank.compute(late).await;
                for _ in 0..messages {
                    rank.receive(0).await;
                }
            },
        );
        assert!(receiver.0 > late);
        sender.0
    };
    assert!(ended("", 40) < late);
    assert!(ended(&credits(40), 40) < late);
    assert!(ended(&credits(8), 8) < late);
    assert!(ended(&credits(8), 9) > late);
    assert!(ended(&credits(1), 40) > late);
}

#[test]
fn sufficient_credits_cost_only_their_return() {
    let stream = |keys: &str| {
        let [_, receiver] = run(
            &system(keys),
            async |rank: &Rank| {
                for _ in 0..200 {
                    rank.send(1, 1024).await;
                }
            },
            async |rank: &Rank| {
                for _ in 0..200 {
                    rank.receive(0).await;
                }
            },
        );
        receiver.0.micros()
    };
    let (unlimited, many, few) = (stream(""), stream(&credits(64)), stream(&credits(2)));
    assert!(many < 1.05 * unlimited, "{many} us, {unlimited} without");
    assert!(few > 1.3 * many, "{few} us with two, {many} with 64");
    // Returning each credit separately costs the receiver more than returning them in groups.
    let each = stream(&format!(
        "{}{}",
        credits(64),
        quantity("credits_returned", 1, "1")
    ));
    assert!(each > 1.1 * many, "{each} us each time, {many} at times");
}

/// The receiver asks for the last message first, so all others must leave their buffers.
#[test]
fn out_of_order_messages_use_no_credits_up() {
    for bytes in [64, 100_000] {
        run(
            &system(&credits(4)),
            async move |rank: &Rank| {
                let sends: Vec<_> = (0..64).map(|_| rank.begin_send(1, bytes)).collect();
                rank.send_marked(1, 8, 9).await;
                for send in sends {
                    send.await;
                }
            },
            async move |rank: &Rank| {
                rank.receive_wanted(marked(9)).await;
                for _ in 0..64 {
                    assert_eq!(rank.receive_wanted(marked(0)).await, bytes);
                }
            },
        );
    }
}

/// Both send more than they have credits for before either receives: a library that waits for
/// credits keeps serving its peers.
#[test]
fn two_ranks_waiting_for_credits_do_not_deadlock() {
    let both = async |rank: &Rank| {
        let other = 1 - rank.number;
        for _ in 0..50 {
            rank.send(other, 256).await;
        }
        for _ in 0..50 {
            rank.receive(other).await;
        }
    };
    let ends = run(&system(&credits(4)), both, both);
    assert_eq!(ends[0].0, ends[1].0);
}

#[test]
fn unexpected_messages_are_copied_twice_or_left_in_place() {
    let busy = |keys: &str, first: u32| {
        let [_, receiver] = run(
            &system(keys),
            async |rank: &Rank| {
                rank.send_marked(1, 8192, 1).await;
                rank.send_marked(1, 8192, 2).await;
            },
            async move |rank: &Rank| {
                rank.receive_wanted(marked(first)).await;
                rank.receive_wanted(marked(3 - first)).await;
            },
        );
        receiver.1.nanos()
    };
    assert_eq!(busy("", 1), busy("", 2));
    assert_eq!(busy("", 1), busy(COPIED, 1));
    let copy = system("").host.cpu.copy.time(8192).nanos();
    let more = busy(COPIED, 2) - busy(COPIED, 1);
    assert!(
        (more / copy - 1.0).abs() < 0.1,
        "{more} ns more, a copy is {copy}"
    );
}

/// A rank that computes leaves messages in their buffers, and so copies them once.
#[test]
fn a_computing_rank_copies_no_messages() {
    let busy = |keys: &str| {
        let [_, receiver] = run(
            &system(keys),
            async |rank: &Rank| rank.send(1, 8192).await,
            async |rank: &Rank| {
                rank.compute(Time::from_nanos(1e6)).await;
                rank.receive(0).await;
            },
        );
        receiver
    };
    assert_eq!(busy(""), busy(COPIED));
}

#[test]
fn matching_costs_each_message_that_is_skipped() {
    let busy = |keys: &str| {
        let [_, receiver] = run(
            &system(keys),
            async |rank: &Rank| {
                for tag in 1..=10 {
                    rank.send_marked(1, 8, tag).await;
                }
            },
            async |rank: &Rank| {
                rank.compute(Time::from_nanos(1e6)).await;
                for tag in (1..=10).rev() {
                    rank.receive_wanted(marked(tag)).await;
                }
            },
        );
        receiver.1.nanos()
    };
    let more = busy(&quantity("unexpected_search", 100, "ns")) - busy("");
    assert_eq!(more.round(), 4500.0);
}

/// Returns half the round-trip time of a large message, in microseconds.
fn large(keys: &str, bytes: u64) -> f64 {
    let [one, _] = run(
        &system(keys),
        async move |rank: &Rank| {
            rank.send(1, bytes).await;
            rank.receive(1).await;
        },
        async move |rank: &Rank| {
            rank.receive(0).await;
            rank.send(0, bytes).await;
        },
    );
    one.0.micros() / 2.0
}

fn pipeline(fragment: u64, depth: u64) -> String {
    format!(
        "rendezvous = \"pipeline\"\n{}[pipeline]\n{}{}",
        quantity("registration_page", 200, "ns"),
        quantity("fragment", fragment, "B"),
        quantity("depth", depth, "1")
    )
}

#[test]
fn fragment_registration_overlaps_with_transfer() {
    let bytes = 8 << 20;
    let free = large("", bytes);
    let whole = large(&quantity("registration_page", 200, "ns"), bytes);
    let pages = 2.0 * 0.2 * (bytes / 4096) as f64;
    assert!(
        (whole - free - pages).abs() < 1.0,
        "{whole} us, {free} without registering"
    );
    let fragments = large(&pipeline(1 << 20, 4), bytes);
    // Only the registration of the first fragment is waited for, on both sides.
    let first = pages / 8.0;
    assert!(
        fragments < free + 1.5 * first,
        "{fragments} us in fragments, {free} without registering"
    );
    assert!(fragments > free + 0.5 * first);
    // With a depth of one, nothing overlaps.
    let alone = large(&pipeline(1 << 20, 1), bytes);
    assert!(
        alone > 0.95 * whole,
        "{alone} us one by one, {whole} at once"
    );
}

#[test]
fn copied_messages_are_not_registered() {
    let keys = |registration: u64| {
        format!(
            "rendezvous = \"pipeline\"\n{}[pipeline]\n{}{}{}{}",
            quantity("registration", registration, "us"),
            quantity("fragment", 1 << 20, "B"),
            quantity("depth", 4, "1"),
            quantity("copied", 256 << 10, "B"),
            quantity("buffer", 8192, "B")
        )
    };
    for bytes in [20_000, 100_000, 256 << 10] {
        assert_eq!(large(&keys(1), bytes), large(&keys(100), bytes), "{bytes}");
    }
    let [cheap, dear] = [1, 100].map(|registration| large(&keys(registration), 512 << 10));
    assert!(dear > cheap);
    // Copying the beginning hides part of the registration.
    assert!(dear - cheap < 150.0, "{cheap} and {dear} us");
    // A message that goes through buffers takes the time of its copies.
    assert!(large(&keys(1), 256 << 10) > large("", 256 << 10));
}
