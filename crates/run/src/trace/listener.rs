//! Receives the traced calls: a datagram socket in a private directory, read by a separate thread.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::record::Record;
use super::table::Table;

/// Longest valid datagram, in bytes: arguments and result are at most 48 KiB each.
const LONGEST: usize = 128 << 10;
/// Time without a datagram after which the listener checks whether the program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Processes calls, one at a time.
pub struct Listener {
    socket: UnixDatagram,
    lines: Option<Lines>,
    table: Table,
    /// The first malformed record.
    invalid: Option<String>,
}

/// The calls to print, a line each.
pub struct Lines {
    /// The destination.
    pub to: Box<dyn Write + Send>,
    /// Print only calls whose name contains one of these words; all if empty.
    pub only: Vec<String>,
    /// Print start and duration in seconds, from the first call.
    pub times: bool,
    /// Start time of the first call, in nanoseconds.
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
        // Calls of different threads may arrive out of order.
        let since = record.start as f64 - began as f64;
        let took = record.duration as f64;
        writeln!(self.to, "{:.6} {record} <{:.6}>", since / 1e9, took / 1e9)
    }
}

/// The calls of a program that has ended.
pub struct Received {
    /// Their summary.
    pub table: Table,
    /// The first malformed record.
    pub invalid: Option<String>,
}

impl Listener {
    /// Binds the socket that VERBENA_TRACE is to name.
    ///
    /// # Errors
    ///
    /// Returns the error of the system call.
    pub fn bind(path: &Path, lines: Option<Lines>) -> io::Result<Listener> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Listener {
            socket,
            lines,
            table: Table::default(),
            invalid: None,
        })
    }

    /// Receives calls until the program has ended and all of its datagrams are read. Sending then
    /// fails in processes that run longer.
    ///
    /// # Errors
    ///
    /// Fails if lines cannot be written or the socket cannot be read.
    pub fn receive(mut self, ended: &AtomicBool) -> io::Result<Received> {
        let mut buffer = vec![0; LONGEST];
        loop {
            // Read before the socket, so that datagrams sent before the end are still received.
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
        Ok(Received {
            table: self.table,
            invalid: self.invalid,
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
            Err(invalid) => {
                self.invalid.get_or_insert_with(|| invalid.to_string());
                Ok(())
            }
        }
    }
}
