//! Short messages by lanes, in every mode of VERBENA_LANES: order among requests of all kinds,
//! receivers that are not ready, ends of connections.

use crate::rig::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::cq::Timestamps;
use verbena_hca::process::Cq;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit, SendRequest};

/// More messages than a connection sends before it gets a lane, and than a lane holds.
const MANY: u64 = 200;

fn by_lane(side: &Side) -> u64 {
    let all = side.context.process.counters.all();
    let found = all.iter().find(|one| one.0 == "lane_path_operations");
    found.unwrap().1
}

fn are_off() -> bool {
    std::env::var("VERBENA_LANES").is_ok_and(|mode| mode == "off")
}

fn send(side: &Side, wr_id: u64, offset: usize, length: usize) {
    let sges = [side.sge(offset, length)];
    side.post(&SendRequest {
        wr_id,
        ..request(IBV_WR_SEND, &sges)
    });
}

/// Exchanges messages one at a time, so that the connection gets its lane.
fn warm(a: &Side, b: &Side) {
    for wr_id in 0..MANY {
        b.receive(wr_id, 0, 64);
        send(a, wr_id, 0, 8);
        assert_eq!((b.wait_ok().wr_id, a.wait_ok().wr_id), (wr_id, wr_id));
    }
}

#[test]
#[ignore = "run by path"]
fn case_short_messages_go_by_lanes_unless_these_are_off() {
    let (a, b) = pair(IBV_QPT_RC);
    let before = by_lane(&a);
    warm(&a, &b);
    assert_eq!(by_lane(&a) > before, !are_off());
    for side in [a, b] {
        side.qp.destroy().unwrap();
    }
}

#[test]
#[ignore = "run by path"]
fn case_short_and_long_messages_and_writes_keep_their_order() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    let lengths = [8usize, 52, 1, 53, 20_000, 8, 48, 300_000, 49, 8];
    for round in 0..30usize {
        pattern(a.buffer, round as u8);
        for index in 0..lengths.len() {
            b.receive(index as u64, 0, BUFFER);
        }
        let mut posted = Vec::new();
        for (index, length) in lengths.into_iter().enumerate() {
            let opcode = match index % 3 {
                0 => IBV_WR_SEND_WITH_IMM,
                _ => IBV_WR_SEND,
            };
            let inline = length <= 64 && (round + index) % 2 == 0;
            let sges = [a.sge(index, length)];
            a.post(&SendRequest {
                wr_id: posted.len() as u64,
                immediate: index as u32,
                flags: IBV_SEND_SIGNALED | if inline { IBV_SEND_INLINE } else { 0 },
                ..request(opcode, &sges)
            });
            posted.push(IBV_WC_SEND);
            if (round + index) % 4 == 0 {
                let sges = [a.sge(0, 8)];
                a.post(&SendRequest {
                    wr_id: posted.len() as u64,
                    remote_address: b.address(BUFFER - 8),
                    rkey: b.region.key(),
                    ..request(IBV_WR_RDMA_WRITE, &sges)
                });
                posted.push(IBV_WC_RDMA_WRITE);
            }
        }
        for (index, length) in lengths.into_iter().enumerate() {
            let received = b.wait_ok();
            assert_eq!(received.wr_id, index as u64, "round {round}");
            assert_eq!(received.byte_len, length as u32);
            assert_eq!(received.qp_num, b.qp.number());
            let has_immediate = received.wc_flags & IBV_WC_WITH_IMM != 0;
            assert_eq!(has_immediate, index % 3 == 0);
            if has_immediate {
                // SAFETY: both members of the union are plain words.
                assert_eq!(unsafe { received.imm.imm_data }, index as u32);
            }
        }
        for (wr_id, opcode) in posted.into_iter().enumerate() {
            let sent = a.wait_ok();
            assert_eq!((sent.wr_id, sent.opcode), (wr_id as u64, opcode));
        }
        assert_eq!(b.buffer[..8], a.buffer[9..17], "the last message");
    }
}

/// A message that the receiver refuses for want of a receive goes by the channel again: it arrives
/// once, completes once, and so do those behind it.
#[test]
#[ignore = "run by path"]
fn case_refused_messages_arrive_and_complete_once() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    for round in 0..20u64 {
        let count = 1 + round % 7;
        for index in 0..count {
            a.buffer[index as usize] = (round + index) as u8;
            send(&a, index, index as usize, 1);
        }
        // The receiver looks, and has no receive, or fewer than there are messages.
        let soon = Instant::now() + Duration::from_millis(2);
        while Instant::now() < soon {
            assert!(b.cq.take().is_none());
        }
        for index in 0..count {
            b.receive(index, index as usize, 1);
        }
        for index in 0..count {
            assert_eq!(b.wait_ok().wr_id, index);
            assert_eq!(b.buffer[index as usize], (round + index) as u8);
        }
        for index in 0..count {
            assert_eq!(a.wait_ok().wr_id, index);
        }
        for side in [&a, &b] {
            assert!(side.cq.take().is_none(), "nothing completes twice");
        }
        warm(&a, &b);
    }
}

/// Messages that wait for their receiver when the sender is reset are not served any more, and the
/// next connection of the two begins with its own message.
#[test]
#[ignore = "run by path"]
fn case_messages_of_a_reset_queue_pair_are_dropped() {
    for is_error in [false, true] {
        let (a, b) = pair(IBV_QPT_RC);
        for round in 0..5u8 {
            warm(&a, &b);
            send(&a, 1, 0, 1);
            if is_error {
                let attributes = ibv_qp_attr {
                    qp_state: IBV_QPS_ERR,
                    ..Default::default()
                };
                a.qp.modify(&attributes, IBV_QP_STATE).unwrap();
                let flushed = a.wait();
                assert_eq!((flushed.wr_id, flushed.status), (1, IBV_WC_WR_FLUSH_ERR));
            }
            for side in [&a, &b] {
                let attributes = ibv_qp_attr::default();
                side.qp.modify(&attributes, IBV_QP_STATE).unwrap();
                side.init();
            }
            a.ready(b.qp.number(), 14, 7);
            b.ready(a.qp.number(), 14, 7);
            a.buffer[7] = round;
            b.receive(2, 0, 8);
            send(&a, 3, 7, 1);
            assert_eq!(b.wait_ok().wr_id, 2);
            assert_eq!(b.buffer[0], round, "the message of the new connection");
            assert_eq!(a.wait_ok().wr_id, 3);
            assert!(a.cq.take().is_none() && b.cq.take().is_none());
        }
    }
}

/// A receiver that ends is a peer that answers no more, also for messages that it has in its lane.
#[test]
#[ignore = "run by path"]
fn case_messages_to_a_destroyed_receiver_exhaust_retries() {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, 8, 7);
    warm(&a, &b);
    send(&a, 1, 0, 8);
    b.qp.destroy().unwrap();
    send(&a, 2, 0, 8);
    let (first, second) = (a.wait(), a.wait());
    assert_eq!((first.wr_id, first.status), (1, IBV_WC_RETRY_EXC_ERR));
    assert_eq!((second.wr_id, second.status), (2, IBV_WC_WR_FLUSH_ERR));
}

/// More messages than a lane holds, in both directions at once.
#[test]
#[ignore = "run by path"]
fn case_bursts_beyond_a_lane_arrive_in_order() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    warm(&b, &a);
    for round in 0..50u64 {
        for index in 0..60 {
            a.receive(index, 512 + 8 * index as usize, 8);
            b.receive(index, 512 + 8 * index as usize, 8);
        }
        for index in 0..60usize {
            for (side, seed) in [(&a, 0), (&b, 1)] {
                let word = round << 32 | (index as u64) << 1 | seed;
                let sges = [ibv_sge {
                    addr: std::ptr::from_ref(&word) as u64,
                    length: 8,
                    lkey: 0,
                }];
                side.post(&SendRequest {
                    wr_id: 1000 + index as u64,
                    flags: IBV_SEND_INLINE | IBV_SEND_SIGNALED,
                    ..request(IBV_WR_SEND, &sges)
                });
            }
        }
        for (side, seed) in [(&a, 1), (&b, 0)] {
            let (mut sent, mut received) = (0, 0);
            while sent < 60 || received < 60 {
                let wc = side.wait_ok();
                let next = match wc.opcode {
                    IBV_WC_RECV => &mut received,
                    _ => &mut sent,
                };
                assert_eq!(wc.wr_id % 1000, *next);
                *next += 1;
            }
            for index in 0..60usize {
                let at = 512 + 8 * index;
                let word = u64::from_ne_bytes(side.buffer[at..at + 8].try_into().unwrap());
                assert_eq!(word, round << 32 | (index as u64) << 1 | seed);
            }
        }
    }
}

/// A thread that polls only the sender's queue makes the receiver's progress, too.
#[test]
#[ignore = "run by path"]
fn case_messages_complete_while_the_receivers_queue_is_not_polled() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    for round in 0..20u64 {
        b.receive(round, 0, 8);
        send(&a, round, 0, 8);
        assert_eq!(a.wait_ok().wr_id, round);
        // It was delivered before it was acknowledged, perhaps by the progress thread, which pushes
        // the completion at once. Taking does not make progress.
        let end = Instant::now() + Duration::from_secs(10);
        let received = loop {
            match b.cq.take() {
                Some(one) => break one.wc.wr_id,
                None => assert!(Instant::now() < end, "the message has no completion"),
            }
            std::thread::yield_now();
        };
        assert_eq!(received, round);
    }
}

/// The receive queue keeps the range of the last buffers' key, but not beyond the key's end.
#[test]
#[ignore = "run by path"]
fn case_receive_with_a_key_that_has_ended_fails_after_messages_with_it() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    b.buffer[0] = 7;
    b.region.deregister().unwrap();
    b.receive(1, 0, 64);
    a.buffer[0] = 9;
    send(&a, 2, 0, 8);
    let (received, sent) = (b.wait(), a.wait());
    assert_eq!((received.wr_id, received.status), (1, IBV_WC_LOC_PROT_ERR));
    assert_eq!((sent.wr_id, sent.status), (2, IBV_WC_REM_OP_ERR));
    assert_eq!(b.buffer[0], 7, "nothing was written");
}

/// Unsignalled messages whose acknowledgements no poll had to look for are complete: an error that
/// the peer's request causes does not flush them.
#[test]
#[ignore = "run by path"]
fn case_delivered_unsignalled_messages_are_not_flushed() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    for wr_id in 0..20 {
        b.receive(wr_id, 0, 64);
        let sges = [a.sge(0, 8)];
        a.post(&SendRequest {
            wr_id,
            flags: 0,
            ..request(IBV_WR_SEND, &sges)
        });
        assert_eq!(b.wait_ok().wr_id, wr_id);
    }
    let sges = [b.sge(0, 8)];
    b.post(&SendRequest {
        wr_id: 99,
        remote_address: a.address(0),
        rkey: a.region.key() ^ 1,
        ..request(IBV_WR_RDMA_WRITE, &sges)
    });
    assert_eq!(b.wait().status, IBV_WC_REM_ACCESS_ERR);
    let flushed = a.cq.take().map(|one| (one.wc.wr_id, one.wc.status));
    assert_eq!(flushed, None);
}

/// Posts two unsignalled messages, which the peer takes, and a signalled one, for which it has no
/// receive request.
fn send_one_too_many(a: &Side, b: &Side, receives: &Cq) {
    for (wr_id, flags) in [(1, 0), (2, 0), (3, IBV_SEND_SIGNALED)] {
        if flags == 0 {
            b.receive(wr_id, 0, 64);
        }
        let sges = [a.sge(0, 8)];
        a.post(&SendRequest {
            wr_id,
            flags,
            ..request(IBV_WR_SEND, &sges)
        });
        while flags == 0 && receives.take().is_none() {}
    }
}

/// Only the message in flight is flushed.
fn check_flushed(a: &Side) {
    let last = a.wait();
    assert_eq!((last.wr_id, last.status), (3, IBV_WC_WR_FLUSH_ERR));
    assert!(a.cq.take().is_none());
}

#[test]
#[ignore = "run by path"]
fn case_an_error_by_the_program_flushes_no_delivered_messages() {
    let (a, b) = pair(IBV_QPT_RC);
    warm(&a, &b);
    send_one_too_many(&a, &b, &b.cq);
    let error = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..ibv_qp_attr::default()
    };
    a.qp.modify(&error, IBV_QP_STATE).unwrap();
    check_flushed(&a);
}

#[test]
#[ignore = "run by path"]
fn case_an_overrun_flushes_no_delivered_messages() {
    let ends = [with_two_queues(1), with_two_queues(256)];
    connect(&ends);
    let [(a, _), (b, receives)] = &ends;
    for wr_id in 0..MANY {
        b.receive(wr_id, 0, 64);
        send(a, wr_id, 0, 8);
        assert_eq!(a.wait_ok().wr_id, wr_id);
        while receives.take().is_none() {}
    }
    send_one_too_many(a, b, receives);
    // The queue for the receives of `a` has space for one completion.
    for wr_id in 0..2 {
        a.receive(wr_id, 64, 64);
        send(b, wr_id, 0, 8);
    }
    check_flushed(a);
}

/// Connects two sides.
fn connect(ends: &[(Side, Arc<Cq>); 2]) {
    for (one, other) in [(0, 1), (1, 0)] {
        ends[one].0.ready(ends[other].0.qp.number(), 14, 7);
    }
}

/// A side whose receives complete in another queue, for so many completions.
fn with_two_queues(entries: u32) -> (Side, Arc<Cq>) {
    let mut side = Side::new(IBV_QPT_RC, ALL);
    let (process, events) = (&side.context.process, &side.context.events);
    let receives = Cq::create(process, events, entries, None, Timestamps::Off).unwrap();
    let init = QpInit {
        kind: IBV_QPT_RC,
        pd: Some(side.pd.clone()),
        send_cq: Some(side.cq.clone()),
        recv_cq: Some(receives.clone()),
        srq: None,
        xrcd: None,
        cap: ibv_qp_cap {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 256,
        },
        signal_all: false,
        loopback: Loopback::Wanted,
    };
    side.qp = Qp::create(&side.context, init).unwrap();
    side.init();
    (side, receives)
}

/// A poll of a queue for sends finds no messages, so it must not wait for one that acknowledges.
#[test]
#[ignore = "run by path"]
fn case_sends_complete_at_once_where_receives_have_another_queue() {
    let ends = [with_two_queues(256), with_two_queues(256)];
    connect(&ends);
    let mut empty = 0;
    for round in 0..2 * MANY {
        for ((from, _), (to, receives)) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            to.receive(round, 0, 64);
            send(from, round, 0, 8);
            while receives.take().is_none() {}
            let mut polls = 0;
            while from.cq.take().is_none() {
                polls += 1;
            }
            empty += u64::from(polls > 0 && round >= MANY);
        }
    }
    // Some may wait for the progress thread, which does the same work.
    assert!(empty < MANY, "{empty} of {} sends", 2 * MANY);
}
