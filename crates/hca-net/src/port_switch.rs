//! Takes InfiniBand ports down and up for all processes of a registry (`verbena port`).

use crate::device::Device;
use crate::link::{self, FIRST_PORT};
use std::path::Path;
use std::sync::atomic::Ordering;
use verbena_hca_memory::socket_message;
use verbena_hca_os::errno::Result;
use verbena_hca_shm::registry::Registry;

/// Returns the word of the registry at `directory`; 0 where there is none with a live process.
pub fn now(directory: &Path) -> u64 {
    let word = || {
        let registry = Registry::open_existing(directory).ok()?;
        let word = registry.ports_down().load(Ordering::SeqCst);
        Some((registry, word))
    };
    match word() {
        Some((_, 0)) | None => 0,
        Some((registry, _)) => {
            registry.sweep();
            word().map_or(0, |(_, word)| word)
        }
    }
}

/// Takes the port of an InfiniBand device down or up for all processes of the registry at
/// `directory`. Returns each process with whether it has acknowledged that.
///
/// # Errors
/// ENOENT where no process has made a registry; as [`Registry::open_existing`].
pub fn set(directory: &Path, device: Device, is_down: bool) -> Result<Vec<(u32, Result<()>)>> {
    let registry = Registry::open_existing(directory)?;
    let port = FIRST_PORT + device.index();
    match is_down {
        true => registry
            .ports_down()
            .fetch_or(link::bit(port), Ordering::SeqCst),
        false => registry
            .ports_down()
            .fetch_and(!link::bit(port), Ordering::SeqCst),
    };
    registry.sweep();
    let ask = |(identity, pid)| {
        let asked = registry
            .connect(identity)
            .and_then(|socket| socket_message::ask_to_look_at_ports(&socket));
        // A process that has ended meanwhile needs no port.
        (asked.is_ok() || registry.is_alive(identity)).then_some((pid, asked))
    };
    Ok(registry.processes().into_iter().filter_map(ask).collect())
}
