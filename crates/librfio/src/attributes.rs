//! File attributes in fields of fixed size, for languages that do not know the C library's `struct
//! stat` and `dirent`.

use std::ffi::{CStr, c_char, c_int};

use verbena_rfio_client::Error;
use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::types::Attributes;

use crate::core::resolve::{self, ResolvedPath};
use crate::core::table;
use crate::descriptor::local;
use crate::{directory, ffi, path_calls};

/// `struct rfio_attributes`.
#[repr(C)]
#[derive(Debug)]
pub struct rfio_attributes {
    device: u64,
    inode: u64,
    links: u64,
    size: u64,
    blocks: u64,
    accessed: i64,
    modified: i64,
    changed: i64,
    mode: u32,
    owner: u32,
    group: u32,
    reserved: u32,
}
const _: () = assert!(size_of::<rfio_attributes>() == 80);

impl From<&Attributes> for rfio_attributes {
    fn from(about: &Attributes) -> Self {
        Self {
            device: about.device,
            inode: about.inode,
            links: about.links,
            size: about.size,
            blocks: about.blocks,
            accessed: about.accessed,
            modified: about.modified,
            changed: about.changed,
            mode: about.mode,
            owner: about.owner,
            group: about.group,
            reserved: 0,
        }
    }
}

impl From<&libc::stat> for rfio_attributes {
    fn from(stat: &libc::stat) -> Self {
        let joined = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            links: stat.st_nlink as _,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            accessed: joined(stat.st_atime, stat.st_atime_nsec),
            modified: joined(stat.st_mtime, stat.st_mtime_nsec),
            changed: joined(stat.st_ctime, stat.st_ctime_nsec),
            mode: stat.st_mode,
            owner: stat.st_uid,
            group: stat.st_gid,
            reserved: 0,
        }
    }
}

/// Returns the result of a system call that fills a `struct stat`.
fn of_system(call: impl FnOnce(*mut libc::stat) -> c_int) -> Result<rfio_attributes, Error> {
    // SAFETY: `stat` has only integers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    local(call(&mut stat).into())?;
    Ok((&stat).into())
}

/// Writes attributes to the caller's structure.
///
/// # Safety
/// `into` must be null or valid for a write.
unsafe fn give(into: *mut rfio_attributes, found: rfio_attributes) -> Result<(), Error> {
    if into.is_null() {
        return Err(ffi::invalid("attributes"));
    }
    // SAFETY: not null, and valid by the crate's contract.
    unsafe { into.write(found) };
    Ok(())
}

/// Returns the attributes of a path; links are followed.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_examine(
    path: *const c_char,
    attributes: *mut rfio_attributes,
) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    let found = place.and_then(|place| match place {
        ResolvedPath::Remote(address, path) => {
            let request = Request::Status(OnPath { path });
            path_calls::attributes(&address, &request).map(|about| (&about).into())
        }
        // SAFETY: the caller passes a valid path, as the crate's contract requires; `stat` is a
        // local.
        ResolvedPath::Local(_) => of_system(|stat| unsafe { libc::stat(path, stat) }),
    });
    // SAFETY: the crate's contract promises valid pointers.
    ffi::status(found.and_then(|found| unsafe { give(attributes, found) }))
}

/// Returns the attributes of an open file.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fexamine(
    descriptor: c_int,
    attributes: *mut rfio_attributes,
) -> c_int {
    let found = match table::with(descriptor, |file| file.examine()) {
        Some(about) => about.map(|about| (&about).into()),
        // SAFETY: the call takes an integer and a local structure.
        None => of_system(|stat| unsafe { libc::fstat(descriptor, stat) }),
    };
    // SAFETY: the crate's contract promises valid pointers.
    ffi::status(found.and_then(|found| unsafe { give(attributes, found) }))
}

/// Returns the next name of a directory and its attributes: 1, or 0 after the last.
///
/// # Safety
/// See the crate's safety contract; `name` has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_readentry(
    directory: *mut libc::DIR,
    name: *mut c_char,
    room: usize,
    attributes: *mut rfio_attributes,
) -> c_int {
    let found = match directory::next(directory) {
        Some(entry) => {
            Ok(entry.map(|entry| (entry.name.as_bytes().to_vec(), (&entry.attributes).into())))
        }
        // SAFETY: not in the table, so a valid DIR of the system, as the contract requires.
        None => unsafe { local_entry(directory) },
    };
    let given = found.and_then(|found| {
        let Some((text, about)) = found else {
            return Ok(0);
        };
        // SAFETY: the crate's contract promises valid pointers.
        let into = unsafe { ffi::buffer_mut(name.cast(), room) };
        let into = into.ok_or_else(|| ffi::invalid("name"))?;
        if text.len() >= into.len() {
            let error = std::io::Error::from_raw_os_error(libc::ERANGE);
            return Err(Error::Local("room for a name".into(), error));
        }
        into[..text.len()].copy_from_slice(&text);
        into[text.len()] = 0;
        // SAFETY: the crate's contract promises valid pointers.
        unsafe { give(attributes, about) }.map(|()| 1)
    });
    ffi::number(given) as c_int
}

/// Returns the next entry of a local directory; a name that has vanished meanwhile is skipped.
///
/// # Safety
/// `directory` must be a valid `DIR` of the system.
unsafe fn local_entry(
    directory: *mut libc::DIR,
) -> Result<Option<(Vec<u8>, rfio_attributes)>, Error> {
    loop {
        ffi::set_errno(0);
        // SAFETY: the caller promises a valid `DIR`.
        let entry = unsafe { libc::readdir(directory) };
        if entry.is_null() {
            return match ffi::errno() {
                0 => Ok(None),
                _ => local(-1).map(|_| None),
            };
        }
        // SAFETY: readdir's entry is valid until the next call, and its name ends with a NUL.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // SAFETY: a valid `DIR`, as the caller promises, a valid C string, and a local structure.
        let about = of_system(|stat| unsafe {
            let at = libc::dirfd(directory);
            libc::fstatat(at, name.as_ptr(), stat, libc::AT_SYMLINK_NOFOLLOW)
        });
        if let Ok(about) = about {
            return Ok(Some((name.to_bytes().to_vec(), about)));
        }
    }
}
