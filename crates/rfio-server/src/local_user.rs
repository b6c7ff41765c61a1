//! The local user that a session acts as, and worker threads that assume its credentials.
//!
//! # Invariants
//!
//! - With a mapping, requests access files only on a worker thread whose file system user, group
//!   and supplementary groups are those of the session's local user, and which has none of the
//!   capabilities that override permissions. A user without a local user is refused.
//! - A thread whose credentials are not verified carries out nothing: `assume` checks the effect
//!   of each system call, and a check that fails after work for the daemon itself aborts the
//!   process.
//! - No user is mapped to user id 0.
//!
//! Cached file data are reached through open files alone, and a file is opened under these
//! credentials, so the cache reveals nothing that the user may not read.
//!
//! The system calls affect a single thread (setfsuid(2), and setgroups(2) without the C library,
//! which would change all threads).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::{Arc, RwLock};

use rustix::process::Gid;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_groups};
use verbena_rfio_auth::peer;

use super::config_lines::{BadLine, lines};

/// Capabilities that let a thread bypass permissions. The kernel removes them from a thread whose
/// file system user changes from 0 to another one.
const OVERRIDING: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MKNOD);

/// Capabilities needed to act as other users.
const NEEDED: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Maximum number of supplementary groups of a user (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

/// A user of this host.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalUser {
    user: u32,
    group: u32,
    groups: Vec<Gid>,
}

impl LocalUser {
    /// Looks up a name in the system's user database.
    ///
    /// # Errors
    /// There is no such user, or it is root.
    pub fn of(name: &str) -> Result<Self, String> {
        let (user, group) = peer::ids_of(name)
            .map_err(|error| format!("local user '{}': {error}", name.escape_debug()))?;
        if user == 0 {
            return Err("users cannot be mapped to root".into());
        }
        let groups = groups_of(name, group)
            .map_err(|error| format!("groups of local user '{name}': {error}"))?;
        Ok(Self {
            user,
            group,
            groups,
        })
    }
}

/// Returns the supplementary groups of a user, including the primary group.
fn groups_of(name: &str, group: u32) -> io::Result<Vec<Gid>> {
    let name = CString::new(name)?;
    let mut room = 64;
    loop {
        let mut groups = vec![0; room];
        let mut count = room as libc::c_int;
        // SAFETY: `name` is a C string, and `groups` has memory for `count` groups.
        let found =
            unsafe { libc::getgrouplist(name.as_ptr(), group, groups.as_mut_ptr(), &mut count) };
        if found >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups.into_iter().map(Gid::from_raw).collect());
        }
        if room >= MOST_GROUPS {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        room *= 4;
    }
}

/// The local user that a user of the service acts as.
#[derive(Debug, Clone)]
enum MappedUser {
    /// One user, looked up when the file was read.
    Fixed(Arc<LocalUser>),
    /// The local user of the same name.
    SameName,
}

/// Maps users to local users.
#[derive(Debug, Default)]
pub struct Mapping {
    users: HashMap<String, MappedUser>,
    everybody: Option<MappedUser>,
}

impl Mapping {
    /// Parses a file of lines `USER LOCAL`, where `*` is every user without a line, and `=` as the
    /// local user stands for the one of the same name.
    ///
    /// # Errors
    /// The first line that is invalid, or names a local user that does not exist.
    pub fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let mut mapping = Self::default();
        for line in lines(text) {
            let (number, fields) = line?;
            let bad = |what| BadLine { line: number, what };
            let [user, local] = &fields[..] else {
                return Err(bad("expected USER LOCAL, as in 'ann ann' or '* ='".into()));
            };
            let local = match &local.raw[..] {
                b"=" => MappedUser::SameName,
                _ => {
                    let name = local.user().map_err(bad)?;
                    MappedUser::Fixed(Arc::new(LocalUser::of(&name).map_err(bad)?))
                }
            };
            let earlier = match user.is_every_user() {
                true => mapping.everybody.replace(local),
                false => mapping.users.insert(user.user().map_err(bad)?, local),
            };
            if earlier.is_some() {
                return Err(bad("this user already has a line".into()));
            }
        }
        Ok(mapping)
    }

    /// Returns the local user of `user`. May query a directory service, so it must not run on an
    /// event loop.
    ///
    /// # Errors
    /// Why there is none, as a message for the user.
    pub fn identity(&self, user: &str) -> Result<Arc<LocalUser>, String> {
        match self.users.get(user).or(self.everybody.as_ref()) {
            Some(MappedUser::Fixed(identity)) => Ok(Arc::clone(identity)),
            Some(MappedUser::SameName) => LocalUser::of(user).map(Arc::new),
            None => Err("this user has no local user on the server".into()),
        }
    }
}

/// The mapping in force. It is replaced as a whole.
#[derive(Debug)]
pub struct UserMappings(RwLock<Arc<Mapping>>);

impl UserMappings {
    /// Puts a mapping in force.
    ///
    /// # Errors
    /// The process may not act as other users.
    pub fn new(mapping: Mapping) -> io::Result<Self> {
        if !capabilities(None)?.effective.contains(NEEDED) {
            let what = "acting as other users requires root, or CAP_SETUID and CAP_SETGID";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        Ok(Self(RwLock::new(Arc::new(mapping))))
    }

    /// Replaces the mapping, for established sessions too.
    pub fn replace(&self, mapping: Mapping) {
        *self.0.write().unwrap_or_else(|poison| poison.into_inner()) = Arc::new(mapping);
    }

    /// Returns the mapping in force.
    pub fn now(&self) -> Arc<Mapping> {
        Arc::clone(&self.0.read().unwrap_or_else(|poison| poison.into_inner()))
    }
}

/// The credentials of this thread.
enum ThreadUser {
    /// Those of the daemon, as it was started.
    Daemon,
    /// Undefined: a change has begun and not ended.
    Unknown,
    As(Arc<LocalUser>),
}

thread_local! {
    static ACTING: RefCell<ThreadUser> = const { RefCell::new(ThreadUser::Daemon) };
}

/// Makes the thread act as a local user until the next call.
///
/// # Errors
/// The kernel refused a part of it. The thread must do nothing until another call succeeds.
pub(crate) fn assume(identity: &Arc<LocalUser>) -> io::Result<()> {
    ACTING.with_borrow_mut(|acting| {
        match acting {
            ThreadUser::As(now) if *now == *identity => return Ok(()),
            ThreadUser::Daemon => give_up_capabilities()?,
            _ => {}
        }
        *acting = ThreadUser::Unknown;
        set_thread_groups(&identity.groups)?;
        set_file_system_group(identity.group)?;
        set_file_system_user(identity.user)?;
        if capabilities(None)?.effective.intersects(OVERRIDING) {
            let what = "the process keeps capabilities that override permissions; see securebits \
                        in capabilities(7)";
            return Err(io::Error::other(what));
        }
        *acting = ThreadUser::As(Arc::clone(identity));
        Ok(())
    })
}

/// Runs `work` as the daemon's own user, for lookups that belong to no user, such as the path of an
/// export or the system's user database.
pub(crate) fn as_daemon<T>(work: impl FnOnce() -> T) -> T {
    let user = ACTING.with_borrow(|acting| match acting {
        ThreadUser::As(identity) => Some(identity.user),
        _ => None,
    });
    let Some(user) = user else {
        return work();
    };
    // If this fails, the work runs with fewer rights.
    let _ = set_file_system_user(rustix::process::geteuid().as_raw());
    let done = work();
    if set_file_system_user(user).is_err() {
        eprintln!("rfiod: a thread cannot return to user id {user}; the service ends");
        std::process::abort();
    }
    done
}

/// Keeps only the capabilities needed to act as others. One of those dropped is CAP_SYS_RESOURCE,
/// which overrides every user's disk quota and is kept by the kernel when the file system user
/// changes.
fn give_up_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    let mut kept = NEEDED | CapabilitySet::LEASE;
    if rustix::process::geteuid().is_root() {
        // Effective only while the file system user is 0: to look up the path of an export.
        kept |= CapabilitySet::DAC_READ_SEARCH;
    }
    sets.permitted &= kept;
    sets.effective &= kept;
    sets.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, sets)?)
}

fn set_file_system_user(user: u32) -> io::Result<()> {
    // SAFETY: the argument is an integer. The call does not report success; a query with an invalid
    // id does.
    let now = unsafe {
        libc::setfsuid(user);
        libc::setfsuid(u32::MAX)
    };
    is_changed(now, user, "user")
}

fn set_file_system_group(group: u32) -> io::Result<()> {
    // SAFETY: the argument is an integer, as for setfsuid(2).
    let now = unsafe {
        libc::setfsgid(group);
        libc::setfsgid(u32::MAX)
    };
    is_changed(now, group, "group")
}

fn is_changed(now: libc::c_int, wanted: u32, what: &str) -> io::Result<()> {
    match now as u32 == wanted {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the kernel refuses to let this thread act as {what} id {wanted}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use verbena_rfio_common::scratch::Scratch;

    #[test]
    fn mapping_to_root_is_refused_and_unknown_users_are_named() {
        assert!(
            Mapping::parse(b"ann root")
                .unwrap_err()
                .what
                .contains("root")
        );
        let unknown = Mapping::parse(b"# x\nann no-such-user-here").unwrap_err();
        assert!(
            unknown.line == 2 && unknown.what.contains("no-such-user-here"),
            "{unknown}"
        );
        let mapping = Mapping::parse(b"* =").unwrap();
        assert!(mapping.identity("root").unwrap_err().contains("root"));
        assert!(
            mapping
                .identity("no-such\nuser")
                .unwrap_err()
                .contains("\\n")
        );
        assert!(Mapping::default().identity("ann").is_err());
        assert_eq!(Mapping::parse(b"* =\n* =").unwrap_err().line, 2);
    }

    /// Runs on a separate thread, whose credentials end with it.
    fn as_user(user: u32, groups: &[u32], work: impl FnOnce() + Send) {
        let identity = Arc::new(LocalUser {
            user,
            group: user,
            groups: groups.iter().copied().map(Gid::from_raw).collect(),
        });
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                assume(&identity).unwrap();
                work();
            });
            done.join().unwrap();
        });
    }

    #[test]
    fn user_rights_apply_to_one_thread_only() {
        if !capabilities(None)
            .unwrap()
            .effective
            .contains(NEEDED | OVERRIDING)
        {
            eprintln!("skipped: acting as others takes root");
            return;
        }
        let scratch = Scratch::new();
        let file = scratch.path("f");
        let open_to_all = |name: &str, mode| {
            std::fs::set_permissions(scratch.path(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        std::fs::write(&file, "private").unwrap();
        open_to_all("", 0o777);
        open_to_all("f", 0o640);
        std::os::unix::fs::chown(&file, Some(4001), Some(4002)).unwrap();
        let can_read = || std::fs::read(&file).is_ok();
        as_user(4001, &[], || assert!(can_read()));
        as_user(4003, &[], || assert!(!can_read()));
        as_user(4003, &[4002], || assert!(can_read()));
        as_user(4003, &[], || {
            assert!(as_daemon(can_read), "as the daemon");
            assert!(!can_read(), "and not afterwards");
            std::fs::write(scratch.path("new"), "x").unwrap();
        });
        let made = std::fs::metadata(scratch.path("new")).unwrap();
        assert_eq!((made.uid(), made.gid()), (4003, 4003));
        assert!(can_read(), "this thread has its original identity");
    }
}
