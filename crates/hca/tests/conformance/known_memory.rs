//! Writes to memory that earlier ones went to end as others do: the end of the right to it is the
//! end of that to known memory, too.

use crate::rig::*;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca::qp::{Bind, SendRequest};
use verbena_hca_memory::region::Region;
use verbena_hca_memory::window::Window;

/// Writes after which the memory is known, and one more.
const KNOWN: u64 = 4;

/// The two sides, and the key of the second one's memory.
struct Ends {
    a: Side,
    b: Side,
    key: u32,
}

impl Ends {
    /// Writes a word of `value` from an offset in the first buffer to one in the second. Returns
    /// the status.
    fn write(&self, from: &ibv_sge, to: usize) -> ibv_wc_status {
        let sges = [*from];
        self.a.post(&SendRequest {
            remote_address: self.b.address(to),
            rkey: self.key,
            ..request(IBV_WR_RDMA_WRITE, &sges)
        });
        self.a.wait().status
    }

    fn set_state(side: &Side, qp_state: ibv_qp_state) {
        let attributes = ibv_qp_attr {
            qp_state,
            ..Default::default()
        };
        side.qp.modify(&attributes, IBV_QP_STATE).unwrap();
    }
}

/// Something that happens between two writes. Returns the offset of the second one.
type Event = fn(&mut Ends) -> usize;

const EVENTS: [(&str, Event); 8] = [
    ("nothing", |_| 64),
    ("the region is deregistered", |ends| {
        let address = ends.b.address(0);
        let other = Region::register(&ends.b.pd, address, 8, address, ALL).unwrap();
        std::mem::replace(&mut ends.b.region, other)
            .deregister()
            .unwrap();
        64
    }),
    ("the write ends behind the region", |_| BUFFER - 4),
    ("the write begins behind the region", |_| BUFFER),
    ("the responder allows no writes", |ends| {
        let attributes = ibv_qp_attr {
            qp_access_flags: IBV_ACCESS_REMOTE_READ,
            ..Default::default()
        };
        ends.b.qp.modify(&attributes, IBV_QP_ACCESS_FLAGS).unwrap();
        64
    }),
    ("the responder fails", |ends| {
        Ends::set_state(&ends.b, IBV_QPS_ERR);
        64
    }),
    ("the responder begins anew", |ends| {
        Ends::set_state(&ends.b, IBV_QPS_RESET);
        ends.b.init();
        ends.b.ready(ends.a.qp.number(), 8, 7);
        64
    }),
    ("both begin anew", |ends| {
        for side in [&ends.a, &ends.b] {
            Ends::set_state(side, IBV_QPS_RESET);
        }
        ends.a.init();
        ends.b.init();
        ends.a.ready(ends.b.qp.number(), 8, 7);
        ends.b.ready(ends.a.qp.number(), 8, 7);
        64
    }),
];

fn ends() -> Ends {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, 8, 7);
    let key = b.region.key();
    Ends { a, b, key }
}

/// Returns the status of a write after an event, and whether its bytes are there.
fn outcome(event: Event, earlier: u64) -> (ibv_wc_status, bool) {
    let mut ends = ends();
    pattern(ends.a.buffer, 3);
    for index in 0..earlier as usize {
        let from = ends.a.sge(8 * index, 8);
        assert_eq!(ends.write(&from, 8 * index), IBV_WC_SUCCESS);
    }
    let to = event(&mut ends);
    let status = ends.write(&ends.a.sge(512, 8), to);
    let end = (to + 8).min(BUFFER);
    let is_there = to < BUFFER && ends.b.buffer[to..end] == ends.a.buffer[512..512 + end - to];
    (status, is_there)
}

#[test]
#[ignore = "run by path"]
fn case_writes_to_known_memory_end_as_others() {
    for (happens, event) in EVENTS {
        // After one, no memory is known yet.
        let unknown = outcome(event, 1);
        for earlier in [2, KNOWN, 2 * KNOWN] {
            let later = outcome(event, earlier);
            assert_eq!(later, unknown, "{happens}, after {earlier} writes");
        }
        assert_eq!(unknown.0 == IBV_WC_SUCCESS, unknown.1, "{happens}");
    }
}

#[test]
#[ignore = "run by path"]
fn case_a_source_that_was_deregistered_is_not_read() {
    let ends = ends();
    let address = ends.a.address(4096);
    let region = Region::register(&ends.a.pd, address, 4096, address, 0).unwrap();
    let from = ibv_sge {
        addr: address,
        length: 8,
        lkey: region.key(),
    };
    for _ in 0..KNOWN {
        assert_eq!(ends.write(&from, 0), IBV_WC_SUCCESS);
    }
    region.deregister().unwrap();
    assert_eq!(ends.write(&from, 0), IBV_WC_LOC_PROT_ERR);
}

#[test]
#[ignore = "run by path"]
fn case_a_closed_window_grants_no_writes_to_known_memory() {
    let mut ends = ends();
    let address = ends.b.address(0);
    let rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    let region = Region::register(&ends.b.pd, address, BUFFER as u64, address, rights).unwrap();
    let region = Arc::new(region);
    let window = Window::allocate(&ends.b.pd, IBV_MW_TYPE_2).unwrap();
    ends.key = window.next_key();
    let bind = Bind {
        window: &window,
        region: Some(&region),
        key: ends.key,
        address,
        length: 64,
        access: IBV_ACCESS_REMOTE_WRITE,
    };
    ends.b.post(&SendRequest {
        bind: Some(bind),
        ..request(IBV_WR_BIND_MW, &[])
    });
    ends.b.wait_ok();
    for _ in 0..KNOWN {
        assert_eq!(ends.write(&ends.a.sge(0, 8), 0), IBV_WC_SUCCESS);
    }
    ends.b.post(&SendRequest {
        immediate: ends.key,
        ..request(IBV_WR_LOCAL_INV, &[])
    });
    ends.b.wait_ok();
    assert_eq!(ends.write(&ends.a.sge(0, 8), 0), IBV_WC_REM_ACCESS_ERR);
    window.free();
}

#[test]
#[ignore = "run by path"]
fn case_writes_to_two_regions_in_turn_arrive() {
    let ends = ends();
    pattern(ends.a.buffer, 9);
    let half = BUFFER / 2;
    let regions = [0, half].map(|offset| {
        let address = ends.b.address(offset);
        Region::register(&ends.b.pd, address, half as u64, address, ALL).unwrap()
    });
    for round in 0..40usize {
        // Now and then the same one twice, so that it becomes known.
        let one = (round / 3) % 2;
        let (to, sges) = (one * half + 8 * round, [ends.a.sge(8 * round, 8)]);
        ends.a.post(&SendRequest {
            remote_address: ends.b.address(to),
            rkey: regions[one].key(),
            ..request(IBV_WR_RDMA_WRITE, &sges)
        });
        ends.a.wait_ok();
        assert_eq!(
            ends.b.buffer[to..to + 8],
            ends.a.buffer[8 * round..8 * round + 8]
        );
    }
}
