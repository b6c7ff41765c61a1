//! `opendir` and kin: what lies in the directories of our device below `/sys`.
//!
//! Such a directory is a stream of some real directory, so that whatever takes a `DIR *` may have
//! it, and a list of names that is read instead. A handful can be open at once.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{DIR, c_char, c_int, dirent64};

use crate::answer::{Answer, ROOT, answer};
use crate::errno;
use crate::next::Next;
use crate::sysfs;

type OpenFn = unsafe extern "C" fn(*const c_char) -> *mut DIR;
type ReadFn = unsafe extern "C" fn(*mut DIR) -> *mut dirent64;
type CloseFn = unsafe extern "C" fn(*mut DIR) -> c_int;
type RewindFn = unsafe extern "C" fn(*mut DIR);

/// Streams that can be open at once.
const MOST: usize = 8;

/// A directory that is being read.
struct Listing {
    /// The stream, as a number: it is compared, never followed.
    stream: usize,
    /// `.`, `..` and the names, each with a final zero.
    names: [u8; 2048],
    length: usize,
    position: usize,
    entry: dirent64,
}

/// A lock may be torn by fork; it is held for a few instructions, and only while such a directory
/// is open or being opened.
static OPEN: Mutex<[Option<Listing>; MOST]> = Mutex::new([const { None }; MOST]);
/// How many are open: what every `readdir` of a program looks at.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// As in C, with our directories answered.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<OpenFn> = unsafe { Next::new(c"opendir") };
    let Some(next) = NEXT.get() else {
        errno::set(libc::ENOSYS);
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise about `path`.
    match unsafe { answer(path) } {
        Some(Answer::Directory(directory)) => {
            // SAFETY: a C string.
            let stream = unsafe { next(ROOT.as_ptr()) };
            if !stream.is_null() && !begin(stream, directory) {
                // SAFETY: just opened.
                unsafe { libc::closedir(stream) };
                errno::set(libc::EMFILE);
                return ptr::null_mut();
            }
            stream
        }
        Some(_) => {
            errno::set(libc::ENOTDIR);
            ptr::null_mut()
        }
        // SAFETY: passes the caller's own argument on.
        None => unsafe { next(path) },
    }
}

/// Takes note of a stream that lists `directory`.
fn begin(stream: *mut DIR, directory: &[u8]) -> bool {
    const DOTS: &[u8] = b".\0..\0";
    let content = sysfs::names(directory);
    let listed = content.as_ref().map_or(&[][..], |content| content.bytes());
    // SAFETY: all zeros are a valid directory entry.
    let entry = unsafe { std::mem::zeroed() };
    let mut listing = Listing {
        stream: stream as usize,
        names: [0; 2048],
        length: 0,
        position: 0,
        entry,
    };
    let room = listing.names.len() - DOTS.len();
    listing.names[..DOTS.len()].copy_from_slice(DOTS);
    let length = listed.len().min(room);
    listing.names[DOTS.len()..][..length].copy_from_slice(&listed[..length]);
    listing.length = DOTS.len() + length;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(free) = open.iter_mut().find(|slot| slot.is_none()) else {
        return false;
    };
    *free = Some(listing);
    COUNT.fetch_add(1, Ordering::Relaxed);
    true
}

/// What `act` does with the listing of a stream of ours.
fn with<T>(stream: *mut DIR, act: impl FnOnce(&mut Option<Listing>) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mine = |slot: &&mut Option<Listing>| {
        slot.as_ref()
            .is_some_and(|listing| listing.stream == stream as usize)
    };
    open.iter_mut().find(mine).map(act)
}

impl Listing {
    /// The next entry, or null at the end.
    fn next(&mut self) -> *mut dirent64 {
        let rest = &self.names[self.position..self.length];
        let Ok(name) = CStr::from_bytes_until_nul(rest) else {
            return ptr::null_mut();
        };
        let bytes = name.to_bytes_with_nul();
        let length = bytes.len().min(self.entry.d_name.len());
        self.entry.d_name.fill(0);
        for (target, byte) in self.entry.d_name.iter_mut().zip(&bytes[..length]) {
            *target = *byte as c_char;
        }
        self.position += bytes.len();
        // Anything but zero, which some programs take for a removed entry.
        self.entry.d_ino = self.position as u64;
        self.entry.d_off = self.position as i64;
        self.entry.d_type = libc::DT_UNKNOWN;
        self.entry.d_reclen = size_of::<dirent64>() as u16;
        &raw mut self.entry
    }
}

macro_rules! readdir_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our directories answered. (On 64-bit systems both have one structure.)
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(stream: *mut DIR) -> *mut dirent64 {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<ReadFn> = unsafe { Next::new($symbol) };
            if let Some(entry) = with(stream, |slot| slot.as_mut().map(Listing::next)) {
                return entry.unwrap_or(ptr::null_mut());
            }
            match NEXT.get() {
                // SAFETY: passes the caller's own argument on.
                Some(next) => unsafe { next(stream) },
                None => ptr::null_mut(),
            }
        }
    )*};
}

readdir_family! {
    readdir, c"readdir";
    readdir64, c"readdir64";
}

/// As in C, with our directories answered.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(stream: *mut DIR) {
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<RewindFn> = unsafe { Next::new(c"rewinddir") };
    let ours = with(stream, |slot| {
        slot.as_mut().map(|listing| listing.position = 0)
    });
    if ours.is_none()
        && let Some(next) = NEXT.get()
    {
        // SAFETY: passes the caller's own argument on.
        unsafe { next(stream) };
    }
}

/// As in C, with our directories answered.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(stream: *mut DIR) -> c_int {
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<CloseFn> = unsafe { Next::new(c"closedir") };
    if with(stream, |slot| *slot = None).is_some() {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    match NEXT.get() {
        // SAFETY: passes the caller's own argument on.
        Some(next) => unsafe { next(stream) },
        None => errno::fail(libc::ENOSYS),
    }
}
