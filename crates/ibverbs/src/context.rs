//! Opening the device: ibv_open_device(3), ibv_close_device(3), ibv_import_device(3).
//!
//! A program holds a pointer to the `ibv_context` at the end of a `verbs_context`; the header's
//! inline functions reach the slots before it from there. Every slot is filled, so that each fails
//! in its own convention instead of the header's default.

use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca::device::Device;
use verbena_hca::roce::management::set_agent;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::handle::{Handle, Object};
use crate::{device, outcome, table};

/// An opened device.
pub struct ContextObject {
    /// The adapter's object.
    pub context: Arc<Context>,
    /// Open for the program, and registered while the device is open.
    _command: Command,
}

impl Object for ContextObject {
    type C = verbs_context;
    const TAG: [u8; 4] = *b"ctx ";
}

/// Offset of the `ibv_context` in the structure created by [`Handle::create`].
const INNER: usize = offset_of!(verbs_context, context);

/// Returns the object behind a context pointer.
///
/// # Errors
/// EINVAL for null, and if the tag shows that it is something else.
///
/// # Safety
/// `context` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Handle<ContextObject>> {
    if context.is_null() {
        return Err(refused!(
            EINVAL,
            "the ibv_context is NULL: check whether ibv_open_device failed"
        ));
    }
    // SAFETY: a live context is at this offset in its handle.
    unsafe { Handle::of(context.byte_sub(INNER).cast()) }
}

/// Returns the device that a context has opened.
///
/// # Errors
/// Those of [`of`].
///
/// # Safety
/// That of [`of`].
pub unsafe fn device(context: *mut ibv_context) -> Result<Device> {
    // SAFETY: the caller promises null, live or valid pointers.
    Ok(unsafe { of(context) }?.object.context.device)
}

/// Opens the device.
///
/// # Safety
/// `device` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    outcome::pointer(
        "ibv_open_device",
        device::of(device).and_then(|device| open(device, Command::create(device)?)),
    )
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
    set_agent(verbena_rdmacm::inbox::AGENT);
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

/// Closes the device. Objects that the program has not destroyed stay as they are.
///
/// # Safety
/// `context` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the caller promises null, or a live pointer that is not used again.
    outcome::minus_one("ibv_close_device", unsafe {
        of(context).map(|handle| drop(Handle::<ContextObject>::destroy(handle.c())))
    })
}

/// The descriptor of an open device (`cmd_fd`): an anonymous file, so that its inode identifies
/// duplicates.
struct Command {
    descriptor: OwnedFd,
    inode: u64,
}

/// Inodes of the descriptors of open devices.
static OPEN: Mutex<Vec<(u64, Device)>> = Mutex::new(Vec::new());

fn open_devices() -> MutexGuard<'static, Vec<(u64, Device)>> {
    OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Command {
    fn create(device: Device) -> Result<Command> {
        // SAFETY: a C string; the result is checked before it is owned.
        let descriptor = unsafe { libc::memfd_create(c"verbena".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor was just created, so nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let inode = inode(descriptor.as_raw_fd())?;
        Ok(Command::register(descriptor, inode, device))
    }

    fn import(descriptor: RawFd) -> Result<(Device, Command)> {
        let inode = inode(descriptor)?;
        let known = open_devices().iter().find(|open| open.0 == inode).copied();
        let Some((_, device)) = known else {
            return Err(refused!(
                EOPNOTSUPP,
                "cmd_fd {descriptor} is not that of a device opened by this process: the software \
                 adapter's objects belong to the process that created them, so open the device \
                 here"
            ));
        };
        // SAFETY: the program transfers the duplicate (ibv_import_device(3)).
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok((device, Command::register(descriptor, inode, device)))
    }

    fn register(descriptor: OwnedFd, inode: u64, device: Device) -> Command {
        open_devices().push((inode, device));
        Command { descriptor, inode }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let mut open = open_devices();
        if let Some(position) = open.iter().position(|open| open.0 == self.inode) {
            open.swap_remove(position);
        }
    }
}

fn inode(descriptor: RawFd) -> Result<u64> {
    // SAFETY: zeros are a valid value of this structure of integers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is writable during the call.
    if unsafe { libc::fstat(descriptor, &mut status) } != 0 {
        return Err(Errno::last());
    }
    Ok(status.st_ino)
}
