//! The capturer's side: finds the processes, and takes what they tell.

use super::Seen;
use super::ring::{self, Ring};
use crate::describe;
use crate::errno::{Errno, Result};
use crate::process::message;
use crate::shm::registry::{self, Registry};
use crate::shm::ring::{Consumer, Corrupt};
use crate::sys::socket::{Rings, Socket};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use verbena_wire::roce;

/// Callers taken before others get their turn.
const BATCH: usize = 64;
/// Packets taken of one process before others get their turn.
const MOST: usize = 1 << 14;

/// A captured process.
pub struct Source {
    /// Its number; 0 where it is not of ours to see.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Packets that it told.
    pub packets: u64,
    /// Packets for which there was no room, as it says.
    pub lost: u64,
    live: Option<Live>,
}

/// What a process that has not ended has.
struct Live {
    socket: Socket,
    ring: Ring,
    consumer: Consumer,
}

/// A packet that was told.
pub struct Packet {
    /// By which of [`Collector::sources`].
    pub source: usize,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// What became of it.
    pub seen: Seen,
    /// From its IP header to its ICRC.
    pub frame: Vec<u8>,
}

/// Who captures.
pub struct Collector {
    listener: Socket,
    place: Place,
    /// Processes that are to hand over a ring.
    promised: Vec<Socket>,
    sources: Vec<Source>,
}

/// Where the capturer is called.
enum Place {
    /// At a path that some processes are told.
    Private(PathBuf),
    /// In the runtime directory, which stays until we are gone.
    Public(Registry),
}

impl Collector {
    /// Captures those processes that are told `path` (VERBENA_CAPTURE).
    ///
    /// # Errors
    /// The system's.
    pub fn private(path: &Path) -> Result<Collector> {
        let listener = Socket::listen(path)?;
        Ok(Collector::new(listener, Place::Private(path.to_owned())))
    }

    /// Captures all processes of the runtime directory: those that run, and those that start.
    ///
    /// # Errors
    /// EBUSY when somebody does already; as [`Registry::open`]; the system's.
    pub fn public() -> Result<Collector> {
        let registry = Registry::open(&registry::directory())?;
        let listener = listen(&registry.capture_socket())?;
        // Those that come from now on call. A process that has come meanwhile may be asked too; it answers one of both.
        let ask = |identity| {
            let socket = registry.connect(identity)?;
            message::ask_for_ring(&socket).map(|()| socket)
        };
        let processes = registry.processes();
        let promised = processes
            .into_iter()
            .filter_map(|(identity, _)| ask(identity).ok())
            .collect();
        let mut collector = Collector::new(listener, Place::Public(registry));
        collector.promised = promised;
        Ok(collector)
    }

    fn new(listener: Socket, place: Place) -> Collector {
        Collector {
            listener,
            place,
            promised: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// The processes so far. One stays when it has ended.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Takes what was told since the last time. Waits for nothing.
    pub fn take(&mut self, packets: &mut Vec<Packet>) {
        self.admit();
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.take(index, packets);
        }
    }

    /// Waits until somebody new calls, `patience` at most.
    pub fn wait(&self, patience: Duration) {
        let _ = self.listener.wait_readable(patience);
    }

    /// Those who have handed over their ring become sources; of those who have not, some never will.
    fn admit(&mut self) {
        let calls = std::iter::from_fn(|| self.listener.accept().ok());
        self.promised.extend(calls.take(BATCH));
        for socket in std::mem::take(&mut self.promised) {
            match message::take_ring(&socket) {
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => self.promised.push(socket),
                Ok(Some(file)) => self.sources.extend(Source::begin(socket, file)),
                // Captured by somebody else, gone, or nobody of ours.
                Ok(None) | Err(_) => (),
            }
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        match &self.place {
            Place::Private(path) => {
                let _ = fs::remove_file(path);
            }
            Place::Public(registry) => {
                let _ = fs::remove_file(registry.capture_socket());
                // What others have left while we kept the directory. It is not empty while somebody lives.
                describe::sweep(registry.path());
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
        // Looked at first: what it told before it ended is in the ring.
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
    /// # Errors
    /// [`Corrupt`] for what no captured process tells.
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
            // SAFETY: the record holds so many bytes (checked by the ring); they may change, and the copy is what counts.
            unsafe {
                frame
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(record.payload, frame.len());
            }
            consumer.advance(&record);
            // A socket does not see the checksum; it is what the sender's kernel makes of the rest.
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

/// Listens where nobody else listens; a socket that a killed capturer left is no hindrance.
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
