//! Opening the device: ibv_open_device(3), ibv_import_device(3).
//!
//! Every slot of a context is filled, so that each fails in its own convention instead of the
//! header's default.

use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::{ptr, thread};

use libc::c_int;
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca_net::device::Device;
use verbena_hca_net::roce::management::set_agent;
use verbena_hca_os::errno::{Errno, Result};

use crate::command::Command;
use crate::context::ContextObject;
use crate::handle::Handle;
use crate::{device, outcome, table};

/// Opens the device.
///
/// # Safety
/// `device` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    outcome::pointer(
        "ibv_open_device",
        device::of(device).and_then(|device| {
            let opened = Command::create(device).and_then(|command| open(device, command));
            opened.inspect_err(|error| report_exhaustion(device, *error))
        }),
    )
}

/// Reports an exhausted limit, once: many programs print no reason if the device does not open.
fn report_exhaustion(device: Device, error: Errno) {
    static REPORTED: Once = Once::new();
    if let Some(remedy) = error.remedy() {
        let name = device.name();
        REPORTED.call_once(|| eprintln!("verbena: cannot open {name}: {error}; {remedy}"));
    }
}

/// Opens the device of another context of this process, given a duplicate of its `cmd_fd`.
///
/// The software adapter's objects exist only in the process that created them; another process
/// cannot import them, and gets EOPNOTSUPP.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    outcome::pointer(
        "ibv_import_device",
        Command::import(cmd_fd).and_then(|(device, command)| open(device, command)),
    )
}

fn open(which: Device, command: Command) -> Result<*mut ibv_context> {
    let context = Context::open(which)?;
    // The host answers connection requests even if its processes are busy.
    set_agent(verbena_rdmacm::start::AGENT);
    let mut c = verbs_context {
        sz: size_of::<verbs_context>(),
        context: ibv_context {
            device: device::shown(which),
            cmd_fd: command.descriptor.as_raw_fd(),
            async_fd: context.events.fd(),
            num_comp_vectors: vectors(),
            abi_compat: VERBS_ABI_IS_EXTENDED,
            ..Default::default()
        },
        ..Default::default()
    };
    table::fill(&mut c);
    // SAFETY: the structure is local and its mutex not in use.
    unsafe {
        let mutex = (&raw mut c.context.mutex).cast::<libc::pthread_mutex_t>();
        libc::pthread_mutex_init(mutex, ptr::null());
    }
    let handle = Handle::create(
        c,
        ContextObject {
            context,
            _command: command,
        },
    );
    // SAFETY: the field is inside the handle that was just created.
    Ok(unsafe { &raw mut (*handle).context })
}

/// Returns the number of completion vectors: one per processor, as programs spread their queues
/// over them, up to 64.
fn vectors() -> c_int {
    thread::available_parallelism().map_or(1, |n| n.get().min(64) as c_int)
}
