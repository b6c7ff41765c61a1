//! 64 processes on one host, of which one is stopped: nobody but those who talk to it may notice.
//!
//! The test is the parent; its children are this program again, told by `VERBENA_CROWD` what to be. They say on standard
//! output how far they are, and are told on standard input how to go on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::context::{Context, Pd};
use verbena_hca::cq::{Cq, Timestamps};
use verbena_hca::qp::{Qp, QpInit, SendRequest};

/// Processes.
const CROWD: usize = 64;
/// Which of them is stopped.
const STOPPED: usize = 13;
/// Processes that come and go meanwhile.
const SHORT: usize = 200;
/// What nothing here may take, even on a busy machine. A process that is held up is held up for ever.
const LIMIT: Duration = Duration::from_secs(60);

fn main_of(role: &str) {
    match role {
        "member" => member(),
        "short" => {
            let adapter = Adapter::open();
            adapter.queue_pair();
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn one_that_is_stopped_holds_nobody_up() {
    if let Ok(role) = std::env::var("VERBENA_CROWD") {
        return main_of(&role);
    }
    let directory = std::env::temp_dir().join(format!("verbena-crowd-{}", std::process::id()));
    let mut crowd: Vec<Running> = (0..CROWD)
        .map(|_| Running::start(&directory, "member"))
        .collect();
    let numbers: Vec<String> = crowd.iter_mut().map(|one| one.hear("numbers")).collect();

    crowd[STOPPED].signal(libc::SIGSTOP);
    let began = Instant::now();
    for _ in 0..SHORT {
        Running::start(&directory, "short").wait();
    }
    eprintln!("{SHORT} short processes: {:?}", began.elapsed());

    let matrix = numbers.join(" ");
    let others = || (0..CROWD).filter(|index| *index != STOPPED);
    let began = Instant::now();
    for index in others() {
        crowd[index].tell(&format!("{index} {matrix}"));
    }
    for index in others() {
        crowd[index].hear("met all but one");
    }
    eprintln!("{} processes, all to all: {:?}", CROWD - 1, began.elapsed());

    crowd[STOPPED].signal(libc::SIGCONT);
    crowd[STOPPED].tell(&format!("{STOPPED} {matrix}"));
    for one in &mut crowd {
        one.hear("met all");
    }
    for one in &mut crowd {
        one.tell("leave");
    }
    for one in crowd {
        one.wait();
    }
    assert!(!directory.exists(), "the last one out removes the registry");
}

/// A child.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(directory: &Path, role: &str) -> Running {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "one_that_is_stopped_holds_nobody_up",
            ])
            .env("VERBENA_CROWD", role)
            .env("VERBENA_RUNTIME_DIR", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn signal(&self, number: i32) {
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, number) }, 0);
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// What follows `word` on the next line that begins with it. Lines of the test harness are passed over.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.output.read_line(&mut line).unwrap();
            assert_ne!(count, 0, "a process ended before it said: {word}");
            // The harness writes the test's name without ending the line.
            if let Some(at) = line.find(&format!("> {word}")) {
                return line[at + 2 + word.len()..].trim().to_owned();
            }
        }
    }

    fn wait(mut self) {
        drop(self.input);
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        panic!("a process is held up");
    }
}

/// What a child has of the adapter.
struct Adapter {
    context: Arc<Context>,
    pd: Arc<Pd>,
    cq: Arc<Cq>,
}

impl Adapter {
    fn open() -> Adapter {
        let context = Context::open().unwrap();
        Adapter {
            pd: Pd::allocate(&context).unwrap(),
            cq: Cq::create(&context, 1024, None, Timestamps::Off).unwrap(),
            context,
        }
    }

    fn queue_pair(&self) -> Arc<Qp> {
        let cap = ibv_qp_cap {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 64,
        };
        let init = QpInit {
            kind: IBV_QPT_RC,
            pd: Some(self.pd.clone()),
            send_cq: Some(self.cq.clone()),
            recv_cq: Some(self.cq.clone()),
            srq: None,
            xrcd: None,
            cap,
            signal_all: false,
        };
        Qp::create(&self.context, init).unwrap()
    }

    /// Takes `count` completions, all of success.
    fn complete(&self, count: usize) {
        let deadline = Instant::now() + LIMIT;
        for done in 0..count {
            let wc = loop {
                if let Some(completion) = self.cq.take() {
                    break completion.wc;
                }
                assert!(Instant::now() < deadline, "{done} of {count} completions");
                std::thread::sleep(Duration::from_micros(200));
            };
            assert_eq!(wc.status, IBV_WC_SUCCESS);
        }
    }
}

fn say(line: &str) {
    println!("> {line}");
}

fn heard() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

/// A queue pair for each other process, by its number; one message each way.
fn member() {
    let adapter = Adapter::open();
    let own: Vec<Arc<Qp>> = (0..CROWD).map(|_| adapter.queue_pair()).collect();
    let numbers: Vec<String> = own.iter().map(|qp| qp.number().to_string()).collect();
    say(&format!("numbers {}", numbers.join(",")));

    let line = heard();
    let mut words = line.split_whitespace();
    let me: usize = words.next().unwrap().parse().unwrap();
    let matrix: Vec<Vec<u32>> = words
        .map(|row| {
            row.split(',')
                .map(|number| number.parse().unwrap())
                .collect()
        })
        .collect();
    let began = Instant::now();
    for other in (0..CROWD).filter(|other| *other != me) {
        connect(&own[other], matrix[other][me]);
        own[other].post_receive(1, &[]).unwrap();
        own[other].poster().post(&message()).unwrap();
    }
    let took = began.elapsed();
    if me != STOPPED {
        // To all but the stopped one: a send and a receive.
        adapter.complete((CROWD - 2) * 2);
        say(&format!("met all but one; calls took {took:?}"));
        adapter.complete(2);
    } else {
        adapter.complete((CROWD - 1) * 2);
    }
    say("met all");
    heard();
    for qp in own {
        qp.destroy().unwrap();
    }
}

fn message() -> SendRequest<'static> {
    SendRequest {
        wr_id: 2,
        opcode: IBV_WR_SEND,
        flags: IBV_SEND_SIGNALED,
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
    }
}

/// Both sides wait for each other for ever: timeout 0, and RNR retries without end.
fn connect(qp: &Arc<Qp>, destination: u32) {
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        path_mtu: IBV_MTU_1024,
        dest_qp_num: destination,
        rnr_retry: 7,
        min_rnr_timer: 1,
        ..Default::default()
    };
    attributes.ah_attr.dlid = 1;
    attributes.ah_attr.port_num = 1;
    let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    qp.modify(&attributes, init).unwrap();
    attributes.qp_state = IBV_QPS_RTR;
    let ready_to_receive = IBV_QP_STATE
        | IBV_QP_AV
        | IBV_QP_PATH_MTU
        | IBV_QP_DEST_QPN
        | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER;
    qp.modify(&attributes, ready_to_receive).unwrap();
    attributes.qp_state = IBV_QPS_RTS;
    let ready_to_send = IBV_QP_STATE
        | IBV_QP_SQ_PSN
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_MAX_QP_RD_ATOMIC;
    qp.modify(&attributes, ready_to_send).unwrap();
}
