//! RC and XRC over a network that loses, duplicates, corrupts, reorders and delays packets: every
//! request executes once and in order, with the right bytes, or its completion reports the failure.

mod support;

use std::collections::HashSet;

use proptest::prelude::*;
use support::network::{Manners, To};
use support::program::{self, Fencing, MEMORY, Program};
use support::random::Random;
use support::world::World;
use support::{requester, responder};
use verbena_transport::Instant;
use verbena_transport::completion::{ReceiveCompletion, Status, Tail};
use verbena_transport::reliable::Reliable;
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_wire::packet::Packet;
use verbena_wire::{AckTimeout, Mtu, Psn};

/// Parameters of a run.
#[derive(Debug, Clone)]
struct Setting {
    seed: u64,
    service: Reliable,
    mtu: Mtu,
    psn: u32,
    window: u32,
    depth: u32,
    capacity: usize,
    count: usize,
    longest: u64,
    fencing: Fencing,
    manners: Manners,
    /// The responder's limit for early packets, in PSNs.
    early: u32,
    /// Nanoseconds between receives; 0 posts all in advance.
    receives_every: u64,
    silence: u64,
    /// Whether consecutive middle packets are made and handled together.
    together: bool,
}

impl Setting {
    fn program(&self) -> Program {
        let mut random = Random(self.seed ^ 0x5555);
        program::random(
            &mut random,
            self.service,
            self.count,
            self.longest,
            self.fencing,
        )
    }

    fn world(&self, program: &Program) -> World {
        let psn = Psn::new(self.psn);
        let mut ours = requester(self.service, self.mtu, psn);
        ours.window = self.window;
        // Longer than any round trip, so that a timeout means a loss.
        ours.ack_timeout = AckTimeout::from_code(8).unwrap();
        let mut theirs = responder(self.service, self.mtu, psn);
        theirs.max_dest_rd_atomic = self.depth as usize;
        theirs.early = self.early;
        let mut world = World::new(self.seed, self.manners, ours, theirs, MEMORY);
        world.silence = self.silence;
        world.together = self.together;
        world.here.send_queue.set_max_rd_atomic(self.depth);
        world.here.send_queue.capacity = self.capacity;
        for (number, arrival) in (0u64..).zip(&program.arrivals) {
            let spare = world.random.below(3) as u32;
            let at = Instant(number * self.receives_every);
            world.receives.push((at, number, arrival.length + spare));
        }
        world
    }
}

fn settings() -> impl Strategy<Value = Setting> {
    let manners = (
        0u64..60,
        0u64..60,
        0u64..30,
        prop_oneof![Just(0), 0u64..300],
        prop_oneof![Just(0), 0u64..200_000],
    )
        .prop_map(
            |(loss, duplication, corruption, congestion, jitter)| Manners {
                loss,
                duplication,
                corruption,
                congestion,
                jitter,
            },
        );
    (
        any::<u64>(),
        prop_oneof![Just(Reliable::Rc), Just(Reliable::Xrc)],
        prop_oneof![Just(Mtu::B256), Just(Mtu::B1024), Just(Mtu::B4096)],
        prop_oneof![Just(0x00ff_fff0u32), any::<u32>()],
        prop_oneof![Just(1u32), Just(128), 2u32..200],
        1u32..6,
        1usize..40,
        (
            1usize..60,
            prop_oneof![Just(64u64), Just(5_000), Just(20_000)],
        ),
        prop_oneof![Just(Fencing::None), Just(Fencing::Every)],
        manners,
        (
            prop_oneof![Just(0u64), Just(30_000u64)],
            prop_oneof![Just(0u64), Just(600)],
            prop_oneof![Just(0u32), Just(128), 1u32..200],
            any::<bool>(),
        ),
    )
        .prop_map(
            |(
                seed,
                service,
                mtu,
                psn,
                window,
                depth,
                capacity,
                (count, longest),
                fencing,
                manners,
                (every, silence, early, together),
            )| {
                Setting {
                    seed,
                    service,
                    mtu,
                    psn,
                    window,
                    depth,
                    capacity,
                    count,
                    longest,
                    fencing,
                    manners,
                    early,
                    receives_every: every,
                    silence,
                    together,
                }
            },
        )
}

/// Checks that the receiver's completion and data match the sent message.
fn same_arrival(world: &World, completion: &ReceiveCompletion, expected: &program::Arrival) {
    assert_eq!(completion.status, Status::Success);
    assert_eq!(completion.length, expected.length);
    assert_eq!(completion.solicited, expected.solicited);
    let immediate = match completion.tail {
        Tail::Immediate(immediate) => Some(immediate.0),
        Tail::Nothing | Tail::Invalidated(_) => None,
    };
    assert_eq!(immediate, expected.immediate);
    if let Some(bytes) = &expected.bytes {
        let buffer = &world.there.receive_buffers[&completion.id.0];
        assert!(
            buffer[..bytes.len()] == bytes[..],
            "bytes of receive {}",
            completion.id.0
        );
        assert!(
            buffer[bytes.len()..].iter().all(|byte| *byte == 0),
            "beyond the message"
        );
    }
}

/// Checks that the first requests succeeded and took effect, that the next one has an error status,
/// and that the others were flushed. Returns how many succeeded.
fn judge(world: &World, program: &Program) -> usize {
    let sent = &world.here.sent;
    assert_eq!(
        sent.len(),
        program.requests.len(),
        "one completion a request"
    );
    for (number, completion) in sent.iter().enumerate() {
        assert_eq!(
            completion.id, number as u64,
            "completions in the order of posting"
        );
    }
    let done = sent
        .iter()
        .take_while(|completion| completion.status == Status::Success)
        .count();
    for (number, result) in program.results.iter().enumerate().take(done) {
        let buffer = &world.here.buffers[&(number as u64)];
        assert!(
            buffer == result,
            "the buffer of request {number}: {:?}",
            program.requests[number]
        );
    }
    for completion in sent.iter().skip(done + 1) {
        assert_eq!(completion.status, Status::Flushed);
    }
    let received = &world.there.received;
    assert!(received.len() <= program.arrivals.len());
    for (number, (completion, expected)) in received.iter().zip(&program.arrivals).enumerate() {
        assert_eq!(
            completion.id.0, number as u64,
            "receives in the order of posting"
        );
        same_arrival(world, completion, expected);
    }
    if done == sent.len() {
        assert_eq!(received.len(), program.arrivals.len());
        assert_eq!(world.there.atomics, program.atomics, "each atomic once");
        assert_eq!(world.there.flushes, program.flushes, "each flush once");
        assert!(
            world.there.memory == program.after,
            "the responder's memory"
        );
        assert_eq!(world.requester.sent_until(), world.responder.expected_psn());
    } else {
        assert!(world.requester.has_failed());
        assert!(world.there.atomics <= program.atomics);
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_takes_effect_once_and_in_order_or_fails(setting in settings()) {
        let program = setting.program();
        let mut world = setting.world(&program);
        world.run(&program);
        let done = judge(&world, &program);
        if done < program.requests.len() {
            // Only loss can make it fail, and only with this status.
            prop_assert_eq!(world.here.sent[done].status, Status::RetryExceeded);
        }
        let Manners { loss, corruption, jitter, .. } = setting.manners;
        if (loss, corruption, jitter) == (0, 0, 0) {
            prop_assert_eq!(done, program.requests.len());
        }
    }
}

fn setting(seed: u64, manners: Manners) -> Setting {
    Setting {
        seed,
        service: Reliable::Rc,
        mtu: Mtu::B1024,
        psn: 0x00ff_ff00,
        window: 128,
        depth: 4,
        capacity: 32,
        count: 60,
        longest: 20_000,
        fencing: Fencing::None,
        manners,
        early: 128,
        receives_every: 20_000,
        silence: 0,
        together: false,
    }
}

/// These seeds all succeed: recovery does not merely report failure.
#[test]
fn messages_survive_a_lossy_network() {
    let manners = Manners {
        loss: 50,
        duplication: 50,
        corruption: 10,
        congestion: 10,
        jitter: 30_000,
    };
    let (mut lost, mut damaged, mut carried, mut together) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut setting = setting(seed, manners);
        if seed % 5 > 2 {
            // With jitter hardly two packets would arrive in order at the same time.
            setting.manners.jitter = 0;
            setting.together = true;
        }
        setting.silence = 300 * (seed % 3);
        setting.early = [128, 0][seed as usize % 2];
        let program = setting.program();
        let mut world = setting.world(&program);
        world.run(&program);
        assert_eq!(
            judge(&world, &program),
            program.requests.len(),
            "seed {seed}"
        );
        lost += world.network.lost;
        damaged += world.network.damaged;
        carried += world.network.carried;
        together += world.handled_together;
    }
    assert!(together > 1000, "{together} of {carried} handled together");
    assert!(
        lost > 1000 && damaged > 100,
        "{lost} lost, {damaged} damaged of {carried}"
    );
}

/// Returns the number of retransmitted packets and of packets that the network lost.
fn made_again(early: u32, loss: u64) -> (usize, u64) {
    let (mut again, mut lost) = (0, 0);
    for seed in 0..30 {
        let manners = Manners {
            loss,
            ..Manners::default()
        };
        let mut setting = setting(seed, manners);
        setting.early = early;
        let program = program::writes(&mut Random(seed), 60, 20_000);
        let mut world = setting.world(&program);
        world.traced = true;
        world.run(&program);
        assert_eq!(judge(&world, &program), program.requests.len());
        let numbers: Vec<Psn> = requests(&world)
            .iter()
            .map(|packet| Packet::parse(packet).unwrap().headers.bth.psn)
            .collect();
        again += numbers.len() - numbers.iter().collect::<HashSet<_>>().len();
        lost += world.network.lost;
    }
    (again, lost)
}

/// A peer that keeps early packets is sent little more than was lost, or twice that with frequent
/// losses; a peer that drops them, many times as much.
#[test]
fn packets_that_arrived_are_not_retransmitted() {
    for (loss, copies) in [(1, 1), (10, 1), (100, 2)] {
        let (kept, lost) = made_again(128, loss);
        let (dropped, _) = made_again(0, loss);
        let most = copies * lost + lost / 10 + 2;
        assert!(kept as u64 <= most, "{kept} for {lost}");
        assert!(
            dropped > 20 / copies as usize * kept,
            "{dropped} and {kept}"
        );
    }
}

/// The window is wide while nothing is lost. Losses make it the usual one again, also towards peers
/// that keep fewer packets than the wide window, or none.
#[test]
fn a_wide_window_ends_with_a_loss() {
    const WIDE: u32 = 248;
    for early in [0, 128, WIDE] {
        let mut setting = setting(5, Manners::default());
        (setting.window, setting.early, setting.receives_every) = (124, early, 0);
        setting.together = early != 128;
        let program = program::writes(&mut Random(5), 400, 20_000);
        let mut world = setting.world(&program);
        world.requester.set_wide_window(WIDE);
        world.there.memory.clone_from(&program.before);
        for (posted, buffer) in program.requests.iter().zip(&program.buffers) {
            world.here.buffers.insert(posted.id, buffer.clone());
            world.post(*posted);
        }
        world.traced = true;
        let mut acknowledged = Psn::new(setting.psn);
        let (mut seen, mut widest, mut before_loss) = (0, 0, 0);
        while world.step() {
            for (to, bytes) in &world.trace[seen..] {
                let psn = Packet::parse(bytes).unwrap().headers.bth.psn;
                match to {
                    To::Requester => acknowledged = psn.next(),
                    To::Responder => {
                        let in_flight = psn.next().since(acknowledged);
                        match world.network.lost {
                            0 => before_loss = before_loss.max(in_flight),
                            1..=10 => (),
                            _ => widest = widest.max(in_flight),
                        }
                    }
                }
            }
            seen = world.trace.len();
            if world.dispositions.len() > 5_500 {
                world.network.manners.loss = 30;
            }
        }
        assert_eq!(judge(&world, &program), program.requests.len());
        assert!((125..=WIDE as i32).contains(&before_loss), "{before_loss}");
        assert!((1..=124).contains(&widest), "{widest} with losses");
        assert!(world.network.lost > 20, "{}", world.network.lost);
    }
}

fn requests(world: &World) -> Vec<Vec<u8>> {
    world
        .trace
        .iter()
        .filter(|(to, _)| *to == To::Responder)
        .map(|(_, packet)| packet.clone())
        .collect()
}

#[test]
fn no_loss_means_no_retransmission() {
    let mut setting = setting(1, Manners::default());
    setting.receives_every = 0;
    let program = setting.program();
    let mut world = setting.world(&program);
    world.traced = true;
    world.run(&program);
    assert_eq!(judge(&world, &program), program.requests.len());
    let mut requests = requests(&world);
    let made = requests.len();
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), made);
}

#[test]
fn a_dead_network_exhausts_the_retries() {
    for retries in 0..8 {
        let setting = Setting {
            count: 5,
            ..setting(
                3,
                Manners {
                    loss: 1000,
                    ..Manners::default()
                },
            )
        };
        let program = setting.program();
        let mut ours = requester(setting.service, setting.mtu, Psn::new(setting.psn));
        ours.retry_count = RetryCount::new(retries).unwrap();
        let timeout = ours.ack_timeout.nanoseconds().unwrap();
        let theirs = responder(setting.service, setting.mtu, Psn::new(setting.psn));
        let mut world = World::new(3, setting.manners, ours, theirs, MEMORY);
        let start = world.now;
        world.run(&program);
        assert_eq!(judge(&world, &program), 0);
        assert_eq!(world.here.sent[0].status, Status::RetryExceeded);
        // The first try and each retry have waited once, from one to four times the timeout.
        let patience: u64 = (0..=retries).map(|tries| 1 << tries.min(2)).sum();
        assert_eq!(world.now, start.plus(timeout * patience));
        assert_eq!(world.requester.next_timeout(), None);
    }
}

#[test]
fn a_receiver_that_is_never_ready_exhausts_the_rnr_retries() {
    for retries in 0..7 {
        let mut setting = setting(3, Manners::default());
        setting.count = 30;
        let program = setting.program();
        let first = program
            .requests
            .iter()
            .position(|posted| {
                use verbena_transport::request::Operation;
                matches!(
                    posted.request.operation,
                    Operation::Send(_)
                        | Operation::Write {
                            immediate: Some(_),
                            ..
                        }
                )
            })
            .expect("the seed has a message");
        let mut ours = requester(setting.service, setting.mtu, Psn::new(setting.psn));
        ours.rnr_retry = RnrRetry::new(retries).unwrap();
        let theirs = responder(setting.service, setting.mtu, Psn::new(setting.psn));
        let mut world = World::new(3, setting.manners, ours, theirs, MEMORY);
        world.run(&program);
        assert_eq!(judge(&world, &program), first);
        assert_eq!(world.here.sent[first].status, Status::RnrRetryExceeded);
        assert!(world.there.received.is_empty());
    }
}

#[test]
fn an_infinite_rnr_retry_waits_for_the_receiver() {
    let mut setting = setting(4, Manners::default());
    setting.receives_every = 1_000_000;
    setting.count = 20;
    let program = setting.program();
    let mut world = setting.world(&program);
    world.run(&program);
    assert_eq!(judge(&world, &program), program.requests.len());
}
