//! Functions that take a path: by a request if it is remote, by the system call if it is local.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_long};

use verbena_rfio_client::{Address, Error};
use verbena_rfio_protocol::request::{Access, ChangeOwner, OnPath, PathMode, TwoPaths};
use verbena_rfio_protocol::types::{Attributes, Path};
use verbena_rfio_protocol::{Reply, Request};

use crate::core::resolve::{self, ResolvedPath};
use crate::core::{async_connections, sessions};
use crate::descriptor::{local, stat_of};
use crate::ffi;

/// Acts on a path: with a request if remote, with the system call if local.
///
/// # Safety
/// See the crate's safety contract.
unsafe fn act(
    path: *const c_char,
    there: impl FnOnce(Path) -> Request,
    here: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    ffi::status(place.and_then(|place| match place {
        ResolvedPath::Remote(address, path) => sessions::ask(&address, &there(path)).map(|_| ()),
        ResolvedPath::Local(_) => local(here(path).into()).map(|_| ()),
    }))
}

fn on(path: Path) -> OnPath {
    OnPath { path }
}

/// Defines functions on one path: name, arguments, remote request, local call.
macro_rules! by_name {
    ($($(#[$doc:meta])* $name:ident($path:ident $(,
        $argument:ident: $type:ty)*) { $there:expr } or $here:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// See the crate's safety contract.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char $(, $argument: $type)*) -> c_int {
            // SAFETY: the caller passes valid pointers, as the crate's contract requires; the
            // system call gets the caller's own pointer.
            unsafe { act(path, |$path| $there, |path| { let $path = path; $here }) }
        }
    )* };
}

by_name! {
    /// Checks access to a path.
    rfio_access(path, mode: c_int) { Request::Access(Access { path, mode: mode as u32 }) }
        or libc::access(path, mode);
    /// Changes the permission bits.
    rfio_chmod(path, mode: c_int) { Request::ChangeMode(PathMode { path, mode: mode as u32 }) }
        or libc::chmod(path, mode as u32);
    /// Changes owner and group.
    rfio_chown(path, owner: c_int, group: c_int)
        { Request::ChangeOwner(ChangeOwner { path, owner: owner as u32, group: group as u32 }) }
        or libc::chown(path, owner as u32, group as u32);
    /// Creates a directory.
    rfio_mkdir(path, mode: c_int) { Request::MakeDirectory(PathMode { path, mode: mode as u32 }) }
        or libc::mkdir(path, mode as u32);
    /// Removes a directory.
    rfio_rmdir(path) { Request::RemoveDirectory(on(path)) } or libc::rmdir(path);
    /// Removes a file.
    rfio_unlink(path) { Request::Unlink(on(path)) } or libc::unlink(path);
    /// Removes a file.
    rfio_munlink(path) { Request::Unlink(on(path)) } or libc::unlink(path);
}

/// Renames, within one server or locally.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let places = unsafe {
        (
            ffi::name(from).and_then(resolve::find),
            ffi::name(to).and_then(resolve::find),
        )
    };
    ffi::status(match places {
        (Ok(ResolvedPath::Remote(one, from)), Ok(ResolvedPath::Remote(other, to)))
            if one == other =>
        {
            sessions::ask(&one, &Request::Rename(TwoPaths { from, to })).map(|_| ())
        }
        (Ok(ResolvedPath::Local(_)), Ok(ResolvedPath::Local(_))) => {
            // SAFETY: the crate's contract promises valid pointers.
            let result = unsafe { libc::rename(from, to) };
            local(result.into()).map(|_| ())
        }
        (Ok(_), Ok(_)) => Err(Error::Local(
            "rename".into(),
            std::io::Error::from_raw_os_error(libc::EXDEV),
        )),
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

/// Creates a symbolic link with the given text.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let text = match unsafe { ffi::name(target) } {
        Ok(text) => text,
        Err(error) => return ffi::status(Err(error)),
    };
    let Some(from) = Path::new(text) else {
        return ffi::status(Err(ffi::invalid("target")));
    };
    let there = |to| Request::MakeLink(TwoPaths { from, to });
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { act(path, there, |path| libc::symlink(target, path)) }
}

/// Creates a symbolic link.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_msymlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { rfio_symlink(target, path) }
}

/// Reads a symbolic link, without a NUL at its end.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_readlink(
    path: *const c_char,
    buffer: *mut c_char,
    size: c_int,
) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    let Ok(room) = usize::try_from(size) else {
        return ffi::status(Err(ffi::invalid("size")));
    };
    let read = place.and_then(|place| match place {
        ResolvedPath::Remote(address, path) => {
            match sessions::ask(&address, &Request::ReadLink(on(path)))? {
                Reply::Target(target) => {
                    // SAFETY: the crate's contract promises valid pointers.
                    let into = unsafe { ffi::buffer_mut(buffer.cast(), room) }
                        .ok_or_else(|| ffi::invalid("buffer"))?;
                    let length = target.path.as_bytes().len().min(room);
                    into[..length].copy_from_slice(&target.path.as_bytes()[..length]);
                    Ok(length as i64)
                }
                other => Err(Error::unexpected(&other)),
            }
        }
        // SAFETY: the crate's contract promises valid pointers.
        ResolvedPath::Local(_) => local(unsafe { libc::readlink(path, buffer, room) } as i64),
    });
    ffi::number(read) as c_int
}

/// Returns the attributes that a request by name finds.
///
/// # Errors
/// Those of the server; [`Error::Protocol`] for an unexpected reply.
pub fn attributes(address: &Address, request: &Request) -> Result<Attributes, Error> {
    match sessions::ask(address, request)? {
        Reply::Status(about) | Reply::LinkStatus(about) => Ok(about.attributes),
        other => Err(Error::unexpected(&other)),
    }
}

/// # Safety
/// See the crate's safety contract.
unsafe fn stat(
    path: *const c_char,
    status: *mut libc::stat,
    there: impl FnOnce(OnPath) -> Request,
    here: impl FnOnce(*const c_char, *mut libc::stat) -> c_int,
) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    ffi::status(place.and_then(|place| match place {
        _ if status.is_null() => Err(ffi::invalid("status")),
        ResolvedPath::Remote(address, path) => {
            let about = attributes(&address, &there(on(path)))?;
            // SAFETY: not null, and valid by the crate's contract.
            unsafe { status.write(stat_of(&about)) };
            Ok(())
        }
        ResolvedPath::Local(_) => local(here(path, status).into()).map(|_| ()),
    }))
}

macro_rules! stats {
    ($($name:ident: $request:ident or $system:ident;)*) => { $(
        /// Returns the attributes of a path.
        ///
        /// # Safety
        /// See the crate's safety contract.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, status: *mut libc::stat) -> c_int {
            // SAFETY: the caller passes valid pointers, as the crate's contract requires; the
            // system call gets them unchanged.
            unsafe { stat(path, status, Request::$request,
                |path, status| libc::$system(path, status)) }
        }
    )* };
}

stats! {
    rfio_stat: Status or stat;
    rfio_stat64: Status or stat;
    rfio_mstat: Status or stat;
    rfio_mstat64: Status or stat;
    rfio_lstat: LinkStatus or lstat;
    rfio_lstat64: LinkStatus or lstat;
}

/// `struct rfstatfs`.
#[repr(C)]
#[derive(Debug)]
pub struct rfstatfs {
    totblks: c_long,
    freeblks: c_long,
    bsize: c_long,
    totnods: c_long,
    freenods: c_long,
}

/// Returns the space on a file system.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_statfs(path: *const c_char, status: *mut rfstatfs) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    let space = place.and_then(|place| match place {
        ResolvedPath::Remote(address, path) => {
            match sessions::ask(&address, &Request::Space(on(path)))? {
                Reply::Capacity(space) => Ok(rfstatfs {
                    totblks: space.blocks as c_long,
                    freeblks: space.free as c_long,
                    bsize: space.block as c_long,
                    totnods: space.inodes as c_long,
                    freenods: space.free_inodes as c_long,
                }),
                other => Err(Error::unexpected(&other)),
            }
        }
        ResolvedPath::Local(_) => {
            // SAFETY: `statvfs` has only integers, for which zero is valid.
            let mut space: libc::statvfs = unsafe { std::mem::zeroed() };
            // SAFETY: the caller passes a valid path, as the crate's contract requires; `space` is
            // a local.
            local(unsafe { libc::statvfs(path, &mut space) }.into())?;
            Ok(rfstatfs {
                totblks: space.f_blocks as c_long,
                freeblks: space.f_bavail as c_long,
                bsize: space.f_frsize as c_long,
                totnods: space.f_files as c_long,
                freenods: space.f_favail as c_long,
            })
        }
    });
    ffi::status(space.and_then(|space| {
        if status.is_null() {
            return Err(ffi::invalid("status"));
        }
        // SAFETY: not null, and valid by the crate's contract.
        unsafe { status.write(space) };
        Ok(())
    }))
}

/// Sets the directory for relative paths.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_chdir(path: *const c_char) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let place = unsafe { ffi::name(path) }.and_then(resolve::find);
    ffi::status(place.and_then(|place| match place {
        ResolvedPath::Remote(address, path) => {
            let about = attributes(&address, &Request::Status(on(path.clone())))?;
            if about.mode & libc::S_IFMT != libc::S_IFDIR {
                let error = std::io::Error::from_raw_os_error(libc::ENOTDIR);
                return Err(Error::Local(path.to_string(), error));
            }
            resolve::choose_directory(Some((address, path)));
            Ok(())
        }
        ResolvedPath::Local(_) => {
            // SAFETY: the crate's contract promises valid pointers.
            local(unsafe { libc::chdir(path) }.into())?;
            resolve::choose_directory(None);
            Ok(())
        }
    }))
}

macro_rules! ends {
    ($($name:ident)*) => { $(
        /// Closes the kept connections.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            sessions::close_all();
            async_connections::close_all();
            0
        }
    )* };
}
ends!(rfio_end rfio_unend rfio_symend);

thread_local! {
    static PARSED: RefCell<(CString, CString)> = RefCell::default();
}

/// Splits a path: 1 with host and path if it is remote, 0 with the path if it is local.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_parse(
    path: *mut c_char,
    host: *mut *mut c_char,
    file: *mut *mut c_char,
) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let text = match unsafe { ffi::name(path) } {
        Ok(text) if !host.is_null() && !file.is_null() => text,
        _ => return ffi::status(Err(ffi::invalid("path"))),
    };
    match resolve::find(text) {
        Ok(ResolvedPath::Remote(address, remote)) => {
            let address = match address {
                Address::Host(host, _) => host,
                Address::Socket(path) => format!("[{}]", path.display()),
            };
            let parts = (CString::new(address), CString::new(remote.as_bytes()));
            let (Ok(address), Ok(remote)) = parts else {
                return ffi::status(Err(ffi::invalid("path")));
            };
            PARSED.with(|kept| {
                let mut kept = kept.borrow_mut();
                *kept = (address, remote);
                // SAFETY: not null, and valid by the crate's contract.
                unsafe {
                    host.write(kept.0.as_ptr().cast_mut());
                    file.write(kept.1.as_ptr().cast_mut());
                }
            });
            1
        }
        Ok(ResolvedPath::Local(_)) => {
            // SAFETY: not null, and valid by the crate's contract.
            unsafe {
                host.write(std::ptr::null_mut());
                file.write(path);
            }
            0
        }
        Err(error) => ffi::status(Err(error)),
    }
}
