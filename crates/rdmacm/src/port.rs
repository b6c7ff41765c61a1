//! Ports of a port space, each held by one identifier of this host, and the sockets of listeners.
//!
//! A port is one lock file per address family in the runtime directory: locked exclusively for the
//! wildcard address, shared between different addresses. An identifier for its own family only
//! ([`PortRequest::family_only`]) locks one of them, any other locks both. A lock ends with its
//! process, so the port of a killed process is free. The holder removes the file, or the last
//! process of the host removes the whole directory.
//!
//! Conflicts have the errors of the kernel's `cma_check_port`: EADDRNOTAVAIL where either address
//! is the wildcard or a loopback one, EADDRINUSE for the same address otherwise. One case differs:
//! two loopback addresses may share a port here.

use crate::address;
use crate::closed_port;
use crate::hosts::Host;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::Errno as Os;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use verbena_hca_os::errno::{Errno, Result};

/// Ephemeral ports: Linux' default range.
const EPHEMERAL: std::ops::Range<u16> = 32768..61000;

/// The address and port that an identifier is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRequest {
    /// The address, with its port.
    pub address: SocketAddr,
    /// Whether the other address family may use the port (RDMA_OPTION_ID_AFONLY). By default true
    /// for IPv4, and for IPv6 if the system says so (`net.ipv6.bindv6only`).
    pub family_only: bool,
}

impl PortRequest {
    /// Returns the claim to `address` with the value of RDMA_OPTION_ID_AFONLY, if it was set.
    pub fn new(address: SocketAddr, family_only: Option<bool>) -> PortRequest {
        PortRequest {
            address,
            family_only: family_only.unwrap_or_else(|| address.is_ipv4() || only_by_default()),
        }
    }

    /// Returns the families whose port it holds.
    fn families(&self) -> &'static [char] {
        match (self.family_only, self.address) {
            (false, _) => &['4', '6'],
            (true, SocketAddr::V4(_)) => &['4'],
            (true, SocketAddr::V6(_)) => &['6'],
        }
    }
}

fn only_by_default() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
    setting.is_ok_and(|text| text.trim() == "1")
}

/// The ports of a host.
pub struct Ports {
    /// The directory of the lock files.
    directory: File,
    host: Host,
}

/// A held port.
pub struct Port {
    directory: File,
    host: Host,
    /// Held locks with their file names, the one of the specific address first.
    locks: Vec<(OwnedFd, String)>,
    space: u16,
    claim: PortRequest,
    /// Whether the program chose the number.
    is_chosen: bool,
    listens: bool,
}

impl Ports {
    /// Opens the ports of a host in a runtime directory.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(directory: &Path, host: Host) -> Result<Ports> {
        let directory = File::open(directory)?;
        Ok(Ports { directory, host })
    }

    /// Reserves a port in `space`; port 0 takes any free one. Returns the address with its port.
    ///
    /// # Errors
    /// EADDRNOTAVAIL or EADDRINUSE.
    pub fn reserve(&self, space: u16, claim: PortRequest) -> Result<(Port, SocketAddr)> {
        if claim.address.port() != 0 {
            return Ok((self.hold(space, claim)?, claim.address));
        }
        let count = EPHEMERAL.len() as u32;
        let start = random_word() % count;
        for step in 0..count {
            let number = EPHEMERAL.start + ((start + step) % count) as u16;
            let mut candidate = claim;
            candidate.address.set_port(number);
            match self.hold(space, candidate) {
                Err(Errno(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => (),
                Err(error) => return Err(error),
                Ok(mut port) => {
                    port.is_chosen = false;
                    return Ok((port, candidate.address));
                }
            }
        }
        Err(Errno(libc::EADDRNOTAVAIL))
    }

    /// Returns an ephemeral port number, without reserving it.
    pub fn ephemeral() -> u16 {
        EPHEMERAL.start + (random_word() % EPHEMERAL.len() as u32) as u16
    }

    fn hold(&self, space: u16, claim: PortRequest) -> Result<Port> {
        let mut port = Port {
            directory: self.directory.try_clone()?,
            host: self.host.clone(),
            locks: Vec::new(),
            space,
            claim,
            is_chosen: true,
            listens: false,
        };
        for family in claim.families() {
            port.lock_family(*family)?;
        }
        if !claim.address.ip().is_unspecified() {
            let special = special_name(&self.host, space, claim.address);
            let taken = match claim.address.ip().to_canonical().is_loopback() {
                true => libc::EADDRNOTAVAIL,
                false => libc::EADDRINUSE,
            };
            port.lock(special, FlockOperation::NonBlockingLockExclusive, taken)?;
        }
        Ok(port)
    }

    /// Returns the host whose ports these are.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Connects to the listener of a host at `address`, or at the wildcard address of its port.
    ///
    /// # Errors
    /// ECONNREFUSED if there is none, EAGAIN if its queue is full.
    pub fn connect(&self, host: &Host, space: u16, address: SocketAddr) -> Result<UnixStream> {
        let (four, six) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        let own = match address {
            SocketAddr::V4(_) => four,
            SocketAddr::V6(_) => six,
        };
        let other = if own == four { six } else { four };
        // A listener at the wildcard of the other family serves this one too, unless it is for its
        // own family only.
        for (ip, family_only) in [
            (address.ip(), true),
            (address.ip(), false),
            (own, true),
            (own, false),
            (other, false),
        ] {
            let mut candidate = address;
            if ip != address.ip() {
                candidate.set_ip(ip);
            }
            let claim = PortRequest {
                address: candidate,
                family_only,
            };
            match self.connect_to(&socket_name(host, space, claim)) {
                Err(Os::NOENT | Os::CONNREFUSED) => (),
                Err(error) => return Err(Errno(error.raw_os_error())),
                Ok(stream) => return Ok(stream),
            }
        }
        Err(Errno(libc::ECONNREFUSED))
    }

    /// Returns the living process that stopped listening at `port` of a host a moment ago: see
    /// `closed_port`.
    pub fn recent_listener(&self, host: &Host, space: u16, port: u16) -> Option<Pid> {
        closed_port::recent_listener(&self.directory, host, space, port)
    }

    fn connect_to(&self, name: &str) -> rustix::io::Result<UnixStream> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::connect(
            &socket,
            &SocketAddrUnix::new(within(&self.directory, name))?,
        )?;
        Ok(socket.into())
    }
}

impl Port {
    /// Locks the port of one address family.
    fn lock_family(&mut self, family: char) -> Result<()> {
        let name = family_name(&self.host, self.space, self.claim.address.port(), family);
        let operation = match self.claim.address.ip().is_unspecified() {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        self.lock(name, operation, libc::EADDRNOTAVAIL)
    }

    /// Releases the port of the other address family, or locks it as well.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if it is taken there.
    pub fn set_family_only(&mut self, family_only: bool) -> Result<()> {
        let before = self.claim.families();
        let mut claim = self.claim;
        claim.family_only = family_only;
        let after = claim.families();
        for family in after.iter().filter(|family| !before.contains(family)) {
            self.lock_family(*family)?;
        }
        for family in before.iter().filter(|family| !after.contains(family)) {
            let name = family_name(&self.host, self.space, claim.address.port(), *family);
            if let Some(at) = self.locks.iter().position(|(_, of)| *of == name) {
                let (file, name) = self.locks.remove(at);
                self.unlock(&file, &name);
            }
        }
        self.claim = claim;
        Ok(())
    }

    /// Takes a lock; `taken` is the error if another process holds it.
    fn lock(&mut self, name: String, operation: FlockOperation, taken: i32) -> Result<()> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            let file = openat(&self.directory, &*name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|error| Errno(error.raw_os_error()))?;
            match flock(&file, operation) {
                Err(Os::WOULDBLOCK) => return Err(Errno(taken)),
                Err(error) => return Err(Errno(error.raw_os_error())),
                Ok(()) => (),
            }
            let status = rustix::fs::fstat(&file).map_err(|error| Errno(error.raw_os_error()))?;
            // The last holder removed the file between the two calls: this lock is of a deleted
            // file.
            if status.st_nlink > 0 {
                self.locks.insert(0, (file, name));
                return Ok(());
            }
        }
    }

    /// Creates the socket that peers connect to.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2).
    pub fn listen(&mut self) -> Result<UnixListener> {
        // It gets its name only once it listens, so that a peer that sees the name can connect; it
        // replaces the leftover of a killed holder.
        let socket = socket_name(&self.host, self.space, self.claim);
        let making = format!("{socket}.new");
        let _ = unlinkat(&self.directory, &*making, rustix::fs::AtFlags::empty());
        let listener = UnixListener::bind(within(&self.directory, &making))?;
        listener.set_nonblocking(true)?;
        renameat(&self.directory, &*making, &self.directory, &*socket)
            .map_err(|error| Errno(error.raw_os_error()))?;
        self.listens = true;
        closed_port::forget(
            &self.directory,
            &self.host,
            self.space,
            self.claim.address.port(),
        );
        Ok(listener)
    }
}

impl Port {
    fn remove(&self, name: &str) {
        let _ = unlinkat(&self.directory, name, rustix::fs::AtFlags::empty());
    }

    /// Removes the file of a lock that is about to be released.
    fn unlock(&self, file: &OwnedFd, name: &str) {
        // Only an exclusive holder may remove the file, as others lock it by the same name.
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.remove(name);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.listens {
            if self.is_chosen {
                closed_port::record(
                    &self.directory,
                    &self.host,
                    self.space,
                    self.claim.address.port(),
                );
            }
            self.remove(&socket_name(&self.host, self.space, self.claim));
        }
        for (file, name) in &self.locks {
            self.unlock(file, name);
        }
    }
}

fn family_name(host: &Host, space: u16, port: u16, family: char) -> String {
    format!("cm-{host}{space:04x}-{port}-ipv{family}")
}

fn special_name(host: &Host, space: u16, address: SocketAddr) -> String {
    format!(
        "cm-{host}{space:04x}-{}-{}",
        address.port(),
        address::name(address)
    )
}

fn socket_name(host: &Host, space: u16, claim: PortRequest) -> String {
    let special = special_name(host, space, claim.address);
    let only = if claim.family_only { "-only" } else { "" };
    format!("{special}{only}.socket")
}

/// Returns a path through the directory's descriptor, as a long directory name would not fit into a
/// socket address.
fn within(directory: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

/// Returns a random number, used as a starting port or a first sequence number.
pub fn random_word() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Fails only before the kernel has gathered entropy at boot: any number will do.
        _ => std::process::id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: u16 = 0x0106;

    /// A directory of one test, removed at its end, where it must be empty.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path =
                std::env::temp_dir().join(format!("verbena-cm-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".closed") {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
            let removed = std::fs::remove_dir(&self.0);
            assert!(
                std::thread::panicking() || removed.is_ok(),
                "a file was left"
            );
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn claim(text: &str) -> PortRequest {
        let address = address(text);
        PortRequest {
            address,
            family_only: address.is_ipv4(),
        }
    }

    fn only(text: &str) -> PortRequest {
        PortRequest::new(address(text), Some(true))
    }

    fn refused(result: Result<(Port, SocketAddr)>) -> Option<i32> {
        result.err().map(|error| error.0)
    }

    const IN_USE: Option<i32> = Some(libc::EADDRINUSE);
    const NOT_AVAILABLE: Option<i32> = Some(libc::EADDRNOTAVAIL);

    #[test]
    fn a_port_can_be_bound_once() {
        let scratch = Scratch::new("once");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        for (first, same, other, same_is) in [
            (
                "127.0.0.1:7471",
                "127.0.0.1:7471",
                "127.0.0.2:7471",
                NOT_AVAILABLE,
            ),
            ("10.0.0.1:7471", "10.0.0.1:7471", "10.0.0.2:7471", IN_USE),
            ("[2001::1]:7471", "[2001::1]:7471", "[2001::2]:7471", IN_USE),
        ] {
            let wildcard = match address(first) {
                SocketAddr::V4(_) => "0.0.0.0:7471",
                SocketAddr::V6(_) => "[::]:7471",
            };
            let reserve = |text| ports.reserve(TCP, claim(text));
            let (held, _) = reserve(first).unwrap();
            assert_eq!(refused(reserve(same)), same_is);
            assert_eq!(refused(reserve(wildcard)), NOT_AVAILABLE);
            let other = reserve(other).unwrap();
            drop(held);
            let again = reserve(first).unwrap();
            drop((other, again));
            let any = reserve(wildcard).unwrap();
            assert_eq!(refused(reserve(first)), NOT_AVAILABLE);
            assert_eq!(refused(reserve(wildcard)), NOT_AVAILABLE);
            drop(any);
        }
    }

    #[test]
    fn ipv4_and_ipv6_share_a_port_if_ipv6_only() {
        let scratch = Scratch::new("families");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        let both = |text: &str| PortRequest::new(address(text), Some(false));
        let (any4, any6) = ("0.0.0.0:7471", "[::]:7471");
        for (first, second, expected) in [
            (only(any4), only(any6), None),
            (only(any4), both(any6), NOT_AVAILABLE),
            (both(any4), only(any6), NOT_AVAILABLE),
            (only("10.0.0.1:7471"), both(any6), NOT_AVAILABLE),
            (only("10.0.0.1:7471"), only(any6), None),
            (only("10.0.0.1:7471"), both("[2001::1]:7471"), None),
            (only(any4), both("[2001::1]:7471"), NOT_AVAILABLE),
            (only(any4), only("[2001::1]:7471"), None),
        ] {
            for (one, two) in [(first, second), (second, first)] {
                let held = ports.reserve(TCP, one).unwrap();
                let result = ports.reserve(TCP, two);
                assert_eq!(
                    result.as_ref().err().map(|e| e.0),
                    expected,
                    "{one:?} {two:?}"
                );
                drop((held, result));
            }
        }
    }

    #[test]
    fn a_port_can_become_ipv6_only_later() {
        let scratch = Scratch::new("later");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        let (mut six, _) = ports.reserve(TCP, claim("[::]:7471")).unwrap();
        assert_eq!(
            refused(ports.reserve(TCP, claim("0.0.0.0:7471"))),
            NOT_AVAILABLE
        );
        six.set_family_only(true).unwrap();
        let four = ports.reserve(TCP, claim("0.0.0.0:7471")).unwrap();
        assert_eq!(six.set_family_only(false), Err(Errno(libc::EADDRNOTAVAIL)));
        let listener = six.listen().unwrap();
        assert_eq!(
            ports
                .connect(ports.host(), TCP, address("127.0.0.1:7471"))
                .err(),
            Some(Errno(libc::ECONNREFUSED))
        );
        ports
            .connect(ports.host(), TCP, address("[::1]:7471"))
            .unwrap();
        assert!(listener.accept().is_ok());
        drop((six, four));
    }

    #[test]
    fn link_local_addresses_are_separate_per_link() {
        let scratch = Scratch::new("links");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        let [first, second] = ["[fe80::1%2]:7471", "[fe80::1%3]:7471"].map(address);
        let of = |address| PortRequest::new(address, Some(true));
        let (mut held, _) = ports.reserve(TCP, of(first)).unwrap();
        let (other, _) = ports.reserve(TCP, of(second)).unwrap();
        let listener = held.listen().unwrap();
        ports.connect(ports.host(), TCP, first).unwrap();
        assert!(listener.accept().is_ok());
        let connected = ports.connect(ports.host(), TCP, second).err();
        assert_eq!(connected, Some(Errno(libc::ECONNREFUSED)));
        assert_eq!(refused(ports.reserve(TCP, of(second))), IN_USE);
        drop((held, other));
    }

    #[test]
    fn port_zero_finds_any_free_port() {
        let scratch = Scratch::new("any");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        let (_a, first) = ports.reserve(TCP, claim("0.0.0.0:0")).unwrap();
        let (_b, second) = ports.reserve(TCP, claim("0.0.0.0:0")).unwrap();
        assert_ne!(first.port(), second.port());
        assert!(EPHEMERAL.contains(&first.port()));
    }

    #[test]
    fn listeners_are_found_by_address_and_by_wildcard() {
        let scratch = Scratch::new("listen");
        let ports = Ports::open(&scratch.0, Host::default()).unwrap();
        let target = address("127.0.0.1:7471");
        assert_eq!(
            ports.connect(ports.host(), TCP, target).err(),
            Some(Errno(libc::ECONNREFUSED))
        );
        for bound in ["127.0.0.1:7471", "0.0.0.0:7471", "[::]:7471"] {
            let (mut port, _) = ports.reserve(TCP, claim(bound)).unwrap();
            let listener = port.listen().unwrap();
            ports.connect(ports.host(), TCP, target).unwrap();
            assert!(listener.accept().is_ok(), "{bound}");
            assert_eq!(
                ports.recent_listener(ports.host(), TCP, 7471),
                None,
                "{bound}"
            );
            drop(port);
            assert!(
                ports.recent_listener(ports.host(), TCP, 7471).is_some(),
                "{bound}"
            );
        }
        assert_eq!(
            ports.connect(ports.host(), TCP, target).err(),
            Some(Errno(libc::ECONNREFUSED))
        );
    }
}
