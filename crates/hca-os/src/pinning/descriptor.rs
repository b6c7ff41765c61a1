//! Checks whether a descriptor may hold pages, with few system calls: most descriptors need one or
//! two.

use super::io_uring;
use rustix::fs::{Stat, major, minor};
use rustix::net::AddressFamily;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Whether pages may be held through a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinVerdict {
    /// There is no such descriptor.
    Closed,
    /// It holds no pages.
    Harmless,
    /// It may hold pages.
    Holds,
}

/// The type of a descriptor, as far as the next question depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    /// Known to hold none.
    Harmless,
    /// A file whose reads go directly into user pages.
    Direct,
    Socket,
    /// A device file, or an anonymous inode known only by name.
    Named,
}

/// One question about a descriptor, each a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Its open flags: fcntl(2).
    Flags,
    /// Its type: fstat(2).
    Status,
    /// The domain of a socket: getsockopt(2).
    Domain,
}

/// Context for questions about descriptors of this process.
#[derive(Debug)]
pub struct DescriptorInspector {
    /// Descriptor of the directory of all descriptors.
    pub list: RawFd,
    /// The inode that io_uring rings never have.
    pub nameless: u64,
}

impl DescriptorInspector {
    /// Returns whether one question suffices to tell that the descriptor is open and holds no
    /// pages.
    pub fn suffices(&self, question: Question, number: RawFd) -> bool {
        match question {
            Question::Flags => flags(number).is_some_and(is_harmless_as_opened),
            // In this case O_DIRECT makes no difference.
            Question::Status => {
                status(number).is_some_and(|status| self.nature(&status, true) == Nature::Harmless)
            }
            Question::Domain => domain(number).is_some_and(is_harmless_domain),
        }
    }

    /// Returns the verdict on a descriptor, and the single question that would have decided it, if
    /// there is one.
    pub fn verdict(&self, number: RawFd) -> (PinVerdict, Option<Question>) {
        let Some(flags) = flags(number) else {
            return (PinVerdict::Closed, None);
        };
        if is_harmless_as_opened(flags) {
            return (PinVerdict::Harmless, Some(Question::Flags));
        }
        let Some(status) = status(number) else {
            return (PinVerdict::Closed, None);
        };
        let nature = self.nature(&status, flags & libc::O_DIRECT != 0);
        let holds = match nature {
            Nature::Harmless => false,
            Nature::Direct => true,
            Nature::Socket => !domain(number).is_some_and(is_harmless_domain),
            Nature::Named => match name(number, self.list) {
                Some(name) if name.as_bytes() == RING => io_uring::holds(number),
                Some(name) => !is_harmless_name(name.as_bytes()),
                None => true,
            },
        };
        if holds {
            return (PinVerdict::Holds, None);
        }
        let question = match nature {
            Nature::Socket => Some(Question::Domain),
            _ if self.nature(&status, true) == Nature::Harmless => Some(Question::Status),
            _ => None,
        };
        (PinVerdict::Harmless, question)
    }

    fn nature(&self, status: &Stat, is_direct: bool) -> Nature {
        let device = (major(status.st_rdev), minor(status.st_rdev));
        nature(
            status.st_mode,
            device,
            is_direct,
            status.st_ino == self.nameless,
        )
    }
}

/// Borrows a descriptor that may be closed: the calls below return EBADF then.
fn borrowed<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the descriptor is passed only to system calls that query it, and is not -1, since
    // numbers come from the list of descriptors.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Returns a descriptor's open flags: F_GETFL.
fn flags(number: RawFd) -> Option<c_int> {
    let flags = rustix::fs::fcntl_getfl(borrowed(number)).ok()?;
    Some(flags.bits() as c_int)
}

/// Returns whether the open flags alone exclude pages: handing pages to a device takes ioctl(2) or
/// mmap(2) on a descriptor for reading and writing.
fn is_harmless_as_opened(flags: c_int) -> bool {
    let is_direct = flags & libc::O_DIRECT != 0;
    flags & libc::O_PATH != 0 || (flags & libc::O_ACCMODE != libc::O_RDWR && !is_direct)
}

/// Calls fstat(2) by the system call of that name: the C library's function uses newfstatat(2),
/// which takes longer.
fn status(number: RawFd) -> Option<Stat> {
    rustix::fs::fstat(borrowed(number)).ok()
}

fn nature(mode: libc::mode_t, device: (u32, u32), is_direct: bool, is_nameless: bool) -> Nature {
    match mode & libc::S_IFMT {
        // O_DIRECT of a pipe sets packet mode.
        libc::S_IFIFO => Nature::Harmless,
        libc::S_IFSOCK => Nature::Socket,
        libc::S_IFCHR if is_harmless_device(device) => Nature::Harmless,
        libc::S_IFCHR => Nature::Named,
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR if is_direct => Nature::Direct,
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR => Nature::Harmless,
        _ if is_nameless => Nature::Harmless,
        _ => Nature::Named,
    }
}

/// Returns whether a device's driver copies data (Documentation/admin-guide/devices.txt of Linux):
/// memory, terminals, tun, fuse.
fn is_harmless_device((major, minor): (u32, u32)) -> bool {
    match major {
        // null, zero, full, random, urandom, kmsg.
        1 => matches!(minor, 3 | 5 | 7 | 8 | 9 | 11),
        4 | 5 | 136..=143 => true,
        10 => matches!(minor, TUN | FUSE | KVM),
        _ => false,
    }
}

const TUN: u32 = 200;
const FUSE: u32 = 229;
/// Follows changes of mappings (MMU notifiers).
const KVM: u32 = 232;

const RING: &[u8] = b"anon_inode:[io_uring]";

/// Returns whether a name belongs to an anonymous inode that holds no pages of its owner.
fn is_harmless_name(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"/dev/userfaultfd",
        b"anon_inode:[userfaultfd]",
        b"anon_inode:inotify",
        b"anon_inode:[fanotify]",
        b"anon_inode:[pidfd]",
        b"anon_inode:[signalfd]",
        b"anon_inode:[timerfd]",
        b"anon_inode:[landlock-ruleset]",
    ];
    const BEGINNINGS: [&[u8]; 3] = [b"pidfd:", b"anon_inode:[event", b"anon_inode:bpf"];
    NAMES.contains(&name)
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

/// Returns a socket's SO_DOMAIN; None if the descriptor is not a socket.
fn domain(number: RawFd) -> Option<AddressFamily> {
    rustix::net::sockopt::socket_domain(borrowed(number)).ok()
}

/// Returns whether sockets of this domain hold no pages: all but the express data path.
fn is_harmless_domain(domain: AddressFamily) -> bool {
    domain != AddressFamily::XDP
}

/// Reads the link in the directory of descriptors, if it is short enough to matter.
fn name(number: RawFd, list: RawFd) -> Option<Name> {
    let mut bytes = [0; 64];
    let link = rustix::path::DecInt::new(number);
    let length = rustix::fs::readlinkat_raw(borrowed(list), link, &mut bytes[..]).ok()?;
    Some(Name { bytes, length })
}

struct Name {
    bytes: [u8; 64],
    length: usize,
}

impl Name {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns the inode that is shared by descriptors without their own inode; 0 where rings may
/// have it too, which was so before Linux 5.12.
pub fn nameless_inode() -> u64 {
    if !rings_have_inodes() {
        return 0;
    }
    // SAFETY: the call takes no pointers; the result is checked before it is owned.
    let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if made < 0 {
        return 0;
    }
    // SAFETY: eventfd just returned this descriptor, and nothing else owns it.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    status(made.as_raw_fd()).map_or(0, |status| status.st_ino)
}

fn rings_have_inodes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    is_at_least(&release, (5, 12))
}

/// Returns whether a kernel's release ("6.1.0-18-amd64") is at least this version.
fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut parts = release.split(|part: char| !part.is_ascii_digit());
    let mut next = || parts.next()?.parse::<u32>().ok();
    next().zip(next()).is_some_and(|found| found >= version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_nature_follows_type_and_device() {
        let device = |major, minor| nature(libc::S_IFCHR, (major, minor), false, false);
        assert_eq!(device(1, 3), Nature::Harmless, "/dev/null");
        assert_eq!(device(136, 7), Nature::Harmless, "a terminal");
        for (major, minor) in [(195, 255), (226, 128), (10, 196), (231, 192), (1, 1)] {
            assert_eq!(
                device(major, minor),
                Nature::Named,
                "GPU, vfio, RDMA, /dev/mem"
            );
        }
        let file = |mode, is_direct| nature(mode, (0, 0), is_direct, false);
        assert_eq!(file(libc::S_IFREG, false), Nature::Harmless);
        assert_eq!(file(libc::S_IFREG, true), Nature::Direct);
        assert_eq!(file(libc::S_IFBLK, true), Nature::Direct);
        assert_eq!(file(libc::S_IFIFO, true), Nature::Harmless);
        assert_eq!(file(libc::S_IFSOCK, false), Nature::Socket);
        assert_eq!(file(0, false), Nature::Named);
        assert_eq!(nature(0, (0, 0), false, true), Nature::Harmless);
    }

    #[test]
    fn only_listed_names_are_harmless() {
        assert!(is_harmless_name(b"anon_inode:[eventpoll]"));
        assert!(is_harmless_name(b"anon_inode:[userfaultfd]"));
        for name in [
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/kfd",
            "/dev/dri/renderD128",
            "/dev/vfio/vfio",
            "/dev/iommu",
            "/dev/udmabuf",
            "/dev/infiniband/uverbs0",
            "anon_inode:[io_uring]",
            "anon_inode:[vfio-device]",
            "",
        ] {
            assert!(!is_harmless_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn kernel_releases_are_compared_numerically() {
        assert!(is_at_least("6.1.0-18-amd64", (5, 12)));
        assert!(is_at_least("5.12.0", (5, 12)) && is_at_least("5.15.0-91-generic", (5, 12)));
        assert!(!is_at_least("5.4.0", (5, 12)) && !is_at_least("", (5, 12)));
    }

    #[test]
    fn descriptors_of_this_process_are_classified() {
        let list = std::fs::File::open("/proc/self/fd").unwrap();
        let inspector = DescriptorInspector {
            list: list.as_raw_fd(),
            nameless: nameless_inode(),
        };
        let look = |number| inspector.verdict(number).0;
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(look(one.as_raw_fd()), PinVerdict::Harmless);
        assert_eq!(look(list.as_raw_fd()), PinVerdict::Harmless);
        let null = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        assert_eq!(look(null.as_raw_fd()), PinVerdict::Harmless);
        assert_eq!(look(1 << 20), PinVerdict::Closed);
    }

    #[test]
    fn question_settles_descriptors_of_the_same_kind() {
        let list = std::fs::File::open("/proc/self/fd").unwrap();
        let inspector = DescriptorInspector {
            list: list.as_raw_fd(),
            nameless: nameless_inode(),
        };
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (pipe, _end) = std::io::pipe().unwrap();
        let made = || -> [RawFd; 2] {
            // SAFETY: the calls take no pointers.
            unsafe { [libc::eventfd(0, 0), libc::epoll_create1(0)] }
        };
        let path = std::env::temp_dir().join(format!("verbena-direct-{}", std::process::id()));
        let file = std::fs::File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let all = [
            list.as_raw_fd(),
            socket.as_raw_fd(),
            pipe.as_raw_fd(),
            file.as_raw_fd(),
        ];
        for number in all.into_iter().chain(made()) {
            let (verdict, question) = inspector.verdict(number);
            assert_eq!(verdict, PinVerdict::Harmless, "{number}");
            let is_file = number == file.as_raw_fd();
            assert_eq!(question.is_none(), is_file, "{number}");
            assert!(question.is_none_or(|question| inspector.suffices(question, number)));
        }
        // For a file that may have been opened with O_DIRECT the status alone decides nothing, and
        // no question decides a number that is closed or now of another type.
        for question in [Question::Flags, Question::Status, Question::Domain] {
            assert!(!inspector.suffices(question, file.as_raw_fd()));
            assert!(!inspector.suffices(question, 1 << 20));
        }
        assert!(!inspector.suffices(Question::Domain, pipe.as_raw_fd()));
        assert!(!inspector.suffices(Question::Status, socket.as_raw_fd()));
    }
}
