//! The software adapter, accessed through verbs by two processes, keeps the contract of the fabric
//! interface over each of its paths.

#[allow(dead_code, reason = "this test needs the library alone, no C programs")]
#[path = "../../ibverbs/tests/common/mod.rs"]
mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;
use verbena_fabric::FabricKind;
use verbena_fabric::conformance::{CHECKS, Outcome, check};
use verbena_fabric::executor::block_on;
use verbena_fabric::verbs::{
    Hub, JobGroup, JobPlacement, OpenRequest, Rail, Rendezvous, Secret, VerbsProcess, WaitLimit,
    connect_to_hub,
};
use verbena_measure::clock::Clock;
use verbena_verbs::Library;

/// Environment variable with a process's rank, exchange address, secret and library, separated by
/// spaces.
const PLAN: &str = "VERBENA_CONFORMANCE_PLAN";

#[test]
fn the_verbs_fabric_conforms() {
    let library = common::library_directory().join("libibverbs.so.1");
    for path in ["mapped", "cma", "ring"] {
        let runtime =
            std::env::temp_dir().join(format!("verbena-conformance-{path}-{}", std::process::id()));
        let secret = Secret::random();
        let hub = Hub::listen("127.0.0.1:0", "conformance", &secret, 2).unwrap();
        let start = |rank: usize| -> Child {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_process", "--ignored", "--nocapture"])
                .env(
                    PLAN,
                    format!(
                        "{rank} {} {} {}",
                        hub.address(),
                        secret.reveal(),
                        library.display()
                    ),
                )
                .env("VERBENA_RUNTIME_DIR", &runtime)
                .env("VERBENA_PATH", path)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let processes = [start(0), start(1)];
        for (rank, process) in processes.into_iter().enumerate() {
            let ended = process.wait_with_output().unwrap();
            assert!(
                ended.status.success(),
                "{path}, process {rank}: {}\n{}",
                String::from_utf8_lossy(&ended.stdout),
                String::from_utf8_lossy(&ended.stderr)
            );
        }
        let _ = std::fs::remove_dir_all(&runtime);
    }
}

#[test]
#[ignore = "a process of the job that the test above starts"]
fn a_process() {
    let plan = std::env::var(PLAN).expect("started by the_verbs_fabric_conforms");
    let [rank, hub, secret, library] = plan.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{plan}");
    };
    let rank: usize = rank.parse().unwrap();
    let mut wait_limit = WaitLimit::new(Duration::from_secs(10));
    // Two processes and their helper threads may share a core here.
    wait_limit.yielding = true;
    let clock = Clock::system();
    let meet = || Ok(Rendezvous::at(hub, &Secret::told(secret)));
    let exchange = connect_to_hub(meet, "conformance", rank, &wait_limit).unwrap();
    let placement = JobPlacement {
        rank,
        nodes: vec![0; 2],
        machines: vec![0; 2],
        addresses: vec![None; 2],
    };
    let group = JobGroup::new(
        placement,
        Some(exchange),
        None,
        clock.clone(),
        wait_limit.clone(),
    );
    let request = OpenRequest {
        kind: FabricKind::Software,
        rails: vec![Rail {
            device: None,
            port: 1,
        }],
        gid_index: None,
        marks: Default::default(),
        ordering: Default::default(),
    };
    let library = Library::open(library).unwrap();
    let process = VerbsProcess::open(&library, &request, group, clock, wait_limit).unwrap();
    for name in CHECKS {
        let outcome = block_on(check(&process, name));
        assert_eq!(outcome, Ok(Outcome::Holds), "{name}");
    }
}
