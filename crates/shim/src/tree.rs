//! The tree of real files in place of Verbena's part of `/sys`, created and updated by Verbena's
//! library.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

use libc::{c_char, c_int, ssize_t};

use crate::errno;
use crate::kernel::system_call;
use crate::library::Function;
use crate::management;
use crate::names::Names;
use crate::place::{
    Devices, LONGEST, Node, Plain, ShimPath, classify, classify_on_fabric, may_name_a_device,
};

/// `ssize_t verbena_sysfs_root(char *buffer, size_t size)`: stores the path of the tree; returns
/// its length, or a negative errno.
type Root = unsafe extern "C" fn(*mut c_char, usize) -> ssize_t;
/// `void verbena_sysfs_refresh(const char *path)`: updates a file of the tree, or all files below a
/// directory.
type Refresh = unsafe extern "C" fn(*const c_char);

// SAFETY: Verbena's own functions have these signatures.
static ROOT: Function<Root> = unsafe { Function::new(c"verbena_sysfs_root") };
// SAFETY: Verbena's own function has this signature.
static REFRESH: Function<Refresh> = unsafe { Function::new(c"verbena_sysfs_refresh") };

/// The replacement of a path: a path with a final zero.
pub struct Target {
    bytes: [u8; LONGEST],
    length: usize,
    /// Where the part below the tree begins; 0 if it is not in the tree.
    below: usize,
    /// If opened, it is a channel of the connection manager; every other call uses the node.
    pub is_connection_manager: bool,
    /// If opened, it is this device file of a fabric.
    pub management: Option<Node>,
    /// Whether it is in the tree of a node on a fabric.
    is_of_fabric: bool,
}

/// A character device that every user may open, read and write.
const NODE: &[u8] = b"/dev/null";

impl Target {
    fn of(parts: &[&[u8]]) -> Option<Target> {
        let mut whole = Target {
            bytes: [0; LONGEST],
            length: 0,
            below: 0,
            is_connection_manager: false,
            management: None,
            is_of_fabric: false,
        };
        for part in parts {
            whole.bytes[..LONGEST - 1]
                .get_mut(whole.length..whole.length + part.len())?
                .copy_from_slice(part);
            whole.length += part.len();
        }
        Some(whole)
    }

    /// Returns the path for the call.
    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Returns whether it is in the tree.
    pub fn is_of_tree(&self) -> bool {
        self.below > 0
    }

    /// Updates the file before it is opened. Preserves `errno`.
    pub fn refresh(&self) {
        if self.is_of_fabric {
            management::refresh();
        } else if self.is_of_tree() {
            refresh(&self.bytes[self.below..]);
        }
    }
}

/// Updates the files at a zero-terminated path below the tree.
fn refresh(below: &[u8]) {
    errno::kept(|| {
        if let Some(refresh) = REFRESH.get() {
            // SAFETY: a C string.
            unsafe { refresh(below.as_ptr().cast()) };
        }
    });
}

/// Returns the replacement for `path`, or for a pattern of glob(7); `None` if the call is to be
/// passed on unchanged. Preserves `errno`.
///
/// # Safety
/// `path` must be null or a C string.
pub unsafe fn target(path: *const c_char) -> Option<Target> {
    // SAFETY: the caller promises null or a C string.
    if !unsafe { may_be_ours(path) } {
        return None;
    }
    // SAFETY: not null, so a C string.
    let plain = Plain::of(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    let on_fabric = management::root().and_then(|_| classify_on_fabric(plain.bytes()));
    let answer = on_fabric.or_else(|| {
        // The library is not loaded for other files of /dev and /sys, which it uses itself.
        let names = match may_name_a_device(plain.bytes()) {
            true => Names::get(),
            false => Names::own(),
        };
        let devices = Devices {
            number: devices(),
            names: names.bytes(),
        };
        classify(plain.bytes(), devices)
    })?;
    errno::kept(|| {
        if answer.unless_there && exists(plain.bytes()) {
            return None;
        }
        let mut target;
        match answer.place {
            ShimPath::Device | ShimPath::ConnectionManager => {
                target = Target::of(&[NODE])?;
                target.is_connection_manager = answer.place == ShimPath::ConnectionManager;
            }
            ShimPath::Tree(below) => {
                let mut root = [0; LONGEST];
                let root = copy_root(&mut root)?;
                target = Target::of(&[root, b"/", below])?;
                target.below = root.len() + 1;
            }
            ShimPath::Fabric(below, node) => {
                let root = management::root()?;
                target = Target::of(&[root, b"/", below])?;
                target.below = root.len() + 1;
                target.management = node;
                target.is_of_fabric = true;
            }
        }
        Some(target)
    })
}

/// Returns whether the first bytes are those of Verbena's paths. Every path of the program is
/// checked here, so this reads two to five bytes instead of the whole string.
///
/// # Safety
/// `path` must be null or a C string.
unsafe fn may_be_ours(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    let starts_with = |prefix: &[u8; 4]| {
        prefix.iter().enumerate().all(|(i, byte)| {
            // SAFETY: the bytes before this one equal the prefix's, so they do not end the string,
            // and this one is inside it.
            unsafe { *path.cast::<u8>().add(i) == *byte }
        })
    };
    starts_with(b"/dev") || starts_with(b"/sys")
}

/// Asks the kernel, bypassing interposed functions. For a pattern, its directory is checked.
fn exists(path: &[u8]) -> bool {
    let is_wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
    let path = match path.iter().position(is_wild) {
        Some(wild) => match path[..wild].iter().rposition(|byte| *byte == b'/') {
            Some(slash) => &path[..slash],
            None => path,
        },
        None => path,
    };
    let Some(path) = Target::of(&[path]) else {
        return false;
    };
    // SAFETY: a C string.
    unsafe {
        system_call!(
            libc::SYS_faccessat,
            libc::AT_FDCWD,
            path.bytes.as_ptr(),
            libc::F_OK,
        ) == 0
    }
}

/// The tree's path, once known: written under `MAKING`, read if `LENGTH` is not zero.
static mut KNOWN: [u8; LONGEST] = [0; LONGEST];
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// The process that asked last: a child of fork(2) asks again, so that the library keeps the tree
/// for it too.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Returns the path of the tree, if this process has asked for it.
fn known() -> Option<&'static [u8]> {
    match LENGTH.load(Ordering::Acquire) {
        0 => None,
        // SAFETY: written before `LENGTH`, and never again.
        length => Some(unsafe { std::slice::from_raw_parts((&raw const KNOWN).cast(), length) }),
    }
}

/// Returns the path of the tree, in the given buffer.
fn copy_root(room: &mut [u8; LONGEST]) -> Option<&[u8]> {
    // SAFETY: getpid(2) takes no arguments.
    let process = unsafe { libc::getpid() };
    if ASKED.load(Ordering::Acquire) == process
        && let Some(known) = known()
    {
        return Some(known);
    }
    let root = ROOT.get()?;
    // SAFETY: the buffer has this length.
    let length = usize::try_from(unsafe { root(room.as_mut_ptr().cast(), LONGEST) }).ok()?;
    if known().is_none() {
        note(&room[..length]);
    }
    ASKED.store(process, Ordering::Release);
    Some(&room[..length])
}

/// Stores the path. Of simultaneous threads the first does it; all have the same path.
fn note(path: &[u8]) {
    static MAKING: AtomicI32 = AtomicI32::new(0);
    if MAKING.swap(1, Ordering::AcqRel) == 0 {
        // SAFETY: only the first caller gets here, once; the path fits, as it comes from a buffer
        // of this size.
        unsafe {
            let room = (&raw mut KNOWN).cast::<u8>();
            ptr::copy_nonoverlapping(path.as_ptr(), room, path.len());
        }
        LENGTH.store(path.len(), Ordering::Release);
    }
}

/// Returns the length of a directory's path, as the kernel reports it, in `room`.
fn path_of(directory: c_int, room: &mut [u8; LONGEST]) -> Option<usize> {
    let length = if directory == libc::AT_FDCWD {
        // SAFETY: the buffer has this length. The result includes the final zero.
        unsafe { system_call!(libc::SYS_getcwd, room.as_mut_ptr(), LONGEST) - 1 }
    } else {
        let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
        write_number(directory, &mut link[14..]);
        let no_directory = libc::AT_FDCWD;
        // SAFETY: a C string, and a buffer of this length.
        unsafe {
            system_call!(
                libc::SYS_readlinkat,
                no_directory,
                link.as_ptr(),
                room.as_mut_ptr(),
                LONGEST,
            )
        }
    };
    usize::try_from(length).ok().filter(|length| *length > 0)
}

fn write_number(number: c_int, room: &mut [u8]) {
    let (mut digits, mut rest) = (1, number);
    while rest >= 10 {
        digits += 1;
        rest /= 10;
    }
    rest = number;
    for at in (0..digits).rev() {
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// A program may start in the tree, if a shell changed its directory to it.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        let mut room = [0; LONGEST];
        if let Some(length) = path_of(libc::AT_FDCWD, &mut room)
            && contains(&room[..length], b"/sysfs-")
        {
            let mut root = [0; LONGEST];
            copy_root(&mut root);
        }
    }
    begin
};

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Updates the target of a relative path before it is opened, if `directory` is in the tree.
/// Preserves `errno`.
///
/// # Safety
/// `path` must be null or a C string.
pub unsafe fn refresh_relative(directory: c_int, path: *const c_char) {
    let (root, fabric) = (known(), management::root());
    if root.is_none() && fabric.is_none() {
        return;
    }
    if path.is_null() || directory < 0 && directory != libc::AT_FDCWD {
        return;
    }
    // SAFETY: not null, so a C string.
    if unsafe { *path } == b'/' as c_char {
        return;
    }
    errno::kept(|| {
        let mut room = [0; LONGEST];
        let length = path_of(directory, &mut room)?;
        if fabric.is_some_and(|fabric| room[..length].starts_with(fabric)) {
            management::refresh();
            return None;
        }
        let below = room[..length].strip_prefix(root?)?;
        // SAFETY: not null, so a C string.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes();
        let whole = Target::of(&[below, b"/", path])?;
        refresh(&whole.bytes);
        Some(())
    });
}

/// Returns whether the function of the same name shall handle a system call with this path. Updates
/// the target of a relative path.
///
/// # Safety
/// `path` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_shim_answers(directory: c_int, path: *const c_char) -> c_int {
    // SAFETY: the caller promises null or a C string.
    unsafe {
        if target(path).is_some() {
            return 1;
        }
        refresh_relative(directory, path);
    }
    0
}

/// Replaces the tree's path at the beginning of a path by `/sys`, which shortens it. Returns the
/// number of bytes removed.
///
/// # Safety
/// `path` must be null or a C string that may be written.
pub unsafe fn give_back(path: *mut c_char) -> usize {
    let roots = [known(), management::root()];
    if path.is_null() || roots == [None, None] {
        return 0;
    }
    // SAFETY: not null, so a C string.
    let text = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    let with_root = roots.into_iter().flatten().find_map(|root| {
        let below = text.strip_prefix(root)?;
        Some((root, below))
    });
    let Some((root, below)) = with_root else {
        return 0;
    };
    if !below.starts_with(b"/") && below != b"\0" {
        return 0;
    }
    let prefix: &[u8] = match below.starts_with(b"/dev/") || below == b"/dev\0" {
        true => b"",
        false => b"/sys",
    };
    if prefix.len() > root.len() {
        return 0;
    }
    let length = below.len();
    // SAFETY: the result is shorter than the original; the ranges may overlap.
    unsafe {
        ptr::copy(below.as_ptr(), path.cast::<u8>().add(prefix.len()), length);
        ptr::copy_nonoverlapping(prefix.as_ptr(), path.cast(), prefix.len());
    }
    root.len() - prefix.len()
}

/// Returns the number of devices of the adapter, which reads it from the same environment variable.
fn devices() -> u8 {
    static DEVICES: AtomicU8 = AtomicU8::new(0);
    let known = DEVICES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: a C string; the result is null or a C string.
    let text = unsafe {
        let value = libc::getenv(c"VERBENA_DEVICES".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    let number = text.and_then(|text| text.to_str().ok()?.parse().ok());
    let number = number.filter(|number| *number > 0).unwrap_or(1);
    DEVICES.store(number, Ordering::Relaxed);
    number
}
