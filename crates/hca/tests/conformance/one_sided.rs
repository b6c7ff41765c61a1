//! RDMA write and read.

use crate::path_under_test;
use crate::rig::*;
use verbena_abi::*;
use verbena_hca::qp::SendRequest;

const SIZES: [usize; 9] = [0, 1, 7, 8, 64, 4096, 4097, 100_000, 1 << 20];

#[test]
#[ignore = "run by path"]
fn case_writes_arrive_whole() {
    path_under_test().expect("run by path");
    for kind in [IBV_QPT_RC, IBV_QPT_UC] {
        let (a, b) = pair(kind);
        for (seed, size) in SIZES.into_iter().enumerate() {
            pattern(a.buffer, seed as u8);
            let sges = [a.sge(0, size)];
            let rkey = b.region.key();
            let write = request(IBV_WR_RDMA_WRITE, &sges);
            a.post(&SendRequest {
                remote_address: b.address(0),
                rkey,
                ..write
            });
            assert_eq!(a.wait_ok().opcode, IBV_WC_RDMA_WRITE);
            assert_eq!(a.buffer[..size], b.buffer[..size], "{size} bytes");
        }
    }
}

/// Writes alternate between the fast path and the general one: inline pieces, a solicited event, a
/// fence, a message in flight.
#[test]
#[ignore = "run by path"]
fn case_writes_of_every_kind_complete_in_order() {
    let (a, b) = pair(IBV_QPT_RC);
    pattern(a.buffer, 3);
    for wr_id in 0..40 {
        let offset = wr_id as usize * 16;
        let sges = [a.sge(offset, 8), a.sge(offset + 8, 8)];
        let all = [a.sge(offset, 16)];
        let kind = wr_id % 5;
        let sges = if kind == 1 { &sges[..] } else { &all[..] };
        if kind == 4 {
            b.receive(wr_id, 1 << 19, 16);
        }
        let extra = match kind {
            1 => IBV_SEND_INLINE,
            2 => IBV_SEND_FENCE,
            3 => IBV_SEND_SOLICITED,
            _ => 0,
        };
        let opcode = if kind == 4 {
            IBV_WR_SEND
        } else {
            IBV_WR_RDMA_WRITE
        };
        a.post(&SendRequest {
            wr_id,
            flags: extra | if wr_id % 2 == 1 { IBV_SEND_SIGNALED } else { 0 },
            remote_address: b.address(offset),
            rkey: b.region.key(),
            ..request(opcode, sges)
        });
    }
    for wr_id in (0..40).filter(|wr_id| wr_id % 2 == 1) {
        assert_eq!(a.wait_ok().wr_id, wr_id);
    }
    for wr_id in 0..40 {
        let range = wr_id * 16..wr_id * 16 + 16;
        if wr_id % 5 != 4 {
            assert_eq!(a.buffer[range.clone()], b.buffer[range], "write {wr_id}");
        } else {
            assert_eq!(b.wait_ok().wr_id, wr_id as u64);
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_reads_gather_and_scatter() {
    let (a, b) = pair(IBV_QPT_RC);
    for (seed, size) in SIZES.into_iter().enumerate() {
        pattern(b.buffer, seed as u8);
        a.buffer.fill(0);
        let half = size / 2;
        let sges = [a.sge(0, half), a.sge(half, size - half)];
        let rkey = b.region.key();
        let read = request(IBV_WR_RDMA_READ, &sges);
        a.post(&SendRequest {
            remote_address: b.address(0),
            rkey,
            ..read
        });
        assert_eq!(a.wait_ok().opcode, IBV_WC_RDMA_READ);
        assert_eq!(a.buffer[..size], b.buffer[..size], "{size} bytes");
        assert!(a.buffer[size..].iter().all(|byte| *byte == 0));
    }
}

#[test]
#[ignore = "run by path"]
fn case_inline_data_may_change_after_the_post() {
    let (a, b) = pair(IBV_QPT_RC);
    a.buffer[..100].fill(5);
    let sges = [ibv_sge {
        addr: a.address(0),
        length: 100,
        lkey: 0,
    }];
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    a.post(&SendRequest {
        flags: IBV_SEND_SIGNALED | IBV_SEND_INLINE,
        remote_address: b.address(9),
        rkey: b.region.key(),
        ..write
    });
    a.buffer[..100].fill(6);
    a.wait_ok();
    assert_eq!(
        b.buffer[8..110].iter().filter(|byte| **byte == 5).count(),
        100
    );
}

#[test]
#[ignore = "run by path"]
fn case_refusals_have_exact_status() {
    let wrong_key = |side: &Side| (side.address(0), side.region.key() ^ 0x5500);
    let beyond = |side: &Side| (side.address(BUFFER - 4), side.region.key());
    let before = |side: &Side| (side.address(0) - 1, side.region.key());
    type Aim = dyn Fn(&Side) -> (u64, u32);
    let aims: [&Aim; 3] = [&wrong_key, &beyond, &before];
    for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ] {
        for aim in aims {
            let (a, b) = pair(IBV_QPT_RC);
            let sges = [a.sge(0, 8)];
            let (remote_address, rkey) = aim(&b);
            a.post(&SendRequest {
                remote_address,
                rkey,
                ..request(opcode, &sges)
            });
            assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
            assert_eq!(a.qp.state(), IBV_QPS_ERR);
            a.post(&request(IBV_WR_SEND, &sges));
            assert_eq!(a.wait().status, IBV_WC_WR_FLUSH_ERR);
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_region_access_rights_are_enforced() {
    let (a, b) = pair_with(
        IBV_QPT_RC,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
        14,
        7,
    );
    let sges = [a.sge(0, 8)];
    let rkey = b.region.key();
    let read = request(IBV_WR_RDMA_READ, &sges);
    a.post(&SendRequest {
        remote_address: b.address(0),
        rkey,
        ..read
    });
    a.wait_ok();
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    a.post(&SendRequest {
        remote_address: b.address(0),
        rkey,
        ..write
    });
    assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

#[test]
#[ignore = "run by path"]
fn case_wrong_local_key_is_a_local_protection_error() {
    let (a, b) = pair(IBV_QPT_RC);
    let sges = [ibv_sge {
        lkey: 0xdead00,
        ..a.sge(0, 8)
    }];
    let rkey = b.region.key();
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    a.post(&SendRequest {
        remote_address: b.address(0),
        rkey,
        ..write
    });
    assert_eq!(a.wait().status, IBV_WC_LOC_PROT_ERR);
}

#[test]
#[ignore = "run by path"]
fn case_key_of_another_protection_domain_is_refused() {
    let (a, b) = pair(IBV_QPT_RC);
    let other = Side::new(IBV_QPT_RC, ALL);
    let sges = [a.sge(0, 8)];
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    let (remote_address, rkey) = (other.address(0), other.region.key());
    a.post(&SendRequest {
        remote_address,
        rkey,
        ..write
    });
    assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
    drop(b);
}

#[test]
#[ignore = "run by path"]
fn case_deregistered_region_is_unreachable() {
    let (a, b) = pair(IBV_QPT_RC);
    let rkey = b.region.key();
    b.region.deregister().unwrap();
    let sges = [a.sge(0, 8)];
    let write = request(IBV_WR_RDMA_WRITE, &sges);
    a.post(&SendRequest {
        remote_address: b.address(0),
        rkey,
        ..write
    });
    assert_eq!(a.wait().status, IBV_WC_REM_ACCESS_ERR);
}
