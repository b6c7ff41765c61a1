//! Memory windows.

use crate::rig::*;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca::qp::{Bind, SendRequest};
use verbena_hca_memory::region::Region;
use verbena_hca_memory::window::Window;

#[test]
#[ignore = "run by path"]
fn case_window_grants_part_of_a_region_until_closed() {
    let (a, b) = pair(IBV_QPT_RC);
    let address = b.address(0);
    let region = Arc::new(
        Region::register(
            &b.pd,
            address,
            BUFFER as u64,
            address,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
        )
        .unwrap(),
    );
    let window = Window::allocate(&b.pd, IBV_MW_TYPE_2).unwrap();
    let key = window.next_key();
    let bind = Bind {
        window: &window,
        region: Some(&region),
        key,
        address: address + 4096,
        length: 64,
        access: IBV_ACCESS_REMOTE_WRITE,
    };
    b.post(&SendRequest {
        bind: Some(bind),
        ..request(IBV_WR_BIND_MW, &[])
    });
    assert_eq!(b.wait_ok().opcode, IBV_WC_BIND_MW);
    let sges = [a.sge(0, 64)];
    let write = SendRequest {
        remote_address: address + 4096,
        rkey: key,
        ..request(IBV_WR_RDMA_WRITE, &sges)
    };
    a.post(&write);
    a.wait_ok();
    // Send with invalidate closes it at the receiver.
    b.receive(1, 0, 8);
    let sges = [a.sge(0, 8)];
    a.post(&SendRequest {
        immediate: key,
        ..request(IBV_WR_SEND_WITH_INV, &sges)
    });
    a.wait_ok();
    let received = b.wait_ok();
    assert_eq!(received.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
    a.post(&write);
    assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
    window.free();
}
