//! A queue pair is changed while its packets are sent again: no thread waits for another's lock for
//! ever.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca::cq::Timestamps;
use verbena_hca::process::Cq;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit, SendRequest};
use verbena_hca_memory::domain::Pd;
use verbena_hca_net::device::Device;
use verbena_hca_net::roce::route;

/// Enough for the locks to meet: without the order, one of some hundred rounds did not end.
const ROUNDS: u32 = 4000;
/// Time after which threads are taken to wait for each other: the rounds take 0.1 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// An address of the loopback interface, where no adapter answers.
const ABSENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Index of the local IPv4 address among the GIDs of the loopback interface.
const GID_INDEX: u8 = 1;

fn attributes() -> ibv_qp_attr {
    let mut attributes = ibv_qp_attr {
        port_num: 1,
        path_mtu: IBV_MTU_256,
        dest_qp_num: 0xab_cdef,
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 1,
        // 8 us, so that packets are sent again at once.
        timeout: 1,
        retry_cnt: 7,
        rnr_retry: 1,
        ..ibv_qp_attr::default()
    };
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.sgid_index = GID_INDEX;
    attributes.ah_attr.grh.dgid = route::gid(ABSENT.to_ipv6_mapped());
    attributes
}

fn connect(queue_pair: &Arc<Qp>) {
    let to = |state, mask| {
        let new = ibv_qp_attr {
            qp_state: state,
            ..attributes()
        };
        queue_pair.modify(&new, IBV_QP_STATE | mask).unwrap();
    };
    to(IBV_QPS_RESET, 0);
    to(
        IBV_QPS_INIT,
        IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    );
    let receiving = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    to(IBV_QPS_RTR, connected | receiving);
    let retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    to(IBV_QPS_RTS, IBV_QP_SQ_PSN | retries);
}

/// Connects and posts again and again.
fn work() {
    let context = Context::open(Device::FIRST).unwrap();
    let pd = Pd::allocate(&context.process.memory).unwrap();
    let (process, events) = (&context.process, &context.events);
    let cq = Cq::create(process, events, 64, None, Timestamps::Off).unwrap();
    let init = QpInit {
        kind: IBV_QPT_RC,
        pd: Some(pd),
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        srq: None,
        xrcd: None,
        cap: ibv_qp_cap {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        signal_all: true,
        loopback: Loopback::Wanted,
    };
    let queue_pair = Qp::create(&context, init).unwrap();
    let request = SendRequest {
        wr_id: 1,
        opcode: IBV_WR_SEND,
        flags: 0,
        immediate: 0,
        sges: &[],
        remote_address: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        srq: 0,
        address: None,
        remote_qpn: 0,
        remote_qkey: 0,
        bind: None,
    };
    for round in 0..ROUNDS {
        connect(&queue_pair);
        queue_pair.poster().post(&request).unwrap();
        // Until about the time at which the packet is sent again.
        for _ in 0..round % 64 {
            let mut completions = [ibv_wc::default(); 4];
            cq.poll(&mut completions);
        }
    }
}

#[test]
fn a_queue_pair_is_changed_while_its_packets_are_repeated() {
    let directory = std::env::temp_dir().join(format!("verbena-locks-{}", std::process::id()));
    // SAFETY: this is the only test of the program, and the adapter has no threads yet.
    unsafe {
        std::env::set_var("VERBENA_RUNTIME_DIR", &directory);
        std::env::set_var("VERBENA_LINK", "roce");
        std::env::set_var("VERBENA_INTERFACE", "lo");
    }
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        work();
        ended.send(()).unwrap();
    });
    let result = has_ended.recv_timeout(PATIENCE);
    result.expect("a thread waits for a lock, or has failed");
    let _ = std::fs::remove_dir_all(directory);
}
