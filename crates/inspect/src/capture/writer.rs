//! Writes captured packets as they arrive, until stopped.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use verbena_hca_os::errno::Errno;
use verbena_hca_shm::registry;

use super::Failure;
use super::order::Waiting;
use super::pcapng::{self, Flags};
use verbena_hca_net::capture::Seen;
use verbena_hca_net::capture::collect::{Collector, Packet, Source};

/// Longest wait for packets. Shorter than the time in which a process can fill its buffer.
const NAP: Duration = Duration::from_millis(2);

/// The destination of captured packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination(PathBuf);

impl Destination {
    /// Returns the destination for a path: a file, which is created or truncated; `-` is standard
    /// output.
    pub fn of(path: PathBuf) -> Destination {
        Destination(path)
    }

    fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        match self.0 == Path::new("-") {
            true => Ok(Box::new(io::stdout())),
            false => Ok(Box::new(File::create(&self.0)?)),
        }
    }

    fn failure(&self, source: io::Error) -> Failure {
        Failure::File {
            path: self.0.clone(),
            source,
        }
    }
}

/// Writes packets to a pcapng file.
pub struct Writer {
    collector: Collector,
    destination: Destination,
    out: Box<dyn Write + Send>,
    waiting: Waiting,
    /// Number of sources whose interface block is written.
    described: usize,
    written: u64,
}

impl Writer {
    /// Captures all processes of this user's runtime directory.
    ///
    /// # Errors
    ///
    /// Fails if another capturer does so, the processes cannot connect, or the destination cannot
    /// be opened or written.
    pub fn of_all(destination: Destination) -> Result<Writer, Failure> {
        let path = registry::directory();
        let collector = Collector::public().map_err(|source| match source {
            Errno::EBUSY => Failure::Busy(path),
            source => Failure::Call { path, source },
        })?;
        Writer::begin(collector, destination)
    }

    /// Captures the processes that are started with VERBENA_CAPTURE set to `path`.
    ///
    /// # Errors
    ///
    /// Fails if the processes cannot connect, or the destination cannot be opened or written.
    pub fn of_program(path: &Path, destination: Destination) -> Result<Writer, Failure> {
        let collector = Collector::private(path).map_err(|source| Failure::Call {
            path: path.to_owned(),
            source,
        })?;
        Writer::begin(collector, destination)
    }

    /// Opens the destination and writes the section header.
    fn begin(collector: Collector, destination: Destination) -> Result<Writer, Failure> {
        let out = destination
            .open()
            .map_err(|source| destination.failure(source))?;
        let mut writer = Writer {
            collector,
            destination,
            out,
            waiting: Waiting::default(),
            described: 0,
            written: 0,
        };
        let mut header = Vec::new();
        pcapng::section_header(&mut header, concat!("verbena ", env!("CARGO_PKG_VERSION")));
        writer.write(&header)?;
        Ok(writer)
    }

    /// Writes packets until `stop` is set, then the remaining packets and the statistics. Returns a
    /// summary line for the user.
    ///
    /// # Errors
    ///
    /// Fails if the file can no longer be written; its contents so far are valid.
    pub fn run(mut self, stop: &AtomicBool) -> Result<String, Failure> {
        while !stop.load(Ordering::Relaxed) {
            let before = self.waiting.room().len();
            self.collector.take(self.waiting.room());
            if self.waiting.room().len() == before {
                self.collector.wait(NAP);
            }
            let ready = self.waiting.ready(now());
            self.put(&ready)?;
        }
        self.collector.take(self.waiting.room());
        let rest = self.waiting.all();
        self.put(&rest)?;
        self.statistics()?;
        Ok(self.summary())
    }

    /// Writes whole blocks in one call, so that the file is valid if this process is killed between
    /// calls.
    fn put(&mut self, packets: &[Packet]) -> Result<(), Failure> {
        let mut blocks = Vec::new();
        for source in &self.collector.sources()[self.described..] {
            let Source { pid, command, .. } = source;
            pcapng::interface(&mut blocks, &format!("process {pid}"), command);
        }
        self.described = self.collector.sources().len();
        for packet in packets {
            let flags = match packet.seen {
                Seen::Sent => Flags::Outbound,
                Seen::Received => Flags::Inbound,
                Seen::Damaged => Flags::InboundDamaged,
            };
            pcapng::packet(
                &mut blocks,
                packet.source as u32,
                packet.time,
                flags,
                &packet.frame,
            );
        }
        self.written += packets.len() as u64;
        self.write(&blocks)
    }

    fn statistics(&mut self) -> Result<(), Failure> {
        let mut blocks = Vec::new();
        for (index, source) in self.collector.sources().iter().enumerate() {
            let told = source.packets.saturating_add(source.lost);
            pcapng::statistics(&mut blocks, index as u32, now(), told, source.lost);
        }
        self.write(&blocks)
    }

    fn write(&mut self, blocks: &[u8]) -> Result<(), Failure> {
        if blocks.is_empty() {
            return Ok(());
        }
        let written = self.out.write_all(blocks).and_then(|()| self.out.flush());
        written.map_err(|source| self.destination.failure(source))
    }

    fn summary(&self) -> String {
        let sources = self.collector.sources();
        let lost: u64 = sources.iter().map(|source| source.lost).sum();
        let processes = match sources.len() {
            1 => "1 process".to_owned(),
            many => format!("{many} processes"),
        };
        let more = match lost {
            0 => String::new(),
            lost => {
                format!("; {lost} more were lost: they arrived faster than they could be written")
            }
        };
        format!("{} packets of {processes}{more}", self.written)
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
