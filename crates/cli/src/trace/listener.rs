//! Hears what is told of calls: a datagram socket in a private directory, read by a thread of its own.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::record::Record;
use super::table::Table;

/// The longest datagram that makes sense: arguments and result are at most 48 KiB each.
const LONGEST: usize = 128 << 10;
/// After so long without one it is looked whether the program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What is done with calls, one at a time.
pub struct Listener {
    socket: UnixDatagram,
    lines: Option<Lines>,
    table: Table,
    /// What made no sense, the first time.
    nonsense: Option<String>,
}

/// How calls are printed.
pub struct Lines {
    /// Where to.
    pub to: Box<dyn Write + Send>,
    /// Calls whose name has one of these in it; all, if there are none.
    pub only: Vec<String>,
    /// With when they were called and how long they took.
    pub times: bool,
    /// When the first one was called.
    pub began: Option<u64>,
}

impl Lines {
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let wanted = self.only.iter().any(|word| record.name.contains(word));
        if !wanted && !self.only.is_empty() {
            return Ok(());
        }
        if !self.times {
            return writeln!(self.to, "{record}");
        }
        let began = *self.began.get_or_insert(record.start);
        // Threads are not told in the order of their calls.
        let since = record.start as f64 - began as f64;
        let took = record.duration as f64;
        writeln!(self.to, "{:.6} {record} <{:.6}>", since / 1e9, took / 1e9)
    }
}

/// What was heard.
pub struct Heard {
    /// The calls.
    pub table: Table,
    /// What made no sense, the first time.
    pub nonsense: Option<String>,
}

impl Listener {
    /// Binds the socket that VERBENA_TRACE shall name.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(path: &Path, lines: Option<Lines>) -> io::Result<Listener> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Listener {
            socket,
            lines,
            table: Table::default(),
            nonsense: None,
        })
    }

    /// Hears until the program has ended and all that it told is read. Processes that live longer are told by the
    /// system that nobody listens.
    ///
    /// # Errors
    /// Lines that could not be written, and the system's.
    pub fn hear(mut self, ended: &AtomicBool) -> io::Result<Heard> {
        let mut buffer = vec![0; LONGEST];
        loop {
            // Looked at before the socket is: what came before the end is still read.
            let last = ended.load(Ordering::Acquire);
            match self.socket.recv(&mut buffer) {
                Ok(length) => self.take(&buffer[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(lines) = &mut self.lines {
                        lines.to.flush()?;
                    }
                    if last {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Heard {
            table: self.table,
            nonsense: self.nonsense,
        })
    }

    fn take(&mut self, datagram: &[u8]) -> io::Result<()> {
        match String::from_utf8_lossy(datagram).parse::<Record>() {
            Ok(record) => {
                self.table.add(&record);
                match &mut self.lines {
                    Some(lines) => lines.write(&record),
                    None => Ok(()),
                }
            }
            Err(nonsense) => {
                self.nonsense.get_or_insert_with(|| nonsense.to_string());
                Ok(())
            }
        }
    }
}
