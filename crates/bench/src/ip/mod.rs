//! The IP interfaces that `ip.*` measure: those of a hardware adapter, or two that the software
//! adapter carries.

mod hardware;
mod software;

pub use software::{Question, SOCKETS_COMMAND, answer, note_processors};

use crate::host::Host;
use crate::plan::Task;
use verbena_fabric::verbs::VerbsProcess;
use verbena_fabric::{Error, Fabric, Group, Result};
use verbena_workloads::ip_interface::Interface;

/// Opens the interfaces of this process, one of the first pair of the job. `number` is the same in
/// both processes of the pair, and differs from that of other jobs.
///
/// # Errors
///
/// [`Error::Unsupported`] if the adapter has none that the pair can use; another error if one
/// cannot be made.
pub fn open(
    host: &dyn Host,
    task: &Task,
    fabric: &VerbsProcess,
    number: u32,
) -> Result<Vec<Interface>> {
    let group = fabric.group();
    let pair = group.pairing()[0];
    let is_one_host = group.node_of(pair[0]) == group.node_of(pair[1]);
    let unsupported =
        |what: &str| Error::unsupported(what.to_owned(), fabric.capabilities().device.clone());
    match (task.target.kind.as_str(), is_one_host) {
        ("hardware", true) => Err(unsupported(
            "an IP interface between processes of one host: the kernel keeps packets to its own \
             addresses off the adapter; ip.* with two hosts",
        )),
        ("hardware", false) => hardware::open(host, &task.target),
        (_, false) => Err(unsupported("ip.* between processes of several hosts")),
        (_, true) => software::open(number, usize::from(group.rank() == pair[1])),
    }
}
