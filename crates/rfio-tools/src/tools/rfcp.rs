//! `rfcp`: copies files to, from and between servers.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::arguments::{self, Copy};
use crate::remote::{below, status};
use crate::{display, exit, say};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use verbena_rfio_client::copy::filter::{ExistingFiles, Filter};
use verbena_rfio_client::copy::{
    ConnectionStart, CopyError, CopySettings, Durability, EarlierAttempt, ExtraAttributes,
    Progress, RateLimit, Report, Retry, SessionCount, Verification, copy_file, copy_tree, is_begun,
};
use verbena_rfio_client::{Address, Error, Location, MultiplexedConnection, Options};
use verbena_rfio_protocol::shown;

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Copy = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(error) = end_on_signal() {
        exit::report("rfcp", format_args!("signals: {error}"));
        return exit::with(exit::SYSTEM);
    }
    match copy(&arguments) {
        Ok(code) => exit::with(code),
        Err(error) => {
            exit::report("rfcp", &error);
            exit::with(exit::code(error.status()))
        }
    }
}

/// Exits with RFIO's code at SIGINT, SIGTERM or SIGHUP; the partial file stays for `--continue`.
fn end_on_signal() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            std::process::exit(exit::KILLED.into());
        }
    });
    Ok(())
}

fn copy(arguments: &Copy) -> Result<u8, Error> {
    let settings = settings(arguments)?;
    if arguments.recursive {
        prepare(arguments, &settings);
    }
    let pairs = pairs(arguments, &settings)?;
    let progress = Progress::default();
    let begun = Instant::now();
    let code = Mutex::new(exit::OK);
    let left_out = Mutex::new(Vec::new());
    let note = |error: CopyError| {
        exit::report("rfcp", &error);
        if error.is_left_out() {
            let mut names = left_out.lock().unwrap_or_else(|poison| poison.into_inner());
            if names.len() < NAMES_REPORTED {
                names.push(error.subject);
            }
            return;
        }
        let mut code = code.lock().unwrap_or_else(|poison| poison.into_inner());
        if *code == exit::OK {
            *code = exit::code(error.status());
        }
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let shown = !arguments.quiet && !arguments.json && std::io::stderr().is_terminal();
        let bar = shown.then(|| scope.spawn(|| show(&progress, begun, &done)));
        for (from, to) in &pairs {
            let is_tree = match arguments.recursive {
                true => is_directory(from, &settings),
                false => Ok(false),
            };
            let is_tree = is_tree.map_err(|error| CopyError {
                subject: from.to_string(),
                error,
            });
            let result = is_tree.and_then(|is_tree| match is_tree {
                true => copy_tree(from, to, &settings, &progress, &note),
                false => copy_file(from, to, &settings, &progress),
            });
            if let Err(error) = result {
                let error = explain(error, from, arguments);
                // Every other source on that server would fail for the same user.
                let is_the_end = error.error.is_authentication_failure();
                note(error);
                if is_the_end {
                    break;
                }
            }
        }
        done.store(true, Ordering::Release);
        if let Some(bar) = bar {
            bar.thread().unpark();
        }
    });
    let code = code
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    let left_out = left_out
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    summarise(arguments, &progress, begun.elapsed(), code, &left_out);
    Ok(code)
}

/// Adds the option that copies directories to the error for a source that is one.
fn explain(failure: CopyError, from: &Location, arguments: &Copy) -> CopyError {
    let status = failure.status();
    let is_source = failure.subject == from.to_string();
    if status.as_errno() != Some(libc::EISDIR) || !is_source || arguments.recursive {
        return failure;
    }
    let message = "is a directory; copy it and its contents with -r";
    CopyError {
        error: Error::Explained(status, message.into()),
        ..failure
    }
}

/// Maximum number of left-out names in the summary; the count covers all of them.
const NAMES_REPORTED: usize = 1000;

/// Connects the sessions that a recursive copy needs with each server: one for names and one per
/// parallel transfer.
fn prepare(arguments: &Copy, settings: &CopySettings) {
    let places = arguments
        .places
        .iter()
        .map(|text| Location::parse(text.as_bytes()));
    let servers: HashSet<Address> = places
        .filter_map(|place| match place {
            Ok(Location::Remote(address, _)) => Some(address),
            _ => None,
        })
        .collect();
    for address in &servers {
        let count = settings.session_count.least() + 1;
        settings.sessions.prepare(address, &settings.options, count);
    }
}

fn settings(arguments: &Copy) -> Result<CopySettings, Error> {
    let options = arguments.connection.options()?;
    let session_count = session_count(arguments, &options);
    Ok(CopySettings {
        options,
        sessions: Arc::default(),
        earlier: if arguments.continue_earlier {
            EarlierAttempt::Continue
        } else {
            EarlierAttempt::Discard
        },
        verification: if arguments.checksum {
            Verification::Written
        } else {
            Verification::Blocks
        },
        session_count,
        most: arguments.size,
        stable: if arguments.sync {
            Durability::First
        } else {
            Durability::Later
        },
        extras: if arguments.xattrs {
            ExtraAttributes::Extended
        } else {
            ExtraAttributes::None
        },
        existing: match (arguments.no_clobber, arguments.update) {
            (true, _) => ExistingFiles::Keep,
            (false, true) => ExistingFiles::KeepNewer,
            (false, false) => ExistingFiles::Replace,
        },
        filter: Filter::of(arguments.rules.0.clone()),
        rate_limit: rate_limit(arguments, session_count)?,
        retry: Retry {
            timeout: Duration::from_secs(arguments.retry),
            tell: |loss| exit::report("rfcp", format_args!("{loss}; retrying")),
        },
        start: ConnectionStart::Full,
    })
}

/// Returns the number of sessions. The default with a rate limit is one, and so is that with a
/// ticket, which is valid for one session.
fn session_count(arguments: &Copy, options: &Options) -> SessionCount {
    match arguments.parallel {
        Some(count) => SessionCount::Exactly(count.into()),
        None if arguments.limit_rate.is_some() || options.ticket.is_some() => {
            SessionCount::Exactly(1)
        }
        None => SessionCount::AsProcessorsAllow,
    }
}

/// Minimum rate of a session in bytes per second; at less, a server may take the client for dead.
const SLOWEST: u64 = 64 << 10;

fn rate_limit(
    arguments: &Copy,
    session_count: SessionCount,
) -> Result<Option<Arc<RateLimit>>, Error> {
    let Some(rate) = arguments.limit_rate else {
        return Ok(None);
    };
    let least = SLOWEST * session_count.most() as u64;
    if rate < least {
        return Err(Error::Setup(format!(
            "--limit-rate {rate} is too low: each session of -P needs at least 64k, here {}k in \
             total",
            least >> 10
        )));
    }
    Ok(Some(Arc::new(RateLimit::new(rate))))
}

/// Returns each source with its destination: a directory receives sources under their names.
fn pairs(arguments: &Copy, settings: &CopySettings) -> Result<Vec<(Location, Location)>, Error> {
    let parse = |text: &OsString| {
        Location::parse(text.as_bytes()).map_err(|bad| Error::Setup(bad.to_string()))
    };
    let (last, sources) = arguments
        .places
        .split_last()
        .expect("the command line has two places at least");
    let mut destination = parse(last)?;
    let mut into = is_directory(&destination, settings)?;
    // A tree that an earlier attempt has begun at the destination is continued there, not below it.
    if let (true, true, [only]) = (into, arguments.recursive, sources) {
        let source = parse(only)?;
        let continues =
            settings.earlier == EarlierAttempt::Continue && is_directory(&source, settings)?;
        if continues && is_begun(&source, &destination, settings).map_err(|error| error.error)? {
            into = false;
        }
    }
    // Symbolic links in the user's path to the directory are resolved here, since the copy follows
    // none below it.
    if let (true, Location::Local(path)) = (into, &mut destination) {
        *path = path
            .canonicalize()
            .map_err(|error| Error::Local(shown::bytes(last.as_bytes()), error))?;
    }
    if sources.len() > 1 && !into {
        return Err(Error::Setup(format!(
            "'{}' is not a directory; several sources need a directory as destination",
            shown::bytes(last.as_bytes())
        )));
    }
    sources
        .iter()
        .map(|text| {
            let source = parse(text)?;
            let to = if into {
                inside(&destination, &source, text.as_bytes())?
            } else {
                destination.clone()
            };
            Ok((source, to))
        })
        .collect()
}

fn inside(directory: &Location, source: &Location, text: &[u8]) -> Result<Location, Error> {
    use std::os::unix::ffi::OsStringExt;
    let mut parts = text.rsplit(|&byte| byte == b'/');
    let last = parts.find(|part| !part.is_empty());
    if matches!(last, Some(b"." | b"..")) {
        return Ok(directory.clone());
    }
    let name = match source {
        Location::Local(path) => path.file_name().map(|name| name.as_bytes().to_vec()),
        Location::Remote(_, path) => path
            .as_bytes()
            .split(|&byte| byte == b'/')
            .rfind(|part| !part.is_empty())
            .map(<[u8]>::to_vec),
    };
    match (directory, name) {
        // The content of a service's root goes into the directory itself.
        (directory, None) => Ok(directory.clone()),
        (_, Some(name)) if name == b"-" && matches!(source, Location::Local(_)) => {
            Err(Error::Setup(format!(
                "'{}' has no name; name the destination file",
                shown::bytes(text)
            )))
        }
        (Location::Local(directory), Some(name)) => {
            Ok(Location::Local(directory.join(OsString::from_vec(name))))
        }
        (Location::Remote(address, directory), Some(name)) => {
            Ok(Location::Remote(address.clone(), below(directory, &name)?))
        }
    }
}

/// Returns whether a location is a directory.
///
/// # Errors
/// The server rejects the user's authentication. Any other failure returns false and shows again
/// when the location is copied.
fn is_directory(location: &Location, settings: &CopySettings) -> Result<bool, Error> {
    match location {
        Location::Local(path) => Ok(path.is_dir()),
        Location::Remote(address, path) => {
            let look = || {
                let session = settings.sessions.take(address, &settings.options)?;
                status(&session, path)
            };
            // The session may have been lost since it was prepared.
            let about = look().or_else(|error| match error {
                Error::Refused(_) => Err(error),
                error if error.is_authentication_failure() => Err(error),
                _ => status(
                    &MultiplexedConnection::for_copies(address, &settings.options)?,
                    path,
                ),
            });
            match about {
                Ok(about) => Ok(about.mode & libc::S_IFMT == libc::S_IFDIR),
                Err(error) if error.is_authentication_failure() => Err(error),
                Err(_) => Ok(false),
            }
        }
    }
}

/// Draws the progress bar: share, rate over about the last second, and time left at that rate.
fn show(progress: &Progress, begun: Instant, done: &AtomicBool) {
    let mut marks = std::collections::VecDeque::from([(begun, 0u64)]);
    while !done.load(Ordering::Acquire) {
        std::thread::park_timeout(Duration::from_millis(200));
        let (now, report) = (Instant::now(), progress.report());
        marks.push_back((now, report.moved));
        while marks.len() > 8 {
            marks.pop_front();
        }
        let (since, before) = marks[0];
        let rate =
            (report.moved - before) as f64 / now.duration_since(since).as_secs_f64().max(1e-9);
        let there = report.moved + report.kept;
        let share = if report.expected == 0 {
            0.0
        } else {
            100.0 * there as f64 / report.expected as f64
        };
        let left = report.expected.saturating_sub(there) as f64 / rate.max(1.0);
        eprint!(
            "\r{:>5.1} %  {:>10} of {:>10}  {:>10}/s  {:>4.0} s left\x1b[K",
            share.min(100.0),
            display::bytes(there),
            display::bytes(report.expected),
            display::bytes(rate as u64),
            left,
        );
        let _ = std::io::stderr().flush();
    }
    eprint!("\r\x1b[K");
}

/// Returns this process's user plus system time, in seconds.
fn cpu_seconds() -> f64 {
    // SAFETY: `rusage` is plain integers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `rusage`.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the name of the data path.
fn path(report: &Report) -> &'static str {
    match report.routes {
        [false, false] => "no network",
        [true, false] => "TCP",
        [false, true] => "verbs",
        [true, true] => "verbs and TCP",
    }
}

fn summarise(arguments: &Copy, progress: &Progress, took: Duration, code: u8, left_out: &[String]) {
    if arguments.quiet {
        return;
    }
    let report = progress.report();
    // After a failure before the end of the first file there is nothing to summarise.
    if code != exit::OK && report.files + report.left == 0 && !arguments.json {
        return;
    }
    let (seconds, cpu) = (took.as_secs_f64(), cpu_seconds());
    let rate = report.moved as f64 / seconds.max(1e-9);
    let to_pipe = arguments.places.last().is_some_and(|place| place == "-");
    let text = if arguments.json {
        serde_json::json!({
            "files": report.files,
            "files_left": report.left,
            "special_files": report.left_out,
            "tried_again": report.retries,
            "special_file_names": left_out,
            "bytes": report.moved + report.kept,
            "moved_bytes": report.moved,
            "kept_bytes": report.kept,
            "seconds": seconds,
            "bytes_per_second": rate,
            "cpu_seconds": cpu,
            "path": path(&report).replace(" and ", "+").to_lowercase(),
            "exit_code": code,
        })
        .to_string()
    } else {
        let kept = if report.kept > 0 {
            format!(", {} bytes kept", report.kept)
        } else {
            String::new()
        };
        let left = match report.left {
            0 => String::new(),
            1 => ", 1 existing file kept".into(),
            several => format!(", {several} existing files kept"),
        };
        let special = match report.left_out {
            0 => String::new(),
            1 => ", 1 special file skipped".into(),
            several => format!(", {several} special files skipped"),
        };
        format!(
            "{} bytes in {seconds:.3} s ({}/s) by {}, CPU {cpu:.3} s{kept}{left}{special}",
            report.moved,
            display::bytes(rate as u64),
            path(&report)
        )
    };
    // Standard output may be the copy itself.
    if to_pipe {
        eprintln!("{text}");
    } else {
        say!("{text}");
    }
}
