//! Outcomes of requests that the responder has executed, and whose acknowledgement is late or lost.

use verbena_abi as abi;
use verbena_oracle::program::{CqId, ProcessId, Program, QpId};
use verbena_oracle::reference::candidate_states::{CandidateStates, Seen};

/// Two connected queue pairs of two processes. The requester qp6 has the rules and retries.
fn candidates(rules: &str, retry: u8, steps: &str) -> CandidateStates {
    let text = format!(
        "program processes=2 arena=24576 waits=polling\n{rules}\
         p0 alloc_pd(pd=pd0)\n\
         p0 reg_mr(mr=mr1,pd=pd0,at=0,len=16384,access=lw+rw+rr+ra+mb)\n\
         p0 create_cq(cq=cq2,depth=64)\n\
         p1 alloc_pd(pd=pd3)\n\
         p1 reg_mr(mr=mr4,pd=pd3,at=0,len=16384,access=lw+rw+rr+ra+mb)\n\
         p1 create_cq(cq=cq5,depth=64)\n\
         p0 create_qp(qp=qp6,service=rc,pd=pd0,send_cq=cq2,recv_cq=cq2,srq=none,all_signaled=no)\n\
         p1 create_qp(qp=qp7,service=rc,pd=pd3,send_cq=cq5,recv_cq=cq5,srq=none,all_signaled=no)\n\
         p0 init(qp=qp6,access=lw+rw+rr+ra)\n\
         p1 init(qp=qp7,access=lw+rw+rr+ra)\n\
         p0 rtr(qp=qp6,peer=qp7,psn=1,rnr_timer=1)\n\
         p1 rtr(qp=qp7,peer=qp6,psn=2,rnr_timer=1)\n\
         p0 rts(qp=qp6,psn=2,retry={retry},rnr_retry=7)\n\
         p1 rts(qp=qp7,psn=1,retry=2,rnr_retry=7)\n{steps}\n"
    );
    let program: Program = text.parse().expect("a program");
    let mut candidates = CandidateStates::new(&program);
    for step in &program.steps {
        assert!(candidates.step(step).is_ok(), "{step}");
    }
    candidates
}

const RECEIVE: &str = "p1 post_recv(qp=qp7,wrs=[wr(id=1,sges=[4096+64@mr4])])\n";
const SEND: &str = "p0 post_send(qp=qp6,wrs=[wr(id=2,do=send(),sges=[64+24@mr1],flags=signaled)])";
const LOSS: &str = "rule p0 link.in every 3: loss\n";

fn sent(id: u64, status: u32, opcode: u32) -> Seen {
    Seen {
        cq: CqId(2),
        qp: Some(QpId(6)),
        id,
        status,
        opcode,
        byte_len: 0,
        carried: 0,
        flags: 0,
        sum: None,
    }
}

fn received() -> Seen {
    Seen {
        cq: CqId(5),
        qp: Some(QpId(7)),
        byte_len: 24,
        ..sent(1, abi::IBV_WC_SUCCESS, abi::IBV_WC_RECV)
    }
}

/// Returns whether the program may observe exactly these completions.
fn allows(candidates: &CandidateStates, seen: &[Seen]) -> bool {
    let mut candidates = candidates.clone();
    let all = seen.iter().all(|one| candidates.completed(one).is_ok());
    all && candidates.settle().is_ok()
}

#[test]
fn executed_request_may_exhaust_its_retries() {
    let candidates = candidates(LOSS, 0, &format!("{RECEIVE}{SEND}"));
    let success = sent(2, abi::IBV_WC_SUCCESS, abi::IBV_WC_SEND);
    let exhausted = sent(2, abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_SEND);
    let flushed = sent(2, abi::IBV_WC_WR_FLUSH_ERR, abi::IBV_WC_SEND);
    assert!(allows(&candidates, &[received(), success]));
    assert!(allows(&candidates, &[received(), exhausted]));
    assert!(allows(&candidates, &[exhausted]));
    assert!(!allows(&candidates, &[success]), "success, not executed");
    assert!(!allows(&candidates, &[received()]), "no end");
    assert!(!allows(&candidates, &[received(), flushed]), "no reason");
}

#[test]
fn retries_hide_single_losses() {
    let candidates = candidates(LOSS, 1, &format!("{RECEIVE}{SEND}"));
    let exhausted = sent(2, abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_SEND);
    assert!(!allows(&candidates, &[received(), exhausted]));
    assert!(!allows(&candidates, &[exhausted]));
}

#[test]
fn request_without_a_receive_may_be_lost_before() {
    let exhausted = sent(2, abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_SEND);
    let lossy = candidates(LOSS, 0, SEND);
    assert!(allows(&lossy, &[]), "it waits");
    assert!(allows(&lossy, &[exhausted]));
    assert!(!allows(&candidates(LOSS, 1, SEND), &[exhausted]));
}

#[test]
fn requests_behind_a_lost_acknowledgement_are_executed_and_flushed() {
    let steps = format!(
        "{RECEIVE}p0 post_send(qp=qp6,wrs=[\
         wr(id=2,do=write(to=8192@mr4),sges=[64+24@mr1],flags=signaled);\
         wr(id=3,do=send(),sges=[64+24@mr1],flags=signaled)])"
    );
    let candidates = candidates(LOSS, 0, &steps);
    let exhausted = sent(2, abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_RDMA_WRITE);
    let flushed = sent(3, abi::IBV_WC_WR_FLUSH_ERR, abi::IBV_WC_SEND);
    let success = sent(3, abi::IBV_WC_SUCCESS, abi::IBV_WC_SEND);
    assert!(allows(&candidates, &[received(), exhausted, flushed]));
    assert!(allows(&candidates, &[exhausted, flushed]));
    assert!(!allows(&candidates, &[received(), exhausted, success]));
}

/// qp7 sends to qp6, which has no receive memory for it and fails; the write of qp6 before was
/// executed.
#[test]
fn silent_request_may_be_flushed_when_its_queue_pair_fails_as_responder() {
    let steps = "p0 post_recv(qp=qp6,wrs=[wr(id=1,sges=[4096+64@bad])])\n\
         p0 post_send(qp=qp6,wrs=[wr(id=2,do=write(to=8192@mr4),sges=[64+24@mr1],flags=-)])\n\
         p1 post_send(qp=qp7,wrs=[wr(id=3,do=send(),sges=[64+24@mr4],flags=signaled)])";
    let candidates = candidates("", 1, steps);
    let receive = sent(1, abi::IBV_WC_LOC_PROT_ERR, abi::IBV_WC_RECV);
    let refused = Seen {
        cq: CqId(5),
        qp: Some(QpId(7)),
        ..sent(3, abi::IBV_WC_REM_OP_ERR, abi::IBV_WC_SEND)
    };
    let flushed = sent(2, abi::IBV_WC_WR_FLUSH_ERR, abi::IBV_WC_RDMA_WRITE);
    let exhausted = sent(2, abi::IBV_WC_RETRY_EXC_ERR, abi::IBV_WC_RDMA_WRITE);
    assert!(allows(&candidates, &[receive, refused]));
    assert!(allows(&candidates, &[receive, refused, flushed]));
    assert!(!allows(&candidates, &[receive, refused, exhausted]));
}

#[test]
fn flushed_atomic_leaves_its_local_memory_undefined_and_is_executed_once() {
    let steps = "together\n\
         p0 post_send(qp=qp6,wrs=[wr(id=2,do=fetch_add(at=8192@mr4,add=3),sges=[512+8@mr1],\
         flags=signaled)])\n\
         p0 modify(qp=qp6,to=err)\nend";
    let start = candidates("", 1, "");
    let bytes = |process: usize| start.worlds()[0].memory[process].slice(0..24576);
    let known = |process| bytes(process).known().expect("the pattern of the process");
    let (mut local, mut remote) = (known(0), known(1));
    let mut candidates = candidates("", 1, steps);
    let flushed = sent(2, abi::IBV_WC_WR_FLUSH_ERR, abi::IBV_WC_FETCH_ADD);
    candidates.completed(&flushed).expect("it may be flushed");

    let old = u64::from_le_bytes(remote[8192..8200].try_into().expect("8 bytes"));
    for (added, is_right) in [(0, true), (3, true), (6, false)] {
        remote[8192..8200].copy_from_slice(&(old + added).to_le_bytes());
        assert_eq!(
            candidates.clone().holds(ProcessId(1), &remote).is_ok(),
            is_right,
            "{added}"
        );
    }
    remote[8192..8200].copy_from_slice(&(old + 3).to_le_bytes());
    candidates.holds(ProcessId(1), &remote).expect("executed");
    local[512] ^= 1;
    assert!(candidates.clone().holds(ProcessId(0), &local).is_ok());
    local[520] ^= 1;
    assert!(candidates.clone().holds(ProcessId(0), &local).is_err());
}
