//! A responder that is reset while a message arrives.

use crate::rig::*;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::qp::SendRequest;

/// More than a channel holds.
const LONG: usize = 8 << 20;
/// 1 s.
const TIMEOUT: u8 = 18;

/// The responder has lost the parts that it had of the message, which begins anew.
#[test]
#[ignore = "run by path"]
fn case_long_send_arrives_after_a_reset_of_the_responder() {
    for kind in [IBV_QPT_RC, IBV_QPT_XRC_SEND] {
        // If other processes keep this thread from running, the message may be complete before the
        // reset.
        assert!((0..100).any(|_| arrives_after_reset(kind)), "{kind}");
    }
}

/// Sends a message, resets the responder and connects it again. Returns whether the reset came
/// before the end of the message.
fn arrives_after_reset(kind: ibv_qp_type) -> bool {
    let is_xrc = kind == IBV_QPT_XRC_SEND;
    let target = if is_xrc { IBV_QPT_XRC_RECV } else { kind };
    let a = Side::with(kind, ALL, LONG, false);
    let b = Side::with(target, ALL, LONG, is_xrc);
    let post_receive = || match &b.srq {
        Some(srq) => srq.post(1, &[b.sge(0, LONG)]).unwrap(),
        None => b.receive(1, 0, LONG),
    };
    let connect = || {
        b.init();
        post_receive();
        b.ready_to_receive(a.qp.number(), 4);
    };
    connect();
    a.init();
    a.ready(b.qp.number(), TIMEOUT, 7);
    pattern(a.buffer, 5);
    let sges = [a.sge(0, LONG)];
    let send = SendRequest {
        srq: b.srq.as_ref().map_or(0, |srq| srq.number()),
        ..request(IBV_WR_SEND, &sges)
    };
    a.post(&send);
    let reset = ibv_qp_attr {
        qp_state: IBV_QPS_RESET,
        ..Default::default()
    };
    b.qp.modify(&reset, IBV_QP_STATE).unwrap();
    connect();
    a.wait_ok();
    // The reset has removed the completion of an earlier message, but not that of a shared receive
    // queue; then the responder expects the first message, and does not answer the second.
    let mut was_reset = false;
    if let Some(received) = completion_soon(&b) {
        assert_eq!(received.status, IBV_WC_SUCCESS);
        assert_eq!((received.wr_id, received.byte_len), (1, LONG as u32));
        assert!(a.buffer == b.buffer, "the message arrived whole");
        post_receive();
        a.post(&send);
        let sent = a.wait();
        if !is_xrc || sent.status != IBV_WC_RETRY_EXC_ERR {
            assert_eq!(sent.status, IBV_WC_SUCCESS);
            b.wait_ok();
            was_reset = true;
        }
    }
    for side in [a, b] {
        side.qp.destroy().unwrap();
        if let Some(srq) = &side.srq {
            srq.destroy().unwrap();
        }
        side.region.deregister().unwrap();
    }
    was_reset
}

fn completion_soon(side: &Side) -> Option<ibv_wc> {
    let deadline = Instant::now() + Duration::from_millis(100);
    while Instant::now() < deadline {
        if let Some(completion) = side.cq.take() {
            return Some(completion.wc);
        }
    }
    None
}
