//! Interfaces that the software adapter carries: each in the namespace of a `verbena ipoib`, whose
//! command (`verbena __ip-sockets`) makes sockets there and passes them to this process. A socket
//! keeps the network namespace in which it was made.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_reuseaddr, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, connect, listen, recv, send, socket_with};
use verbena_fabric::{Error, Result};
use verbena_ipoib::descriptor;
use verbena_measure::processors;
use verbena_workloads::ip_interface::{Interface, Sockets};

/// The command that makes sockets.
pub const SOCKETS_COMMAND: &str = "__ip-sockets";

/// The interface's name.
const NAME: &str = "ib0";
/// Modes of interfaces.
const MODES: [&str; 2] = ["datagram", "connected"];
/// Time limit of a connection, of a socket and of an interface's start.
const WAIT: Duration = Duration::from_secs(10);
/// Time for an interface to end by itself.
const ENDING: Duration = Duration::from_secs(2);

/// The first address of the network for benchmarks, 198.18.0.0/15 (RFC 2544), and the number of
/// jobs of eight addresses in it.
const FIRST: u32 = 0xc612_0000;
const JOBS: u32 = 1 << 14;

/// The processors that this process may use, before it is bound to one of them.
static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();

/// Notes the processors for those that carry packets. Called before this process is bound to one.
pub fn note_processors() {
    PROCESSORS.get_or_init(processors::allowed);
}

/// Starts a program on all processors that this process had at first.
fn on_all_processors(command: &mut Command) -> io::Result<Child> {
    let all = PROCESSORS.get_or_init(processors::allowed);
    // A program inherits the processors of the thread that starts it.
    let start = || {
        // Without it, the figures are worse than they could be, as with too few processors.
        let _ = processors::bind(all);
        command.spawn()
    };
    std::thread::scope(|scope| scope.spawn(start).join().expect("starting does not panic"))
}

/// A request to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The interface's MTU: the answer's number.
    Mtu = 0,
    /// A TCP socket of IPv4: the answer's descriptor, or the system's error number.
    Tcp = 1,
    /// A UDP socket of IPv4, in the same way.
    Udp = 2,
}

/// Answers requests on standard input, a socket, until its peer ends. `mtu` is the MTU of the
/// interface with a name, if there is one.
///
/// # Errors
///
/// Fails if standard input is no such socket, or a request is unknown.
pub fn answer(mtu: impl Fn(&str) -> io::Result<Option<u32>>) -> io::Result<()> {
    let control = io::stdin();
    let mut request = [0];
    loop {
        match recv(&control, &mut request, RecvFlags::empty()) {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Ok(()),
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        match request[0] {
            0 => {
                let found = mtu(NAME)?.ok_or(io::ErrorKind::NotFound)?;
                descriptor::send(&control, found, &[])?;
            }
            kind @ (1 | 2) => match socket_of(kind == 1) {
                Ok(made) => descriptor::send(&control, 0, &[made.as_fd()])?,
                Err(error) => {
                    let number = error.raw_os_error().unwrap_or_default();
                    descriptor::send(&control, number.cast_unsigned(), &[])?;
                }
            },
            other => {
                let text = format!("{other} is no request for a socket");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
    }
}

fn socket_of(is_stream: bool) -> io::Result<OwnedFd> {
    let kind = match is_stream {
        true => SocketType::STREAM,
        false => SocketType::DGRAM,
    };
    Ok(socket_with(
        AddressFamily::INET,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Starts an interface for each mode. `side` is the process's position in the pair.
pub fn open(number: u32, side: usize) -> Result<Vec<Interface>> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::Unsupported => {
            let here = format!("this host: {error}; `verbena doctor` says more");
            Error::unsupported("an IP interface", here)
        }
        _ => Error::adapter("starting an IP interface", error.to_string()),
    };
    let mut all = Vec::new();
    for (index, mode) in MODES.iter().enumerate() {
        let of_job = FIRST + 8 * (number % JOBS);
        let address = Ipv4Addr::from_bits(of_job + (2 * index + side) as u32 + 1);
        let namespace = Namespace::start(mode, address).map_err(failed)?;
        all.push(Interface {
            mode: (*mode).to_owned(),
            mtu: namespace.ask(Question::Mtu).map_err(failed)?.0,
            address: IpAddr::V4(address),
            carriers: 1,
            sockets: Box::new(namespace),
        });
    }
    Ok(all)
}

/// A running `verbena ipoib`.
struct Namespace {
    process: Child,
    /// Its command's standard input; empty once it has been closed.
    control: Option<OwnedFd>,
}

impl Namespace {
    /// Starts it and waits until its command runs.
    fn start(mode: &str, address: Ipv4Addr) -> io::Result<Namespace> {
        let program = std::env::current_exe()?;
        let (own, theirs) = descriptor::pair()?;
        set_socket_timeout(&own, Timeout::Recv, Some(WAIT))?;
        let mut command = Command::new(&program);
        command
            .args(["ipoib", "--name", NAME, "--mode", mode])
            .args(["--address", &format!("{address}/29"), "--"])
            .arg(&program)
            .arg(SOCKETS_COMMAND)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let process = on_all_processors(&mut command)?;
        let mut started = Namespace {
            process,
            control: Some(own),
        };
        match started.ask(Question::Mtu) {
            Ok(_) => Ok(started),
            Err(error) => Err(started.reason(error)),
        }
    }

    /// Returns the answer's number and descriptors.
    fn ask(&self, question: Question) -> io::Result<(u32, Vec<OwnedFd>)> {
        let control = self.control.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        send(control, &[question as u8], SendFlags::NOSIGNAL)?;
        let (number, descriptors) =
            descriptor::receive(control).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => {
                    let text = format!("`verbena ipoib` did not answer for {} s", WAIT.as_secs());
                    io::Error::new(io::ErrorKind::TimedOut, text)
                }
                _ => error,
            })?;
        match (question, descriptors.is_empty(), number) {
            (Question::Tcp | Question::Udp, true, 0) | (Question::Mtu, _, 0) => {
                Err(io::Error::other("the interface has ended"))
            }
            (Question::Tcp | Question::Udp, true, error) => {
                Err(io::Error::from_raw_os_error(error.cast_signed()))
            }
            _ => Ok((number, descriptors)),
        }
    }

    /// Returns the error that it printed, if it has ended: interfaces cannot be made here.
    fn reason(&mut self, error: io::Error) -> io::Error {
        self.control = None;
        self.end();
        let mut text = String::new();
        let printed = self.process.stderr.take();
        let is_read = printed.is_some_and(|mut pipe| pipe.read_to_string(&mut text).is_ok());
        match text.trim() {
            "" => error,
            text if is_read => {
                let text = text.strip_prefix("verbena: ").unwrap_or(text);
                io::Error::new(io::ErrorKind::Unsupported, text.to_owned())
            }
            _ => error,
        }
    }

    /// Waits for its end, which follows that of its command, and else ends it.
    fn end(&mut self) {
        let since = Instant::now();
        while let Ok(None) = self.process.try_wait() {
            if since.elapsed() > ENDING {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn socket(&self, kind: Question) -> io::Result<OwnedFd> {
        let (_, descriptors) = self.ask(kind)?;
        let made = descriptors.into_iter().next();
        made.ok_or_else(|| io::Error::other("the interface made no socket"))
    }
}

impl Sockets for Namespace {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let made = self.socket(Question::Tcp)?;
        set_socket_reuseaddr(&made, true)?;
        bind(&made, &address)?;
        listen(&made, 8)?;
        Ok(TcpListener::from(made))
    }

    fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let made = self.socket(Question::Tcp)?;
        set_socket_timeout(&made, Timeout::Send, Some(WAIT))?;
        match connect(&made, &to) {
            // The time limit has passed (socket(7), SO_SNDTIMEO).
            Err(rustix::io::Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
            other => {
                other?;
                Ok(TcpStream::from(made))
            }
        }
    }

    fn datagrams(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let made = self.socket(Question::Udp)?;
        bind(&made, &address)?;
        Ok(UdpSocket::from(made))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.control = None;
        self.end();
    }
}
