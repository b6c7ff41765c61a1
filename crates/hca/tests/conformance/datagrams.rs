//! Unreliable datagrams and multicast.

use crate::rig::*;
use verbena_abi::*;
use verbena_hca::ah::AddressHandle;
use verbena_hca::qp::SendRequest;

fn local() -> ibv_ah_attr {
    ibv_ah_attr {
        dlid: 1,
        port_num: 1,
        ..Default::default()
    }
}

#[test]
#[ignore = "run by path"]
fn case_datagram_follows_forty_bytes_of_grh() {
    let (a, b) = pair(IBV_QPT_UD);
    pattern(a.buffer, 2);
    let address =
        AddressHandle::create(&a.context.process, a.context.device, &a.pd, &local()).unwrap();
    b.receive(5, 0, 4136);
    let sges = [a.sge(0, 4096)];
    let send = SendRequest {
        address: Some(&address),
        remote_qpn: b.qp.number(),
        remote_qkey: QKEY,
        ..request(IBV_WR_SEND, &sges)
    };
    a.post(&send);
    a.wait_ok();
    let received = b.wait_ok();
    assert_eq!((received.byte_len, received.src_qp), (4136, a.qp.number()));
    assert_eq!(a.buffer[..4096], b.buffer[40..4136]);
    // With a wrong key, or without a posted receive, the datagram is dropped silently.
    a.post(&SendRequest {
        remote_qkey: QKEY + 1,
        ..send
    });
    a.post(&send);
    a.wait_ok();
    a.wait_ok();
    for _ in 0..1000 {
        assert!(b.cq.take().is_none());
    }
    let sges = [a.sge(0, 4097)];
    a.post(&SendRequest {
        sges: &sges,
        ..send
    });
    assert_eq!(a.wait().status, IBV_WC_LOC_LEN_ERR);
    assert_eq!(a.qp.state(), IBV_QPS_SQE);
}

#[test]
#[ignore = "run by path"]
fn case_group_members_get_a_copy_with_the_grh() {
    let (a, b) = pair(IBV_QPT_UD);
    let mut bytes = [0u8; 16];
    bytes[0] = 0xff;
    bytes[15] = 0x42;
    let group = ibv_gid::from_bytes(bytes);
    b.qp.attach(group).unwrap();
    a.qp.attach(group).unwrap();
    let mut attributes = local();
    attributes.is_global = 1;
    attributes.grh.dgid = group;
    attributes.dlid = 0xc001;
    let address =
        AddressHandle::create(&a.context.process, a.context.device, &a.pd, &attributes).unwrap();
    a.receive(1, 0, 100);
    b.receive(2, 0, 100);
    let sges = [a.sge(4096, 10)];
    a.post(&SendRequest {
        address: Some(&address),
        remote_qpn: 0xff_ffff,
        remote_qkey: QKEY,
        flags: 0,
        ..request(IBV_WR_SEND, &sges)
    });
    for side in [&a, &b] {
        let received = side.wait_ok();
        assert_eq!(received.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
        assert_eq!(side.buffer[24..40], bytes);
    }
    assert!(a.qp.destroy().is_err(), "a member cannot go");
    a.qp.detach(group).unwrap();
    b.qp.detach(group).unwrap();
    assert!(b.qp.detach(group).is_err());
}
