//! Child processes of a test and their use of the adapter. A child is this test program again,
//! running one of its ignored tests.
//!
//! Children report their progress on standard output, and get instructions on standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca::cq::Timestamps;
use verbena_hca::process::Cq;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit, SendRequest};
use verbena_hca_memory::domain::Pd;
use verbena_hca_net::device::Device;
use verbena_hca_shm::registry::{self, Registry};

/// Time limit that no step here may reach, even on a machine that gives a crowd a hundredth of a
/// processor: a process that takes longer is blocked for ever.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Returns a runtime directory for this test, which the last process removes.
pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("verbena-{name}-{}", std::process::id()))
}

/// A running child.
pub struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(directory: &Path, role: &str) -> Running {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--ignored", role])
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

    pub fn signal(&self, number: i32) {
        // SAFETY: the test's own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, number) }, 0);
    }

    pub fn write_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Returns the rest of the next line that begins with `word`. Lines of the test harness are
    /// skipped.
    pub fn hear(&mut self, word: &str) -> String {
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

    pub fn wait(mut self) {
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

/// A child's objects on the adapter.
pub struct Adapter {
    pub context: Arc<Context>,
    pub pd: Arc<Pd>,
    pub cq: Arc<Cq>,
}

impl Adapter {
    pub fn open() -> Adapter {
        let context = Context::open(Device::FIRST).unwrap();
        Adapter {
            pd: Pd::allocate(&context.process.memory).unwrap(),
            cq: Cq::create(
                &context.process,
                &context.events,
                1024,
                None,
                Timestamps::Off,
            )
            .unwrap(),
            context,
        }
    }

    pub fn queue_pair(&self) -> Arc<Qp> {
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
            loopback: Loopback::Wanted,
        };
        Qp::create(&self.context, init).unwrap()
    }

    /// Takes `count` completions, all successful.
    pub fn complete(&self, count: usize) {
        let deadline = Instant::now() + LIMIT;
        for done in 0..count {
            let wc = loop {
                if let Some(completion) = self.cq.take() {
                    break completion.wc;
                }
                assert!(
                    Instant::now() < deadline,
                    "{done} of {count} completions; {}",
                    self.situation()
                );
                std::thread::sleep(Duration::from_micros(200));
            };
            assert_eq!(wc.status, IBV_WC_SUCCESS);
        }
    }
}

impl Adapter {
    /// Describes this process when it is blocked: its peers and queue pairs, its registry entry,
    /// and where its threads are and how long they have run.
    fn situation(&self) -> String {
        let own = verbena_hca::describe::process(&self.context.process);
        let all = Registry::open_existing(&registry::directory())
            .map(|registry| registry.processes().into_iter().collect::<Vec<_>>());
        let mut words = format!("{own}\nregistry: {all:?}\n");
        for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            for file in ["comm", "stat", "wchan", "schedstat"] {
                let text = std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
                words.push_str(&format!("{file}: {} ", text.trim()));
            }
            words.push('\n');
        }
        words
    }
}

/// Sends a line to the parent.
pub fn say(line: &str) {
    println!("> {line}");
}

/// Returns the parent's next line.
pub fn heard() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

/// Returns a send request without data.
pub fn message() -> SendRequest<'static> {
    SendRequest {
        wr_id: 2,
        opcode: IBV_WR_SEND,
        flags: IBV_SEND_SIGNALED,
        ..SendRequest::default()
    }
}

/// Connects the queue pair with waits that never end: timeout 0, and unlimited RNR retries.
pub fn connect(qp: &Arc<Qp>, destination: u32) {
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
