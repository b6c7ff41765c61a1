//! Prints the cost of the fabric interface over bare verbs calls: `overhead [LIBRARY]`, by default
//! with the system's libibverbs.

use std::time::Duration;
use verbena_fabric::FabricKind;
use verbena_fabric::verbs::{JobGroup, OpenRequest, Rail, VerbsProcess, WaitLimit, overhead};
use verbena_measure::clock::Clock;
use verbena_measure::processors;
use verbena_verbs::Library;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    let name = name
        .as_deref()
        .unwrap_or(verbena_verbs::library::SYSTEM_LIBRARY);
    if !processors::bind(&processors::allowed()[..1]) {
        eprintln!("not bound to a processor");
    }
    let (clock, wait_limit) = (Clock::best(), WaitLimit::new(Duration::from_secs(10)));
    let group = JobGroup::alone(clock.clone(), wait_limit.clone());
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
    let process = VerbsProcess::open(&Library::open(name)?, &request, group, clock, wait_limit)?;
    let found = overhead(&process)?;
    println!(
        "a write of 8 bytes, posted and polled: bare {:.1} ns, through the interface {:.1} ns; \
         the interface costs {:.1} ns",
        found.bare, found.interface, found.difference
    );
    Ok(())
}
