//! The capturer's side of packet capture: finds the processes and collects their packets.

use super::Seen;
use super::ring::{self, Ring};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use verbena_hca_memory::socket_message;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::{Rings, Socket};
use verbena_hca_shm::registry::{self, Registry};
use verbena_hca_shm::ring::{Consumer, Corrupt};
use verbena_wire::roce;

/// Connections accepted before other work gets its turn.
const BATCH: usize = 64;
/// Packets taken from one process before others get their turn.
const MOST: usize = 1 << 14;

/// A captured process.
pub struct Source {
    /// Its process id; 0 where it is outside our PID namespace.
    pub pid: u32,
    /// Its command name.
    pub command: String,
    /// Number of packets captured from it.
    pub packets: u64,
    /// Number of packets that it reports as lost for lack of space in the ring.
    pub lost: u64,
    live: Option<Live>,
}

/// State of a process that has not ended.
struct Live {
    socket: Socket,
    ring: Ring,
    consumer: Consumer,
}

/// A captured packet.
pub struct Packet {
    /// Index in [`Collector::sources`] of the process that reported it.
    pub source: usize,
    /// Time of capture in nanoseconds since 1970.
    pub time: u64,
    /// The packet's fate.
    pub seen: Seen,
    /// From its IP header to its ICRC.
    pub frame: Vec<u8>,
}

/// A packet capturer.
pub struct Collector {
    listener: Socket,
    connect_point: ConnectPoint,
    /// Connections of processes that have not handed over their ring yet.
    promised: Vec<Socket>,
    sources: Vec<Source>,
}

/// Where processes connect to the capturer.
enum ConnectPoint {
    /// At a path that is passed to the processes to be captured.
    Private(PathBuf),
    /// In the runtime directory, which exists at least as long as the capturer.
    Public(Registry),
}

impl Collector {
    /// Captures the processes that are started with VERBENA_CAPTURE set to `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn private(path: &Path) -> Result<Collector> {
        let listener = Socket::listen(path)?;
        Ok(Collector::new(
            listener,
            ConnectPoint::Private(path.to_owned()),
        ))
    }

    /// Captures all processes of the runtime directory, present and future.
    ///
    /// # Errors
    /// EBUSY when another capturer does so already; as [`Registry::open`]; the system's.
    pub fn public() -> Result<Collector> {
        let registry = Registry::open(&registry::directory())?;
        let listener = listen(&registry.capture_socket())?;
        // Processes that start from now on connect by themselves. One that started just now may be
        // asked as well; it answers only one of the two.
        let ask = |identity| {
            let socket = registry.connect(identity)?;
            socket_message::ask_for_ring(&socket).map(|()| socket)
        };
        let processes = registry.processes();
        let promised = processes
            .into_iter()
            .filter_map(|(identity, _)| ask(identity).ok())
            .collect();
        let mut collector = Collector::new(listener, ConnectPoint::Public(registry));
        collector.promised = promised;
        Ok(collector)
    }

    fn new(listener: Socket, connect_point: ConnectPoint) -> Collector {
        Collector {
            listener,
            connect_point,
            promised: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Returns the processes so far, including those that have ended.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Takes the packets captured since the last call. Does not block.
    pub fn take(&mut self, packets: &mut Vec<Packet>) {
        self.admit();
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.take(index, packets);
        }
    }

    /// Waits for a new connection, `timeout` at most.
    pub fn wait(&self, timeout: Duration) {
        let _ = self.listener.wait_readable(timeout);
    }

    /// Accepts connections and makes sources of those that have handed over their ring. Some never
    /// will.
    fn admit(&mut self) {
        let calls = std::iter::from_fn(|| self.listener.accept().ok());
        self.promised.extend(calls.take(BATCH));
        for socket in std::mem::take(&mut self.promised) {
            match socket_message::take_ring(&socket) {
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => self.promised.push(socket),
                Ok(Some(file)) => self.sources.extend(Source::begin(socket, file)),
                // Captured by another capturer, ended, or not a Verbena process of this user.
                Ok(None) | Err(_) => (),
            }
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        match &self.connect_point {
            ConnectPoint::Private(path) => {
                let _ = fs::remove_file(path);
            }
            ConnectPoint::Public(registry) => {
                let _ = fs::remove_file(registry.capture_socket());
                // Removes the files that other processes left while the capturer kept the
                // directory. It is not empty while a process lives.
                registry::sweep(registry.path());
                let _ = fs::remove_dir(registry.path());
            }
        }
    }
}

impl Source {
    fn begin(socket: Socket, file: OwnedFd) -> Option<Source> {
        let pid = socket.peer().ok()?.0;
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Source {
            pid: u32::try_from(pid).unwrap_or(0),
            command: command.trim_end().to_owned(),
            packets: 0,
            lost: 0,
            live: Some(Live {
                socket,
                ring: Ring::of_captured(file).ok()?,
                consumer: Consumer::default(),
            }),
        })
    }

    fn take(&mut self, index: usize, packets: &mut Vec<Packet>) {
        let Some(live) = &mut self.live else {
            return;
        };
        // Checked first: everything the process reported before it ended is in the ring.
        let has_ended = live.socket.take_rings() == Rings::Ended;
        let before = packets.len();
        let taken = live.take(index, packets);
        self.packets += (packets.len() - before) as u64;
        self.lost = live.ring.lost().load(Ordering::Relaxed);
        if taken.is_err() || has_ended && packets.len() == before {
            self.live = None;
        }
    }
}

impl Live {
    /// Takes up to [`MOST`] packets from the ring.
    ///
    /// # Errors
    /// [`Corrupt`] for records that no captured process writes.
    fn take(
        &mut self,
        index: usize,
        packets: &mut Vec<Packet>,
    ) -> std::result::Result<(), Corrupt> {
        let Live { ring, consumer, .. } = self;
        for _ in 0..MOST {
            let Some(record) = consumer.peek(ring)? else {
                break;
            };
            let (seen, time) = ring::parse(&record.header).ok_or(Corrupt)?;
            let mut frame = vec![0; record.header.length.into()];
            // SAFETY: the record holds so many bytes (the ring checks that). They may change
            // meanwhile; only the copy is used.
            unsafe {
                frame
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(record.payload, frame.len());
            }
            consumer.advance(&record);
            // A socket does not see the checksum; the sender's kernel computes it from the other
            // fields.
            roce::fill_checksum(&mut frame);
            packets.push(Packet {
                source: index,
                time,
                seen,
                frame,
            });
        }
        consumer.publish(ring);
        Ok(())
    }
}

/// Listens at `path` unless another capturer does; a socket left by a killed capturer is replaced.
///
/// # Errors
/// EBUSY when another capturer listens there; the system's.
fn listen(path: &Path) -> Result<Socket> {
    match Socket::listen(path) {
        Err(Errno(libc::EADDRINUSE)) => (),
        listener => return listener,
    }
    match Socket::connect(path) {
        Err(Errno(libc::ECONNREFUSED)) => {
            fs::remove_file(path)?;
            Socket::listen(path)
        }
        Ok(_) | Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        Err(error) => Err(error),
    }
}
