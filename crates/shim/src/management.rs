//! The device files of management datagrams, `/dev/infiniband/umad<N>` and `issm<N>`, of a program
//! on a fabric (`verbena fabric`).
//!
//! A descriptor of such a file is a socket to the process that keeps the fabric, so poll, dup, fork
//! and close need nothing. A write is a message. A read takes a message, unless the buffer is too
//! small: then it fails and the message stays, as in the kernel. ioctl is a message with a
//! descriptor over which the answer comes.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_ulong, c_void, iovec, msghdr, sockaddr_un, ssize_t};
use verbena_fabric_protocol::{Hello, MAGIC, Purpose, WRITE};

use crate::errno;
use crate::kernel::system_call;
use crate::kinds::{self, DescriptorKind};
use crate::place::{LONGEST, Node};

/// Requests of ioctl(2) and the sizes of their arguments (include/uapi/rdma/ib_user_mad.h).
const REGISTER_AGENT: u32 = 0xc01c_1b01;
const REGISTER_AGENT2: u32 = 0xc028_1b04;
const ARGUMENTS: [(u32, usize); 4] = [
    (REGISTER_AGENT, 28),
    (REGISTER_AGENT2, 40),
    (0x4004_1b02, 4),
    (0x1b03, 0),
];
/// Requests that the kernel carries out for every file: FIONBIO, FIONCLEX and FIOCLEX. Their type
/// in `libc` depends on the C library.
const FOR_ANY_FILE: [u32; 3] = [0x5421, 0x5450, 0x5451];
/// Sizes of a header, of a datagram, and of both.
const HEADER: usize = 64;
const SEGMENT: usize = HEADER + 256;
/// The longest argument.
const LONGEST_ARGUMENT: usize = 40;
/// Wanted size of a socket's buffer; the kernel limits it.
static BUFFER: c_int = 8 << 20;
/// Seconds after which a process that keeps the fabric, but does not answer, counts as gone.
const PATIENCE: libc::time_t = 20;

/// The directory of the program's node, written before the program runs.
static mut ROOT: [u8; LONGEST] = [0; LONGEST];
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Reads the environment variable.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = {
    extern "C" fn prepare() {
        // SAFETY: a C string; the result is null or a C string. No other thread runs yet.
        unsafe {
            let value = libc::getenv(c"VERBENA_FABRIC".as_ptr());
            if value.is_null() {
                return;
            }
            let length = libc::strlen(value);
            if length == 0 || length >= LONGEST || *value as u8 != b'/' {
                return;
            }
            std::ptr::copy_nonoverlapping(value.cast(), (&raw mut ROOT).cast::<u8>(), length);
            LENGTH.store(length, Ordering::Release);
        }
    }
    prepare
};

/// Returns the directory of the program's node; `None` if the program is on no fabric.
pub fn root() -> Option<&'static [u8]> {
    match LENGTH.load(Ordering::Acquire) {
        0 => None,
        // SAFETY: written before `LENGTH`, and never again.
        length => Some(unsafe { std::slice::from_raw_parts((&raw const ROOT).cast(), length) }),
    }
}

/// Agents that the program registered by a descriptor, as bits.
static AGENTS: [AtomicU32; kinds::MOST] = [const { AtomicU32::new(0) }; kinds::MOST];

fn agents(descriptor: c_int) -> Option<&'static AtomicU32> {
    AGENTS.get(usize::try_from(descriptor).ok()?)
}

/// Gives `copy` the agents of `original`.
pub fn copied(original: c_int, copy: c_int) {
    let known = agents(original).map_or(0, |agents| agents.load(Ordering::Relaxed));
    if let Some(agents) = agents(copy) {
        agents.store(known, Ordering::Relaxed);
    }
}

/// Returns whether a descriptor was a file of datagrams when it was last seen; [`is_still_one`]
/// looks again.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_is_datagrams(descriptor: c_int) -> c_int {
    (kinds::of(descriptor) == DescriptorKind::Datagrams).into()
}

/// Returns whether a descriptor is a file of datagrams. If the number was closed without the shim's
/// notice and refers to another file now, it loses its kind.
fn is_still_one(descriptor: c_int) -> bool {
    let is_one = kinds::of(descriptor) == DescriptorKind::Datagrams
        && errno::kept(|| kinds::is_still(descriptor));
    if !is_one {
        kinds::set(descriptor, DescriptorKind::None);
    }
    is_one
}

/// Returns the address of the process that keeps the fabric, and the index of the program's node.
fn address() -> Option<(sockaddr_un, u32)> {
    let root = root()?;
    let slash = root.iter().rposition(|byte| *byte == b'/')?;
    let node = std::str::from_utf8(&root[slash + 1..]).ok()?.parse().ok()?;
    // SAFETY: zeros are a valid socket address.
    let mut address: sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = root[..slash].iter().chain(b"/socket");
    let length = slash + b"/socket".len();
    if length >= address.sun_path.len() {
        return None;
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    Some((address, node))
}

/// Connects with the process that keeps the fabric. Returns a descriptor, or fails with errno.
fn connect(purpose: Purpose, index: u32, flags: c_int) -> c_int {
    let Some((address, node)) = address() else {
        return errno::fail(libc::ENODEV);
    };
    let is_nonblocking = flags & libc::O_NONBLOCK != 0;
    let close_on_exec = if flags & libc::O_CLOEXEC != 0 {
        libc::SOCK_CLOEXEC
    } else {
        0
    };
    let hello = Hello {
        purpose,
        is_nonblocking,
        index,
        node,
    };
    let hello = hello.bytes();
    // SAFETY: the calls take integers, and buffers with their sizes.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | close_on_exec;
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return -1;
        }
        let size = mem::size_of::<sockaddr_un>() as libc::socklen_t;
        let (to, word) = ((&raw const address).cast(), mem::size_of::<c_int>());
        let mut answer: c_int = 0;
        let done = again(|| libc::connect(socket, to, size)) == 0 && {
            let level = libc::SOL_SOCKET;
            let buffer = (&raw const BUFFER).cast();
            libc::setsockopt(
                socket,
                level,
                libc::SO_SNDBUF,
                buffer,
                word as libc::socklen_t,
            );
            let (bytes, count) = (hello.as_ptr().cast(), hello.len());
            again(|| libc::send(socket, bytes, count, libc::MSG_NOSIGNAL) as c_int) >= 0
        };
        if done {
            let into = (&raw mut answer).cast();
            let taken = again(|| libc::recv(socket, into, word, 0) as c_int);
            if taken < 0 {
                answer = errno::get();
            } else if taken as usize != word {
                answer = libc::ENODEV;
            }
        } else {
            answer = match errno::get() {
                // The process that kept the fabric has ended.
                libc::ENOENT | libc::ECONNREFUSED | libc::EPIPE | libc::ECONNRESET => libc::ENODEV,
                other => other,
            };
        }
        if answer != 0 {
            libc::close(socket);
            return errno::fail(answer);
        }
        socket
    }
}

/// Makes a call again as long as signals end it.
fn again(call: impl Fn() -> c_int) -> c_int {
    loop {
        let result = call();
        if result >= 0 || errno::get() != libc::EINTR {
            return result;
        }
    }
}

/// Opens a device file.
pub fn open(node: Node, flags: c_int) -> c_int {
    let (purpose, index) = match node {
        Node::Datagrams(index) => (Purpose::Datagrams, index),
        Node::Manager(index) => (Purpose::Manager, index),
    };
    let descriptor = connect(purpose, index, flags);
    if descriptor < 0 {
        return -1;
    }
    if let Some(agents) = agents(descriptor) {
        agents.store(0, Ordering::Relaxed);
    }
    kinds::set_events(descriptor, DescriptorKind::Datagrams);
    if !is_still_one(descriptor) {
        // SAFETY: the descriptor was opened here.
        unsafe { libc::close(descriptor) };
        return errno::fail(libc::EMFILE);
    }
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: the descriptor was opened here, and the call takes only integers.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    descriptor
}

/// Handles a descriptor received from another process.
pub fn received(descriptor: c_int) {
    let Some((address, _)) = address() else {
        return;
    };
    // SAFETY: zeros are a valid socket address, and `length` bytes of it may be written.
    let (result, peer) = errno::kept(|| unsafe {
        let mut peer: sockaddr_un = mem::zeroed();
        let mut length = mem::size_of::<sockaddr_un>() as libc::socklen_t;
        let to = (&raw mut peer).cast();
        (libc::getpeername(descriptor, to, &mut length), peer)
    });
    if result == 0 && peer.sun_family == address.sun_family && peer.sun_path == address.sun_path {
        // Its agents are unknown here, so the results of writes are awaited.
        if let Some(agents) = agents(descriptor) {
            agents.store(0, Ordering::Relaxed);
        }
        kinds::set_events(descriptor, DescriptorKind::Datagrams);
    }
}

/// Time of the last update of sysfs in this process, in nanoseconds of the monotonic clock; 0 if it
/// has received a datagram since.
static REFRESHED: AtomicU64 = AtomicU64::new(0);
/// Time for which an update holds: a program reads a hundred files at its start.
const FRESH: u64 = 2_000_000;

fn now() -> u64 {
    // SAFETY: zeros are a valid time, which the call may overwrite.
    unsafe {
        let mut time: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Updates the files of sysfs. Preserves `errno`. If the process has ended or cannot write, they
/// stay, and the first such time a line on standard error says so.
pub fn refresh() {
    const LINE: &[u8] =
        b"verbena: the fabric's process does not answer; its files in /sys stay as \
        they were\n";
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    errno::kept(|| {
        let (last, now) = (REFRESHED.load(Ordering::Relaxed), now());
        if last != 0 && now.wrapping_sub(last) < FRESH {
            return;
        }
        REFRESHED.store(now, Ordering::Relaxed);
        let socket = connect(Purpose::Refresh, 0, libc::O_CLOEXEC);
        if socket >= 0 {
            // SAFETY: the descriptor was opened here.
            unsafe { libc::close(socket) };
        } else if !IS_REPORTED.swap(true, Ordering::Relaxed) {
            // SAFETY: the buffer has these bytes. A closed stream loses the line only.
            let _ = unsafe {
                system_call!(
                    libc::SYS_write,
                    libc::STDERR_FILENO,
                    LINE.as_ptr(),
                    LINE.len()
                )
            };
        }
    });
}

/// Takes a message without waiting. The longest message that fits is taken whole; of a longer one
/// the first segment is copied and the message stays.
///
/// # Safety
/// The buffer must have `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_shim_take_datagram(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
) -> ssize_t {
    /// The process whose thread is between the look at a message and its receipt; then no other
    /// thread may take it. A child of fork(2) finds its parent's number, which means nothing there.
    static TAKING: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the call takes no arguments.
    let own = unsafe { libc::getpid() } as u32;
    let mut free = 0;
    while let Err(other) = TAKING.compare_exchange(free, own, Ordering::Acquire, Ordering::Relaxed)
    {
        free = if other == own { 0 } else { other };
        std::hint::spin_loop();
    }
    // SAFETY: the caller promises the buffer.
    let result = unsafe { take(descriptor, buffer, count) };
    TAKING.store(0, Ordering::Release);
    result
}

/// recv(2), which is no point at which a thread can be cancelled.
///
/// # Safety
/// The buffer must have `count` bytes.
unsafe fn receive(descriptor: c_int, buffer: *mut c_void, count: usize, flags: c_int) -> ssize_t {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the caller promises the buffer; the address of the sender is not wanted.
    unsafe {
        system_call!(
            libc::SYS_recvfrom,
            descriptor,
            buffer,
            count,
            flags,
            none,
            none
        ) as ssize_t
    }
}

unsafe fn take(descriptor: c_int, buffer: *mut c_void, count: usize) -> ssize_t {
    const LOOK: c_int = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: the caller promises the buffer; a look may have none.
    unsafe {
        let length = receive(descriptor, buffer, 0, LOOK);
        if length < 0 && errno::get() == libc::ENOTSOCK {
            kinds::set(descriptor, DescriptorKind::None);
            return system_call!(libc::SYS_read, descriptor, buffer, count) as ssize_t;
        }
        if length < 0 {
            return -1;
        }
        REFRESHED.store(0, Ordering::Relaxed);
        if length as usize <= count && length > 0 {
            return receive(descriptor, buffer, count, libc::MSG_DONTWAIT);
        }
        if !is_still_one(descriptor) {
            return system_call!(libc::SYS_read, descriptor, buffer, count) as ssize_t;
        }
        if length == 0 {
            // The process that keeps the fabric has ended.
            return errno::fail(libc::EIO) as ssize_t;
        }
        if count < SEGMENT {
            return errno::fail(libc::EINVAL) as ssize_t;
        }
        receive(descriptor, buffer, SEGMENT, LOOK);
        errno::fail(libc::ENOSPC) as ssize_t
    }
}

/// Writes a datagram. The result of a write by an agent that the program did not register by this
/// descriptor is awaited, since the agent may not exist.
///
/// # Safety
/// The buffer must have `count` bytes.
pub unsafe fn write(descriptor: c_int, buffer: *const c_void, count: usize) -> ssize_t {
    let known = agents(descriptor).map_or(0, |agents| agents.load(Ordering::Relaxed));
    let is_known = count > HEADER + 36 && {
        // SAFETY: the caller promises more bytes than these four.
        let agent: u32 = unsafe { buffer.cast::<u32>().read_unaligned() };
        agent < 32 && known >> agent & 1 != 0
    };
    if !is_known {
        if !is_still_one(descriptor) {
            // SAFETY: passes on the caller's arguments, which are valid for the C function.
            return unsafe { system_call!(libc::SYS_write, descriptor, buffer, count) as ssize_t };
        }
        // SAFETY: the caller promises the buffer.
        return match unsafe { call(descriptor, WRITE, buffer, count, &mut []) } {
            0 => count as ssize_t,
            number => errno::fail(number) as ssize_t,
        };
    }
    loop {
        // SAFETY: the caller promises the buffer.
        let sent = unsafe { libc::send(descriptor, buffer, count, libc::MSG_NOSIGNAL) };
        match errno::get() {
            _ if sent >= 0 => return sent,
            // The kernel's file is always writable.
            libc::EAGAIN => wait_to_write(descriptor),
            libc::EPIPE | libc::ECONNRESET => return errno::fail(libc::EIO) as ssize_t,
            libc::ENOTSOCK => {
                kinds::set(descriptor, DescriptorKind::None);
                // SAFETY: passes on the caller's arguments, valid for the C function.
                return unsafe {
                    system_call!(libc::SYS_write, descriptor, buffer, count) as ssize_t
                };
            }
            _ => return -1,
        }
    }
}

fn wait_to_write(descriptor: c_int) {
    let mut wait = libc::pollfd {
        fd: descriptor,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one structure. After a signal, the write is tried again.
    unsafe { libc::poll(&mut wait, 1, -1) };
}

/// Sends a call and awaits its answer: an errno, 0 for success, and the new argument.
///
/// # Safety
/// The data must have `count` bytes.
unsafe fn call(
    descriptor: c_int,
    request: u32,
    data: *const c_void,
    count: usize,
    argument: &mut [u8],
) -> c_int {
    let mut pair = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has two elements.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) } != 0 {
        return errno::get();
    }
    // SAFETY: the caller promises the data.
    let number = unsafe { exchange(descriptor, pair, request, data, count, argument) };
    // SAFETY: the descriptor was opened here.
    unsafe { libc::close(pair[0]) };
    number
}

unsafe fn exchange(
    descriptor: c_int,
    pair: [c_int; 2],
    request: u32,
    data: *const c_void,
    count: usize,
    argument: &mut [u8],
) -> c_int {
    let mut begin = [0u8; 8];
    begin[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    begin[4..].copy_from_slice(&request.to_ne_bytes());
    let mut parts = [
        iovec {
            iov_base: begin.as_mut_ptr().cast(),
            iov_len: begin.len(),
        },
        iovec {
            iov_base: data.cast_mut(),
            iov_len: count,
        },
    ];
    #[repr(C, align(8))]
    struct Space([u8; 64]);
    let mut space = Space([0; 64]);
    let size = mem::size_of::<c_int>() as u32;
    let mut answer = [0u8; 4 + LONGEST_ARGUMENT];
    // SAFETY: the message's parts are valid for the call, the space holds one descriptor,
    // and the buffers have their sizes.
    unsafe {
        let mut message: msghdr = mem::zeroed();
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        message.msg_control = space.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(header)
            .cast::<c_int>()
            .write_unaligned(pair[1]);
        let sent = loop {
            let sent = libc::sendmsg(descriptor, &message, libc::MSG_NOSIGNAL);
            if sent >= 0 || errno::get() != libc::EAGAIN {
                break sent;
            }
            wait_to_write(descriptor);
        };
        let failed = errno::get();
        libc::close(pair[1]);
        if sent < 0 {
            return match failed {
                libc::EPIPE | libc::ECONNRESET => libc::EIO,
                other => other,
            };
        }
        let limit = libc::timeval {
            tv_sec: PATIENCE,
            tv_usec: 0,
        };
        let length = mem::size_of::<libc::timeval>() as libc::socklen_t;
        let option = (&raw const limit).cast();
        libc::setsockopt(pair[0], libc::SOL_SOCKET, libc::SO_RCVTIMEO, option, length);
        let taken = loop {
            let taken = libc::recv(pair[0], answer.as_mut_ptr().cast(), answer.len(), 0);
            if taken >= 0 || errno::get() != libc::EINTR {
                break taken;
            }
        };
        if taken < 4 {
            return libc::EIO;
        }
        let new = &answer[4..taken as usize];
        if new.len() == argument.len() {
            argument.copy_from_slice(new);
        }
    }
    let [a, b, c, d, ..] = answer;
    c_int::from_ne_bytes([a, b, c, d])
}

/// ioctl of a file of datagrams.
///
/// # Safety
/// That of the C function: the argument must be as the request demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_shim_control(
    descriptor: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    if !is_still_one(descriptor) {
        // SAFETY: passes on the caller's arguments, which are valid for the C function.
        return unsafe { system_call!(libc::SYS_ioctl, descriptor, request, argument) as c_int };
    }
    if FOR_ANY_FILE.contains(&(request as u32)) {
        // SAFETY: passes on the caller's arguments, which are valid for the C function.
        return unsafe { system_call!(libc::SYS_ioctl, descriptor, request, argument) as c_int };
    }
    let request = request as u32;
    let Some((_, size)) = ARGUMENTS.iter().find(|(known, _)| *known == request) else {
        return errno::fail(libc::ENOTTY);
    };
    if *size > 0 && argument.is_null() {
        return errno::fail(libc::EFAULT);
    }
    let mut new = [0u8; LONGEST_ARGUMENT];
    let new = &mut new[..*size];
    if *size > 0 {
        // SAFETY: the caller promises an argument of this size.
        unsafe { std::ptr::copy_nonoverlapping(argument.cast(), new.as_mut_ptr(), *size) };
    }
    let data: *const c_void = argument;
    // SAFETY: the caller promises an argument of this size.
    let number = unsafe { call(descriptor, request, data, *size, new) };
    if *size > 0 {
        // SAFETY: the caller promises an argument of this size.
        unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), argument.cast(), *size) };
    }
    if number != 0 {
        return errno::fail(number);
    }
    if let (Some(first), Some(agents)) = (new.first(), agents(descriptor)) {
        let bit = 1u32.checked_shl(u32::from(*first)).unwrap_or(0);
        match request {
            REGISTER_AGENT | REGISTER_AGENT2 => agents.fetch_or(bit, Ordering::Relaxed),
            _ => agents.fetch_and(!bit, Ordering::Relaxed),
        };
    }
    0
}
