//! Completion queues that overrun (InfiniBand architecture specification 1.4, 10.2.6.3 and 11.6.3).

use crate::rig::{Side, pair, request};
use std::time::{Duration, Instant};
use verbena_abi::*;

const QUEUE: usize = 0x1000;
const QUEUE_PAIR: usize = 0x2000;

fn overrun(side: &Side, by: impl Fn()) {
    side.cq.set_cookie(QUEUE);
    side.qp.set_cookie(QUEUE_PAIR);
    side.cq.resize(2).unwrap();
    for _ in 0..3 {
        by();
    }
    let events = &side.context.events;
    let mut seen = [events.next().unwrap(), events.next().unwrap()];
    seen.sort_by_key(|event| event.element);
    assert_eq!(
        seen.map(|event| event.kind),
        [IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL]
    );
    assert_eq!(seen.map(|event| event.element), [QUEUE, QUEUE_PAIR]);
    assert_eq!(side.qp.state(), IBV_QPS_ERR);
    side.wait_ok();
    side.wait_ok();
    assert!(side.cq.take().is_none(), "nothing comes after the overrun");
}

/// Checks that requests to the failed queue pair get no answer.
fn is_lost(side: &Side, other: &Side) {
    let sges = [side.sge(0, 8)];
    let mut write = request(IBV_WR_RDMA_WRITE, &sges);
    write.remote_address = other.address(0);
    write.rkey = other.region.key();
    side.post(&write);
    assert_ne!(side.wait().status, IBV_WC_SUCCESS);
}

#[test]
#[ignore = "run by path"]
fn case_unpolled_send_completions_fail_the_queue_pair() {
    let (a, b) = pair(IBV_QPT_RC);
    overrun(&a, || {
        let sges = [a.sge(0, 8)];
        let mut write = request(IBV_WR_RDMA_WRITE, &sges);
        write.remote_address = b.address(0);
        write.rkey = b.region.key();
        a.post(&write);
        // On the slow paths a write needs a process that serves it, and whose queue stays empty.
        let patience = Instant::now() + Duration::from_millis(20);
        while Instant::now() < patience {
            assert!(b.cq.take().is_none());
        }
    });
    is_lost(&b, &a);
}

#[test]
#[ignore = "run by path"]
fn case_unpolled_receive_completions_fail_the_receiver() {
    let (a, b) = pair(IBV_QPT_RC);
    overrun(&b, || {
        b.receive(1, 0, 8);
        let sges = [a.sge(0, 8)];
        a.post(&request(IBV_WR_SEND, &sges));
        a.wait_ok();
    });
    is_lost(&a, &b);
}
