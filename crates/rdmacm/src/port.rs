//! Ports of a port space, each held by one identifier of this host, and the socket behind a port that is listened to.
//!
//! A port is a lock file in the runtime directory: exclusive for the wildcard address, shared between different addresses.
//! flock(2) goes with its process, so a port whose holder was killed is free. The file is removed by whoever held it, and
//! with the directory by the last process out.

use crate::address;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::Errno as Os;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use verbena_hca::errno::{Errno, Result};

/// Port numbers that are given out when none is asked for: Linux's own range.
const EPHEMERAL: std::ops::Range<u16> = 32768..61000;

/// The directory that ports lie in.
pub struct Ports {
    directory: File,
}

/// A port that is held.
pub struct Port {
    directory: File,
    /// Held locks with the names of their files, the most special first.
    locks: Vec<(OwnedFd, String)>,
    socket: String,
    listens: bool,
}

impl Ports {
    /// The ports of a runtime directory.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn open(directory: &Path) -> Result<Ports> {
        let directory = File::open(directory)?;
        Ok(Ports { directory })
    }

    /// Takes the port of `address` in `space`; port 0 takes any free one.
    ///
    /// # Errors
    /// EADDRINUSE.
    pub fn reserve(&self, space: u16, address: SocketAddr) -> Result<(Port, SocketAddr)> {
        if address.port() != 0 {
            return Ok((self.hold(space, address)?, address));
        }
        let count = EPHEMERAL.len() as u32;
        let start = random_word() % count;
        for step in 0..count {
            let number = EPHEMERAL.start + ((start + step) % count) as u16;
            let mut candidate = address;
            candidate.set_port(number);
            match self.hold(space, candidate) {
                Err(Errno(libc::EADDRINUSE)) => (),
                Err(error) => return Err(error),
                Ok(port) => return Ok((port, candidate)),
            }
        }
        Err(Errno(libc::EADDRINUSE))
    }

    /// A number for an identifier that nobody will ask for.
    pub fn ephemeral() -> u16 {
        EPHEMERAL.start + (random_word() % EPHEMERAL.len() as u32) as u16
    }

    fn hold(&self, space: u16, address: SocketAddr) -> Result<Port> {
        let directory = self.directory.try_clone()?;
        let common = common_name(space, address.port());
        let mut port = Port {
            directory,
            locks: Vec::new(),
            socket: socket_name(space, address),
            listens: false,
        };
        if address.ip().is_unspecified() {
            port.lock(common, FlockOperation::NonBlockingLockExclusive)?;
        } else {
            port.lock(common, FlockOperation::NonBlockingLockShared)?;
            let special = format!(
                "{}-{}",
                common_name(space, address.port()),
                address::name(address)
            );
            port.lock(special, FlockOperation::NonBlockingLockExclusive)?;
        }
        Ok(port)
    }

    /// Connects to whoever listens at `address`, or at the wildcard address of its port.
    ///
    /// # Errors
    /// ECONNREFUSED when nobody does, EAGAIN when it does not keep up.
    pub fn connect(&self, space: u16, address: SocketAddr) -> Result<UnixStream> {
        let mut any = address;
        any.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        });
        let mut dual = address;
        // A listener at [::] takes IPv4 as well.
        dual.set_ip(std::net::Ipv6Addr::UNSPECIFIED.into());
        for candidate in [address, any, dual] {
            match self.connect_to(&socket_name(space, candidate)) {
                Err(Os::NOENT | Os::CONNREFUSED) => (),
                Err(error) => return Err(Errno(error.raw_os_error())),
                Ok(stream) => return Ok(stream),
            }
        }
        Err(Errno(libc::ECONNREFUSED))
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
    fn lock(&mut self, name: String, operation: FlockOperation) -> Result<()> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            let file = openat(&self.directory, &*name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|error| Errno(error.raw_os_error()))?;
            match flock(&file, operation) {
                Err(Os::WOULDBLOCK) => return Err(Errno(libc::EADDRINUSE)),
                Err(error) => return Err(Errno(error.raw_os_error())),
                Ok(()) => (),
            }
            let status = rustix::fs::fstat(&file).map_err(|error| Errno(error.raw_os_error()))?;
            // Its last holder removed it between the two calls: what we hold is nobody's.
            if status.st_nlink > 0 {
                self.locks.insert(0, (file, name));
                return Ok(());
            }
        }
    }

    /// Makes the socket that peers connect to.
    ///
    /// # Errors
    /// What bind(2) and listen(2) say.
    pub fn listen(&mut self) -> Result<UnixListener> {
        // Under its name only once it listens, so that whoever sees it can connect; over what a killed holder left.
        let making = format!("{}.new", self.socket);
        let _ = unlinkat(&self.directory, &*making, rustix::fs::AtFlags::empty());
        let listener = UnixListener::bind(within(&self.directory, &making))?;
        listener.set_nonblocking(true)?;
        renameat(&self.directory, &*making, &self.directory, &*self.socket)
            .map_err(|error| Errno(error.raw_os_error()))?;
        self.listens = true;
        Ok(listener)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let remove = |name: &str| {
            let _ = unlinkat(&self.directory, name, rustix::fs::AtFlags::empty());
        };
        if self.listens {
            remove(&self.socket);
        }
        for (file, name) in &self.locks {
            // Only who holds it alone may remove it, for others hold it by the same name.
            if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove(name);
            }
        }
    }
}

fn common_name(space: u16, port: u16) -> String {
    format!("cm-{space:04x}-{port}")
}

fn socket_name(space: u16, address: SocketAddr) -> String {
    let common = common_name(space, address.port());
    format!("{common}-{}.socket", address::name(address))
}

/// Through the directory's descriptor, so that a long directory name does not overflow a socket address.
fn within(directory: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

/// Any number: where to begin looking, or a first sequence number.
pub fn random_word() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Not before the kernel has gathered entropy at boot: any number will do.
        _ => std::process::id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: u16 = 0x0106;

    /// A directory of the test's own, removed at its end, where it must be empty.
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

    fn taken(result: Result<(Port, SocketAddr)>) -> bool {
        matches!(result, Err(Errno(libc::EADDRINUSE)))
    }

    #[test]
    fn a_port_is_held_once() {
        let scratch = Scratch::new("once");
        let ports = Ports::open(&scratch.0).unwrap();
        let (held, _) = ports.reserve(TCP, address("127.0.0.1:7471")).unwrap();
        assert!(taken(ports.reserve(TCP, address("127.0.0.1:7471"))));
        assert!(taken(ports.reserve(TCP, address("0.0.0.0:7471"))));
        let other = ports.reserve(TCP, address("127.0.0.2:7471")).unwrap();
        drop(held);
        let again = ports.reserve(TCP, address("127.0.0.1:7471")).unwrap();
        drop((other, again));
        let any = ports.reserve(TCP, address("0.0.0.0:7471")).unwrap();
        assert!(taken(ports.reserve(TCP, address("127.0.0.1:7471"))));
        drop(any);
    }

    #[test]
    fn a_link_local_address_is_of_one_link() {
        let scratch = Scratch::new("links");
        let ports = Ports::open(&scratch.0).unwrap();
        let [first, second] = ["[fe80::1%2]:7471", "[fe80::1%3]:7471"].map(address);
        let (mut held, _) = ports.reserve(TCP, first).unwrap();
        let (other, _) = ports.reserve(TCP, second).unwrap();
        let listener = held.listen().unwrap();
        ports.connect(TCP, first).unwrap();
        assert!(listener.accept().is_ok());
        let refused = ports.connect(TCP, second).err();
        assert_eq!(refused, Some(Errno(libc::ECONNREFUSED)));
        assert!(taken(ports.reserve(TCP, second)));
        drop((held, other));
    }

    #[test]
    fn any_free_port_is_found() {
        let scratch = Scratch::new("any");
        let ports = Ports::open(&scratch.0).unwrap();
        let (_a, first) = ports.reserve(TCP, address("0.0.0.0:0")).unwrap();
        let (_b, second) = ports.reserve(TCP, address("0.0.0.0:0")).unwrap();
        assert_ne!(first.port(), second.port());
        assert!(EPHEMERAL.contains(&first.port()));
    }

    #[test]
    fn who_listens_is_found_by_its_address_and_by_the_wildcard() {
        let scratch = Scratch::new("listen");
        let ports = Ports::open(&scratch.0).unwrap();
        let target = address("127.0.0.1:7471");
        assert_eq!(
            ports.connect(TCP, target).err(),
            Some(Errno(libc::ECONNREFUSED))
        );
        for bound in ["127.0.0.1:7471", "0.0.0.0:7471", "[::]:7471"] {
            let (mut port, _) = ports.reserve(TCP, address(bound)).unwrap();
            let listener = port.listen().unwrap();
            ports.connect(TCP, target).unwrap();
            assert!(listener.accept().is_ok(), "{bound}");
        }
        assert_eq!(
            ports.connect(TCP, target).err(),
            Some(Errno(libc::ECONNREFUSED))
        );
    }
}
