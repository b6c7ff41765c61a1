//! Compare and swap, fetch and add.

use crate::rig::*;
use verbena_abi::*;
use verbena_hca::qp::SendRequest;

fn word(side: &Side, offset: usize) -> u64 {
    u64::from_ne_bytes(side.buffer[offset..offset + 8].try_into().unwrap())
}

#[test]
#[ignore = "run by path"]
fn case_atomics_return_the_previous_value() {
    let (a, b) = pair(IBV_QPT_RC);
    b.buffer[80..88].copy_from_slice(&40u64.to_ne_bytes());
    let sges = [a.sge(0, 8)];
    let base = SendRequest {
        remote_address: b.address(80),
        rkey: b.region.key(),
        ..request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sges)
    };
    a.post(&SendRequest {
        compare_add: 2,
        ..base
    });
    assert_eq!(a.wait_ok().opcode, IBV_WC_FETCH_ADD);
    assert_eq!((word(&a, 0), word(&b, 80)), (40, 42));
    let swap = SendRequest {
        opcode: IBV_WR_ATOMIC_CMP_AND_SWP,
        ..base
    };
    a.post(&SendRequest {
        compare_add: 41,
        swap: 7,
        ..swap
    });
    assert_eq!(a.wait_ok().opcode, IBV_WC_COMP_SWAP);
    assert_eq!((word(&a, 0), word(&b, 80)), (42, 42));
    a.post(&SendRequest {
        compare_add: 42,
        swap: 7,
        ..swap
    });
    a.wait_ok();
    assert_eq!((word(&a, 0), word(&b, 80)), (42, 7));
}

#[test]
#[ignore = "run by path"]
fn case_unaligned_atomic_is_refused() {
    let (a, b) = pair(IBV_QPT_RC);
    let sges = [a.sge(0, 8)];
    let add = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sges);
    a.post(&SendRequest {
        remote_address: b.address(4),
        rkey: b.region.key(),
        ..add
    });
    assert_eq!(a.wait().status, IBV_WC_REM_INV_REQ_ERR);
}
