use super::*;
use crate::adapter::{Kind, Placement};
use crate::profile::{Library, Overrides};

/// A profile with round numbers of nanoseconds.
fn profile() -> Software {
    let values = [
        ("cores.line", 40.0),
        ("request.post", 100.0),
        ("request.poll", 10.0),
        ("request.atomic", 30.0),
        ("message.send", 70.0),
        ("message.serve", 60.0),
        ("message.longer", 25.0),
        ("message.receive", 5.0),
        ("cache.near_rate", 100.0),
        ("cache.far_rate", 50.0),
        ("cache.memory_rate", 10.0),
        ("cache.memory_latency", 500.0),
    ];
    let overrides = values.iter().fold(Overrides::none(), |all, (key, value)| {
        all.with(&format!("software.{key}"), *value)
    });
    let library = Library::shipped(&overrides).expect("shipped profiles are sound");
    library.software("software").expect("is shipped").clone()
}

/// Time of an event in nanoseconds; `None` until it happens.
type Noted = Rc<Cell<Option<f64>>>;

fn noting(host: &Rc<SoftwareHost>, noted: &Noted) -> Option<crate::adapter::Action> {
    let (sim, noted) = (host.sim().clone(), noted.clone());
    Some(Box::new(move || {
        let before = noted.replace(Some(sim.now().nanos()));
        assert_eq!(before, None, "told twice");
    }))
}

fn place(region: u64, address: u64) -> MemoryLocation {
    MemoryLocation {
        region,
        address,
        ..MemoryLocation::default()
    }
}

fn request(host: &Rc<SoftwareHost>, kind: Kind, bytes: u64) -> (Request, [Noted; 2]) {
    let noted = [Noted::default(), Noted::default()];
    let request = Request {
        local: place(1, 0),
        remote: place(2, 0),
        placed: noting(host, &noted[0]),
        completed: noting(host, &noted[1]),
        ..Request::new(kind, bytes, Placement::Reference)
    };
    (request, noted)
}

/// Posts requests in order from core 0 to core 1; returns the times of placement and completion of
/// each.
fn run(host: &Rc<SoftwareHost>, kinds: &[(Kind, u64)], receives: u64) -> Vec<[Option<f64>; 2]> {
    let (process, channel) = (host.process(0), host.channel());
    let receiver = Receiver {
        process: host.process(1),
        inbox: host.inbox(),
    };
    receiver.inbox.post(receives);
    let (requests, noted): (Vec<_>, Vec<_>) = kinds
        .iter()
        .map(|&(kind, bytes)| {
            let (request, noted) = request(host, kind, bytes);
            ((request, Some(receiver.clone())), noted)
        })
        .unzip();
    host.sim().start(async move {
        process.post(&channel, Transport::Reliable, requests).await;
    });
    host.sim().run();
    noted
        .iter()
        .map(|[placed, completed]| [placed.get(), completed.get()])
        .collect()
}

#[test]
fn a_write_is_visible_one_cache_line_transfer_later() {
    let host = SoftwareHost::new(&profile());
    // The first page on each side comes from memory: 500 ns, and 8 bytes at 10 GB/s.
    let told = run(&host, &[(Kind::Write, 8), (Kind::Write, 4000)], 0);
    assert_eq!(told[0], [Some(640.8), Some(600.8)]);
    // 8 bytes are in the near cache and 3,992 on a page already in use: 0.08 ns and 399.2 ns,
    // without latency.
    assert_eq!(told[1][1], Some(600.8 + 100.0 + 0.08 + 399.2));
}

#[test]
fn reads_and_atomics_take_effect_at_completion() {
    let host = SoftwareHost::new(&profile());
    let told = run(&host, &[(Kind::Read, 8), (Kind::Atomic, 8)], 0);
    assert_eq!(told[0], [Some(600.8), Some(600.8)]);
    assert_eq!(told[1][0], told[1][1]);
    // The atomic's bytes were fetched with the read's.
    assert_eq!(told[1][0], Some(600.8 + 130.0 + 0.08));
}

#[test]
fn a_send_completes_one_cache_line_transfer_after_delivery() {
    let host = SoftwareHost::new(&profile());
    let told = run(&host, &[(Kind::Send, 8)], 1);
    let served = 70.0 + 40.0 + 60.0 + 500.0 + 0.8;
    assert_eq!(told[0], [Some(served), Some(served + 40.0)]);
}

#[test]
fn long_sends_and_immediate_writes_cost_both_sides_more() {
    for (kind, bytes, longer) in [
        (Kind::Send, 64, 0.0),
        (Kind::Send, 65, 25.0),
        (Kind::WriteNotify, 8, 25.0),
    ] {
        let host = SoftwareHost::new(&profile());
        let told = run(&host, &[(kind, bytes)], 1);
        let expected = 70.0 + 40.0 + 60.0 + 500.0 + bytes as f64 / 10.0 + 2.0 * longer;
        assert_eq!(told[0][0], Some(expected), "{kind:?} of {bytes} bytes");
    }
}

#[test]
fn sender_and_receiver_overlap() {
    let host = SoftwareHost::new(&profile());
    let told = run(&host, &[(Kind::Send, 8); 200], 200);
    let [first, last] = [told[149][0], told[199][0]].map(|at| at.expect("was served"));
    // The sender is slower: 70 ns per message, the receiver 60 ns plus 0.08 ns for the copy, in
    // parallel.
    assert!((last - first - 50.0 * 70.0).abs() < 1.0, "{}", last - first);
}

#[test]
fn a_send_without_a_receive_request_blocks_later_operations() {
    let host = SoftwareHost::new(&profile());
    let told = run(
        &host,
        &[(Kind::Send, 8), (Kind::Send, 8), (Kind::Write, 8)],
        1,
    );
    assert!(told[0][1].is_some());
    assert_eq!(told[1..], [[None, None], [None, None]]);
}

#[test]
fn a_datagram_without_a_receive_request_is_lost_but_completes() {
    let host = SoftwareHost::new(&profile());
    let (process, channel) = (host.process(0), host.channel());
    let receiver = Receiver {
        process: host.process(1),
        inbox: host.inbox(),
    };
    let (request, [placed, completed]) = request(&host, Kind::Send, 8);
    host.sim().start(async move {
        let requests = vec![(request, Some(receiver))];
        process.post(&channel, Transport::Datagram, requests).await;
    });
    host.sim().run();
    assert_eq!(placed.get(), None);
    assert_eq!(completed.get(), Some(150.0));
}

#[test]
fn cores_share_the_memory_rate() {
    let host = SoftwareHost::new(&profile());
    let bytes = 1 << 20;
    for core in 0..2 {
        let process = host.process(core);
        host.sim().start(async move {
            let region = 10 * core as u64;
            process
                .copy(place(region, 0), place(region + 1, 0), bytes)
                .await;
        });
    }
    host.sim().run();
    let least = 2.0 * bytes as f64 / 10.0;
    let took = host.sim().now().nanos();
    assert!((least..1.1 * least).contains(&took), "{took}");
    assert_eq!(host.audit().breaches(), Vec::<String>::new());
}

#[test]
fn random_operations_all_complete_in_order() {
    let mut state = 7u64;
    let mut below = move |most: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % most
    };
    for _ in 0..40 {
        let host = SoftwareHost::new(&profile());
        let kinds = [
            Kind::Write,
            Kind::Read,
            Kind::Atomic,
            Kind::Send,
            Kind::WriteNotify,
        ];
        let work: Vec<_> = (0..1 + below(30))
            .map(|_| (kinds[below(5) as usize], 1 + below(100_000)))
            .collect();
        let told = run(&host, &work, 30);
        let completed: Vec<f64> = told
            .iter()
            .map(|[placed, completed]| {
                assert!(placed.is_some(), "{work:?}");
                completed.expect("everything completes")
            })
            .collect();
        assert!(completed.is_sorted(), "{work:?}: {completed:?}");
        assert_eq!(host.audit().breaches(), Vec::<String>::new(), "{work:?}");
    }
}
