//! Send and receive, immediate data, order, and a receiver that is not ready.

use crate::rig::*;
use verbena_abi::*;
use verbena_hca::qp::SendRequest;

#[test]
#[ignore = "run by path"]
fn case_messages_of_every_size_arrive_in_order() {
    for kind in [IBV_QPT_RC, IBV_QPT_UC] {
        let (a, b) = pair(kind);
        pattern(a.buffer, 3);
        let sizes = [0, 1, 56, 4096, 5000, 16_384, 16_385, 300_000];
        for (wr_id, size) in sizes.into_iter().enumerate() {
            b.receive(wr_id as u64, 0, BUFFER);
            a.post(&request(IBV_WR_SEND, &[a.sge(11, size)]));
            let received = b.wait_ok();
            assert_eq!(
                (received.wr_id, received.byte_len),
                (wr_id as u64, size as u32)
            );
            assert_eq!(received.opcode, IBV_WC_RECV);
            assert_eq!(received.src_qp, a.qp.number());
            assert_eq!(a.buffer[11..11 + size], b.buffer[..size]);
            assert_eq!(a.wait_ok().opcode, IBV_WC_SEND);
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_burst_beyond_channel_capacity_arrives() {
    let (a, b) = pair(IBV_QPT_RC);
    pattern(a.buffer, 1);
    const EACH: usize = 16_000;
    for round in 0..20 {
        for index in 0..60 {
            b.receive(index, index as usize * EACH, EACH);
        }
        for index in 0..60 {
            let sges = [a.sge(index * EACH, EACH)];
            a.post(&SendRequest {
                wr_id: index as u64,
                ..request(IBV_WR_SEND, &sges)
            });
        }
        for index in 0..60 {
            assert_eq!(b.wait_ok().wr_id, index, "round {round}");
        }
        for index in 0..60 {
            assert_eq!(a.wait_ok().wr_id, index);
        }
        assert_eq!(a.buffer[..60 * EACH], b.buffer[..60 * EACH]);
        b.buffer.fill(0);
    }
}

#[test]
#[ignore = "run by path"]
fn case_write_with_immediate_consumes_a_receive() {
    for kind in [IBV_QPT_RC, IBV_QPT_UC] {
        let (a, b) = pair(kind);
        pattern(a.buffer, 9);
        for size in [0usize, 8, 40_000] {
            b.receive(4, 0, 0);
            let sges = [a.sge(0, size)];
            let write = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sges);
            let (remote_address, rkey) = (b.address(64), b.region.key());
            a.post(&SendRequest {
                remote_address,
                rkey,
                immediate: 0xabcd,
                ..write
            });
            let received = b.wait_ok();
            assert_eq!(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
            assert_eq!(received.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
            // SAFETY: both members of the union are plain words.
            assert_eq!(unsafe { received.imm.imm_data }, 0xabcd);
            assert_eq!(received.byte_len, size as u32);
            a.wait_ok();
            assert_eq!(a.buffer[..size], b.buffer[64..64 + size]);
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_late_receive_is_waited_for_in_order() {
    let (a, b) = pair(IBV_QPT_RC);
    a.buffer[0] = 1;
    a.buffer[1] = 2;
    a.post(&request(IBV_WR_SEND, &[a.sge(0, 1)]));
    let sges = [a.sge(1, 1)];
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    a.post(&SendRequest {
        remote_address: b.address(500),
        rkey: b.region.key(),
        ..write
    });
    a.post(&request(IBV_WR_SEND, &[a.sge(1, 1)]));
    for _ in 0..10_000 {
        assert!(
            a.cq.take().is_none(),
            "nothing completes before the receiver is ready"
        );
    }
    assert_eq!(b.buffer[500], 0, "the write comes after the send");
    b.receive(1, 0, 1);
    b.receive(2, 1, 1);
    assert_eq!(b.wait_ok().wr_id, 1);
    assert_eq!(b.wait_ok().wr_id, 2);
    for _ in 0..3 {
        a.wait_ok();
    }
    assert_eq!((b.buffer[0], b.buffer[1], b.buffer[500]), (1, 2, 2));
}

/// As UCX sends: in inline pieces, to a shared receive queue, also before a receive is posted.
#[test]
#[ignore = "run by path"]
fn case_inline_pieces_arrive_whole_in_a_shared_queue() {
    let (a, b) = pair_of_shared();
    let srq = b.srq.as_ref().unwrap();
    for pieces in [
        &[9, 8][..],
        &[1, 0, 16],
        &[0, 36],
        &[37],
        &[100, 1, 50, 105],
    ] {
        for is_late in [false, true] {
            pattern(a.buffer, pieces.len() as u8);
            b.buffer.fill(0);
            let total: usize = pieces.iter().sum();
            let expected = a.buffer[..total].to_vec();
            let mut offset = 0;
            let sges = pieces.iter().map(|length| {
                offset += length;
                ibv_sge {
                    lkey: 0,
                    ..a.sge(offset - length, *length)
                }
            });
            let sges: Vec<ibv_sge> = sges.collect();
            if !is_late {
                srq.post(3, &[b.sge(8, 300)]).unwrap();
            }
            let send = request(IBV_WR_SEND, &sges);
            let flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
            a.post(&SendRequest { flags, ..send });
            a.buffer.fill(0xff);
            if is_late {
                srq.post(3, &[b.sge(8, 300)]).unwrap();
            }
            let received = b.wait_ok();
            assert_eq!((received.wr_id, received.byte_len), (3, total as u32));
            a.wait_ok();
            assert_eq!(b.buffer[8..8 + total], expected[..], "{pieces:?}");
            assert_eq!(b.buffer[8 + total], 0);
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_short_messages_reach_the_limit_of_a_shared_queue_once() {
    let (a, b) = pair_of_shared();
    let srq = b.srq.as_ref().unwrap();
    for wr_id in 0..4 {
        srq.post(wr_id, &[b.sge(0, 8)]).unwrap();
    }
    srq.modify(None, Some(3)).unwrap();
    for wr_id in 0..4 {
        a.post(&request(IBV_WR_SEND, &[a.sge(0, 8)]));
        assert_eq!(b.wait_ok().wr_id, wr_id);
        a.wait_ok();
    }
    let events = &b.context.events;
    let mut kinds = std::iter::from_fn(|| {
        // SAFETY: a descriptor of this process.
        unsafe { libc::fcntl(events.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        events.next().ok().map(|event| event.kind)
    });
    let limits = kinds
        .by_ref()
        .filter(|kind| *kind == IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_eq!(limits.count(), 1);
}

/// A message that does not fit, and one for a buffer without the right to write, fail as in a
/// receive queue of the queue pair's own.
#[test]
#[ignore = "run by path"]
fn case_short_message_that_fails_ends_the_receive_of_a_shared_queue() {
    for is_long in [false, true] {
        let (a, b) = pair_of_shared();
        let srq = b.srq.as_ref().unwrap();
        let (sge, local, remote) = match is_long {
            true => (b.sge(0, 7), IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR),
            false => {
                let unknown = ibv_sge {
                    lkey: 0x7fff_ff01,
                    ..b.sge(0, 8)
                };
                (unknown, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR)
            }
        };
        srq.post(5, &[sge]).unwrap();
        a.post(&request(IBV_WR_SEND, &[a.sge(0, 8)]));
        let failed = b.wait();
        assert_eq!((failed.wr_id, failed.status), (5, local));
        assert_eq!(a.wait().status, remote);
    }
}

/// Returns two connected sides, the second with a shared receive queue.
fn pair_of_shared() -> (Side, Side) {
    let (a, b) = (
        Side::new(IBV_QPT_RC, ALL),
        Side::with(IBV_QPT_RC, ALL, BUFFER, true),
    );
    a.init();
    b.init();
    a.ready(b.qp.number(), 14, 7);
    b.ready(a.qp.number(), 14, 7);
    (a, b)
}

#[test]
#[ignore = "run by path"]
fn case_receiver_never_ready_exhausts_rnr_retries() {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, 14, 3);
    a.post(&request(IBV_WR_SEND, &[a.sge(0, 8)]));
    assert_eq!(a.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
    drop(b);
}

#[test]
#[ignore = "run by path"]
fn case_absent_peer_exhausts_retries() {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, 8, 7);
    b.qp.destroy().unwrap();
    let sges = [a.sge(0, 8)];
    a.post(&SendRequest {
        wr_id: 1,
        ..request(IBV_WR_SEND, &sges)
    });
    a.post(&SendRequest {
        wr_id: 2,
        flags: 0,
        ..request(IBV_WR_SEND, &sges)
    });
    let first = a.wait();
    assert_eq!((first.wr_id, first.status), (1, IBV_WC_RETRY_EXC_ERR));
    let second = a.wait();
    assert_eq!((second.wr_id, second.status), (2, IBV_WC_WR_FLUSH_ERR));
}

#[test]
#[ignore = "run by path"]
fn case_too_long_message_fails_both_sides() {
    let (a, b) = pair(IBV_QPT_RC);
    b.receive(1, 0, 10);
    b.receive(2, 0, 10);
    a.post(&request(IBV_WR_SEND, &[a.sge(0, 11)]));
    assert_eq!(b.wait().status, IBV_WC_LOC_LEN_ERR);
    assert_eq!(b.wait().status, IBV_WC_WR_FLUSH_ERR);
    assert_eq!(a.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

#[test]
#[ignore = "run by path"]
fn case_error_state_flushes_in_order() {
    let (a, b) = pair(IBV_QPT_RC);
    b.receive(1, 0, 10);
    b.receive(2, 0, 10);
    let attributes = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..Default::default()
    };
    b.qp.modify(&attributes, IBV_QP_STATE).unwrap();
    for wr_id in [1, 2] {
        let flushed = b.wait();
        assert_eq!(
            (flushed.wr_id, flushed.status),
            (wr_id, IBV_WC_WR_FLUSH_ERR)
        );
    }
    drop(a);
}

#[test]
#[ignore = "run by path"]
fn case_full_send_queue_refuses_until_completions_are_polled() {
    let (a, b) = pair(IBV_QPT_RC);
    let sges = [a.sge(0, 8)];
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    let write = SendRequest {
        remote_address: b.address(0),
        rkey: b.region.key(),
        ..write
    };
    for _ in 0..64 {
        a.post(&write);
    }
    let refused = a.qp.poster().post(&write);
    assert_eq!(refused, Err(verbena_hca_os::errno::Errno::ENOMEM));
    a.wait_ok();
    a.post(&write);
}
