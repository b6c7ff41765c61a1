//! `verbena __rfio-client`: one client process. It reads jobs from standard input, one JSON object
//! per line, and answers each with a line on standard output. It ends at the end of its input.

use std::io::{BufRead, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use verbena_rfio_client::connection::{PipelinedReads, PipelinedWrites, SharedFile};
use verbena_rfio_client::{Error, Location, MultiplexedConnection, Options};
use verbena_rfio_protocol::request::OpenFlags;

use crate::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Read the file and discard the data.
    Read,
    Write,
}

/// The use of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sessions {
    /// A new connection for each transfer: the cost of copying one file.
    Each,
    /// One connection for all transfers: the rate of a long-lived reader.
    One,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Location of the file.
    pub place: String,
    pub action: Action,
    /// Bytes per transfer.
    pub size: u64,
    /// The use of connections.
    pub sessions: Sessions,
    /// Start time in nanoseconds of the monotonic clock, which all processes of a host share.
    pub begin: u64,
    /// End time: no transfer starts after it, and an unfinished one counts up to it.
    pub end: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Answer {
    pub error: Option<String>,
    /// Bytes transferred before the end.
    pub bytes: u64,
    /// Actual start time.
    pub begun: u64,
    /// Time of the last byte that counts.
    pub ended: u64,
    /// Processor time of this process, in seconds.
    pub cpu_seconds: f64,
    /// Duration of each complete transfer, in nanoseconds.
    pub transfers: Vec<u64>,
    /// Whether data was transferred by RDMA.
    pub fabric: bool,
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processes jobs until the end of input.
///
/// # Errors
///
/// Fails if a job cannot be parsed.
pub fn run() -> Result<(), Failure> {
    let input = std::io::stdin().lock();
    for line in input.lines().map_while(Result::ok) {
        let job: Job =
            serde_json::from_str(&line).map_err(|error| Failure::Input(error.to_string()))?;
        let answer = perform(&job).unwrap_or_else(|error| Answer {
            error: Some(error.to_string()),
            ..Answer::default()
        });
        let text = serde_json::to_string(&answer).expect("an answer is plain data");
        let mut output = std::io::stdout().lock();
        // If the launcher has ended, no further job follows.
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }
    Ok(())
}

fn connect(job: &Job, options: &Options) -> Result<SharedFile, Error> {
    let bad = |text: String| Error::Setup(text);
    let Location::Remote(address, path) =
        Location::parse(&job.place).map_err(|error| bad(error.to_string()))?
    else {
        return Err(bad(format!("{} is not a path on a server", job.place)));
    };
    let flags = match job.action {
        Action::Read => OpenFlags::READ,
        Action::Write => OpenFlags::WRITE | OpenFlags::CREATE,
    };
    let session = MultiplexedConnection::for_copies(&address, options)?;
    SharedFile::open(session, &path, flags, 0o600)
}

fn perform(job: &Job) -> Result<Answer, Error> {
    let options = Options::from_environment()?;
    let mut kept = match job.sessions {
        Sessions::One => Some(connect(job, &options)?),
        Sessions::Each => None,
    };
    let buffer = vec![0; 4 << 20];
    if let Some(file) = &kept {
        // A first transfer, because the queue pair and its memory are part of the connection.
        transfer(file, job, 4 << 20, u64::MAX, &buffer, &mut 0)?;
    }
    std::thread::sleep(Duration::from_nanos(job.begin.saturating_sub(now())));
    let mut answer = Answer {
        begun: now(),
        ..Answer::default()
    };
    let cpu = nanoseconds(ClockId::ProcessCPUTime);
    while now() < job.end {
        let since = now();
        let fresh = match &kept {
            None => Some(connect(job, &options)?),
            Some(_) => None,
        };
        let file = fresh
            .as_ref()
            .or(kept.as_ref())
            .expect("one of them is there");
        let mut moved = 0;
        transfer(file, job, job.size, job.end, &buffer, &mut moved)?;
        answer.bytes += moved;
        answer.fabric |= file.connection().uses_fabric();
        drop(fresh);
        answer.ended = now();
        if moved == job.size {
            answer.transfers.push(answer.ended - since);
        }
    }
    answer.cpu_seconds = (nanoseconds(ClockId::ProcessCPUTime) - cpu) as f64 / 1e9;
    kept.take();
    Ok(answer)
}

/// Transfers bytes from the start of the file, and counts them up to the end time.
fn transfer(
    file: &SharedFile,
    job: &Job,
    size: u64,
    end: u64,
    buffer: &[u8],
    moved: &mut u64,
) -> Result<(), Error> {
    let most = file.connection().max_request_bytes() as u64;
    let mut offset = 0;
    match job.action {
        Action::Read => {
            let mut reads = PipelinedReads::of(file, None);
            loop {
                while reads.has_room() && offset < size && now() < end {
                    let length = most.min(size - offset);
                    reads.start(offset, length as u32)?;
                    offset += length;
                }
                let Some(length) = reads.finish_oldest(|_, _, data| data.len() as u64)? else {
                    return Ok(());
                };
                // Data after the end time does not count.
                if now() < end {
                    *moved += length;
                }
                if length == 0 {
                    return Err(Error::Setup(format!(
                        "{} is shorter than {size}",
                        job.place
                    )));
                }
            }
        }
        Action::Write => {
            let mut writes = PipelinedWrites::default();
            while offset < size && now() < end {
                let length = most.min(buffer.len() as u64).min(size - offset);
                writes.start(file, offset, &buffer[..length as usize])?;
                offset += length;
            }
            writes.finish()?;
            *moved = offset;
            Ok(())
        }
    }
}
