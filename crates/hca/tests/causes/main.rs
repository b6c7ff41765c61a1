//! Causes that rules plant (`verbena run --fault`): the consequences at both sides, on every path.
//!
//! The rules are read once in a process, so each path has a separate process. Its cases create
//! their queue pairs one after the other, and number them.

#[path = "../conformance/rig.rs"]
#[allow(dead_code, reason = "the conformance tests use the rest")]
mod rig;

use rig::{ALL, Side, pair_with, request};
use std::process::Command;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::qp::SendRequest;

/// Shortest timeout whose retries a busy machine does not exceed: 67 ms.
const TIMEOUT: u8 = 14;
const BYTES: usize = 100;

/// A rule and its consequences.
struct Case {
    /// Of the requester's queue pair: operation, number and status.
    rule: &'static str,
    opcode: ibv_wr_opcode,
    bytes: usize,
    /// Status of the request.
    status: ibv_wc_status,
    /// Status of the responder's receive, if it ends.
    receive: Option<ibv_wc_status>,
    /// State of the responder afterwards.
    state: ibv_qp_state,
    /// Event at the responder.
    event: Option<ibv_event_type>,
}

const fn local(rule: &'static str, opcode: ibv_wr_opcode, status: ibv_wc_status) -> Case {
    Case {
        rule,
        opcode,
        bytes: BYTES,
        status,
        receive: None,
        state: IBV_QPS_RTS,
        event: None,
    }
}

const fn refused(
    rule: &'static str,
    opcode: ibv_wr_opcode,
    bytes: usize,
    status: ibv_wc_status,
    event: ibv_event_type,
) -> Case {
    Case {
        rule,
        opcode,
        bytes,
        status,
        receive: None,
        state: IBV_QPS_ERR,
        event: Some(event),
    }
}

const fn received(
    rule: &'static str,
    opcode: ibv_wr_opcode,
    status: ibv_wc_status,
    receive: ibv_wc_status,
) -> Case {
    Case {
        rule,
        opcode,
        bytes: BYTES,
        status,
        receive: Some(receive),
        state: IBV_QPS_ERR,
        event: None,
    }
}

/// The third request of the requester fails, the first two and the receives before do not.
const CASES: &[Case] = &[
    local("send 3: local-length", IBV_WR_SEND, IBV_WC_LOC_LEN_ERR),
    local(
        "write 3: local-protection",
        IBV_WR_RDMA_WRITE,
        IBV_WC_LOC_PROT_ERR,
    ),
    local(
        "read 3: local-qp-operation",
        IBV_WR_RDMA_READ,
        IBV_WC_LOC_QP_OP_ERR,
    ),
    local("any 3: flush", IBV_WR_SEND_WITH_IMM, IBV_WC_WR_FLUSH_ERR),
    local("send 3: retry-exceeded", IBV_WR_SEND, IBV_WC_RETRY_EXC_ERR),
    local(
        "read 3: retry-exceeded",
        IBV_WR_RDMA_READ,
        IBV_WC_RETRY_EXC_ERR,
    ),
    local(
        "send 3: rnr-retry-exceeded",
        IBV_WR_SEND,
        IBV_WC_RNR_RETRY_EXC_ERR,
    ),
    local(
        "write 3: rnr-retry-exceeded",
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WC_RNR_RETRY_EXC_ERR,
    ),
    refused(
        "write 3: remote-access",
        IBV_WR_RDMA_WRITE,
        BYTES,
        IBV_WC_REM_ACCESS_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
    ),
    refused(
        "write 3: remote-access",
        IBV_WR_RDMA_WRITE,
        300_000,
        IBV_WC_REM_ACCESS_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
    ),
    refused(
        "read 3: remote-access",
        IBV_WR_RDMA_READ,
        BYTES,
        IBV_WC_REM_ACCESS_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
    ),
    refused(
        "fetch-add 3: remote-access",
        IBV_WR_ATOMIC_FETCH_AND_ADD,
        8,
        IBV_WC_REM_ACCESS_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
    ),
    refused(
        "any 3: remote-access",
        IBV_WR_ATOMIC_CMP_AND_SWP,
        8,
        IBV_WC_REM_ACCESS_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
    ),
    refused(
        "write 3: remote-invalid-request",
        IBV_WR_RDMA_WRITE,
        BYTES,
        IBV_WC_REM_INV_REQ_ERR,
        IBV_EVENT_QP_REQ_ERR,
    ),
    refused(
        "compare-swap 3: remote-invalid-request",
        IBV_WR_ATOMIC_CMP_AND_SWP,
        8,
        IBV_WC_REM_INV_REQ_ERR,
        IBV_EVENT_QP_REQ_ERR,
    ),
    refused(
        "read 3: remote-operation",
        IBV_WR_RDMA_READ,
        BYTES,
        IBV_WC_REM_OP_ERR,
        IBV_EVENT_QP_FATAL,
    ),
    refused(
        "write 3: remote-operation",
        IBV_WR_RDMA_WRITE,
        BYTES,
        IBV_WC_REM_OP_ERR,
        IBV_EVENT_QP_FATAL,
    ),
    received(
        "write 3: remote-access",
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WC_REM_ACCESS_ERR,
        IBV_WC_LOC_ACCESS_ERR,
    ),
    received(
        "send 3: remote-invalid-request",
        IBV_WR_SEND,
        IBV_WC_REM_INV_REQ_ERR,
        IBV_WC_LOC_LEN_ERR,
    ),
    received(
        "send 3: remote-operation",
        IBV_WR_SEND,
        IBV_WC_REM_OP_ERR,
        IBV_WC_LOC_PROT_ERR,
    ),
];

/// Rules of the responder's receives.
const RECEIVES: &[Case] = &[
    received(
        "recv 3: local-length",
        IBV_WR_SEND,
        IBV_WC_REM_INV_REQ_ERR,
        IBV_WC_LOC_LEN_ERR,
    ),
    received(
        "recv 3: local-protection",
        IBV_WR_SEND_WITH_IMM,
        IBV_WC_REM_OP_ERR,
        IBV_WC_LOC_PROT_ERR,
    ),
];

/// Returns the rules of all cases: the requesters have odd numbers, the responders even ones.
fn rules() -> String {
    let of = |first: usize, cases: &[Case]| -> Vec<String> {
        let rule =
            |(number, case): (usize, &Case)| format!("\nqp{}.{}", first + 2 * number, case.rule);
        cases.iter().enumerate().map(rule).collect()
    };
    let sends = of(1, CASES).concat();
    format!(
        "seed 1{sends}{}",
        of(2 * CASES.len() + 2, RECEIVES).concat()
    )
}

fn run_on(path: &str) {
    let name = format!("verbena-causes-{}-{path}", std::process::id());
    let directory = std::env::temp_dir().join(&name);
    let record = std::env::temp_dir().join(format!("{name}.record"));
    std::fs::write(&record, "").unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "child"])
        .env("VERBENA_PATH", path)
        .env("VERBENA_RUNTIME_DIR", &directory)
        .env("VERBENA_FAULTS", rules())
        .env("VERBENA_FAULTS_LOG", &record)
        .status()
        .unwrap();
    assert!(status.success(), "on path {path}");
    let fired = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    assert_eq!(
        fired.lines().count(),
        CASES.len() + RECEIVES.len(),
        "{fired}"
    );
}

#[test]
fn causes_have_their_consequences_on_path_mapped() {
    run_on("mapped");
}

#[test]
fn causes_have_their_consequences_on_path_cma() {
    run_on("cma");
}

#[test]
fn causes_have_their_consequences_on_path_ring() {
    run_on("ring");
}

#[test]
#[ignore = "a child of the others"]
fn child() {
    if std::env::var_os("VERBENA_FAULTS").is_none() {
        return;
    }
    for case in CASES.iter().chain(RECEIVES) {
        check(case);
    }
    unaffected();
}

fn post(a: &Side, b: &Side, case: &Case, wr_id: u64) {
    let sges = [a.sge(0, case.bytes)];
    a.post(&SendRequest {
        wr_id,
        remote_address: b.address(0),
        rkey: b.region.key(),
        ..request(case.opcode, &sges)
    });
}

fn check(case: &Case) {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, TIMEOUT, 1);
    // SAFETY: the call takes no pointers, and the queue owns its descriptor.
    let set = unsafe { libc::fcntl(b.context.events.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(set, 0);
    b.qp.set_cookie(1);
    let takes = matches!(
        case.opcode,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM
    );
    for wr_id in 0..5 {
        b.receive(wr_id, 0, case.bytes);
        a.receive(100, 0, case.bytes);
    }
    // Four at once: those before the failing one succeed, the one behind it is flushed.
    for wr_id in 1..5 {
        post(&a, &b, case, wr_id);
    }
    let all: Vec<(u64, ibv_wc_status)> = (0..9)
        .map(|_| a.wait())
        .map(|wc| (wc.wr_id, wc.status))
        .collect();
    let (receives, found): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.0 == 100);
    let wanted = [
        (1, IBV_WC_SUCCESS),
        (2, IBV_WC_SUCCESS),
        (3, case.status),
        (4, IBV_WC_WR_FLUSH_ERR),
    ];
    assert_eq!(found, wanted, "{}", case.rule);
    assert_eq!(a.qp.state(), IBV_QPS_ERR, "{}", case.rule);
    assert_eq!(receives, [(100, IBV_WC_WR_FLUSH_ERR); 5], "{}", case.rule);
    let deadline = Instant::now() + Duration::from_secs(20);
    while b.qp.state() != case.state {
        assert!(Instant::now() < deadline, "{}: {}", case.rule, b.qp.state());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut statuses = Vec::new();
    if takes {
        statuses.extend([IBV_WC_SUCCESS; 2]);
    }
    statuses.extend(case.receive);
    if case.state == IBV_QPS_ERR {
        statuses.resize(5, IBV_WC_WR_FLUSH_ERR);
    }
    for wanted in statuses {
        assert_eq!(b.wait().status, wanted, "{}", case.rule);
    }
    assert!(b.cq.take().is_none(), "{}", case.rule);
    let events: Vec<ibv_event_type> = std::iter::from_fn(|| b.context.events.next().ok())
        .map(|event| event.kind)
        .collect();
    assert_eq!(events, Vec::from_iter(case.event), "{}", case.rule);
}

/// A queue pair without rules beside those with rules succeeds.
fn unaffected() {
    let (a, b) = pair_with(IBV_QPT_RC, ALL, TIMEOUT, 1);
    for case in CASES {
        b.receive(0, 0, case.bytes);
        post(&a, &b, case, 1);
        a.wait_ok();
    }
}
