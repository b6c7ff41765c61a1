//! Accounting of data transferred by each session and each file: counters during its lifetime, and
//! a record at its end, however it ends.
//!
//! Invariant: the bytes of all session records add up to the service's counters, and the bytes of a
//! session's file records to those of the session.

use std::io;
use std::path::Path as LocalPath;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Path;

use super::audit::ClientIdentity;
use super::log::{Log, now, object, put_name};
use super::metrics::{ByteCounters, Carrier, Flow, count};
use super::user_counters::UserCounters;

/// The accounting log.
#[derive(Debug)]
pub struct Accounting {
    log: Option<Log>,
}

impl Accounting {
    /// Returns an accounting that keeps no records.
    pub fn none() -> Self {
        Self { log: None }
    }

    /// Appends to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn to_file(path: &LocalPath) -> io::Result<Self> {
        Log::open("accounting log", path).map(|log| Self { log: Some(log) })
    }

    /// Returns the log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Records the start or the clean end of the service. Sessions of an earlier run without a
    /// record of their end ended with the service.
    pub fn mark(&self, event: &str) {
        let Some(log) = &self.log else { return };
        log.record(object(json!({
            "time_us": now(), "event": event, "process": std::process::id(),
        })));
    }

    fn record(&self, client: &ClientIdentity, event: &str, fields: Map<String, Value>) {
        let Some(log) = &self.log else { return };
        let mut record = client.fields();
        record.insert("event".into(), event.into());
        record.extend(fields);
        log.record(record);
    }
}

/// Adds the bytes of file data to a record.
fn put_moved(record: &mut Map<String, Value>, moved: &ByteCounters) {
    for (key, flow, carrier) in [
        ("sent_tcp", Flow::Sent, Carrier::Stream),
        ("sent_verbs", Flow::Sent, Carrier::Fabric),
        ("received_tcp", Flow::Received, Carrier::Stream),
        ("received_verbs", Flow::Received, Carrier::Fabric),
    ] {
        record.insert(key.into(), moved.get(flow, carrier).into());
    }
}

/// A file's account.
#[derive(Debug)]
pub struct FileAccount {
    /// Its name, if records are kept: at most 4 KiB for each open file.
    path: Option<Path>,
    flags: OpenFlags,
    opened: u64,
    moved: ByteCounters,
    failures: AtomicU64,
}

impl FileAccount {
    /// Begins the account of a file just opened.
    pub fn begin(accounting: &Accounting, path: &Path, flags: OpenFlags) -> Self {
        Self {
            path: accounting.log.is_some().then(|| path.clone()),
            flags,
            opened: now(),
            moved: ByteCounters::default(),
            failures: AtomicU64::new(0),
        }
    }

    /// Counts data.
    pub fn add(&self, flow: Flow, carrier: Carrier, bytes: u64) {
        self.moved.add(flow, carrier, bytes);
    }

    /// Counts a refused request.
    pub fn fail(&self) {
        count(&self.failures, 1);
    }
}

/// A session's account.
#[derive(Debug)]
pub struct SessionAccount {
    began: u64,
    moved: ByteCounters,
    files: AtomicU64,
    requests: AtomicU64,
    refusals: AtomicU64,
    user: Arc<UserCounters>,
    end: OnceLock<&'static str>,
}

impl SessionAccount {
    /// Begins the account of a session just accepted.
    pub fn begin(user: Arc<UserCounters>) -> Self {
        count(&user.sessions, 1);
        count(&user.open_sessions, 1);
        Self {
            began: now(),
            moved: ByteCounters::default(),
            files: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            user,
            end: OnceLock::new(),
        }
    }

    /// Counts data.
    pub fn add(&self, flow: Flow, carrier: Carrier, bytes: u64) {
        self.moved.add(flow, carrier, bytes);
        self.user.moved.add(flow, carrier, bytes);
    }

    /// Counts a request.
    pub fn request(&self, status: Status) {
        count(&self.requests, 1);
        count(&self.user.requests, 1);
        if !status.is_ok() {
            count(&self.refusals, 1);
            count(&self.user.refusals, 1);
        }
    }

    /// Sets the reason why the session ends; the first reason counts.
    pub fn ends(&self, why: &'static str) {
        let _ = self.end.set(why);
    }

    /// Records the end of an open file.
    pub(crate) fn end_file(
        &self,
        log: &Accounting,
        client: &ClientIdentity,
        file: &FileAccount,
        result: &str,
    ) {
        count(&self.files, 1);
        count(&self.user.files, 1);
        let Some(path) = &file.path else { return };
        let flags = file.flags;
        let access = match (flags.has(OpenFlags::READ), flags.has(OpenFlags::WRITE)) {
            (true, false) => "read",
            (false, _) => "write",
            _ => "read-write",
        };
        let mut record = object(json!({
            "access": access, "opened_us": file.opened, "result": result,
            "failures": file.failures.load(Ordering::Relaxed),
        }));
        put_name(&mut record, "path", path.as_bytes());
        put_moved(&mut record, &file.moved);
        log.record(client, "file", record);
    }

    /// Records a small file that one request transferred whole.
    pub(crate) fn end_small_file(
        &self,
        log: &Accounting,
        client: &ClientIdentity,
        path: &Path,
        (flow, bytes): (Flow, u64),
        status: Status,
    ) {
        count(&self.files, 1);
        count(&self.user.files, 1);
        if log.log.is_none() {
            return;
        }
        let moved = ByteCounters::default();
        moved.add(flow, Carrier::Stream, bytes);
        let mut record = object(json!({
            "access": if flow == Flow::Sent { "read" } else { "write" },
            "opened_us": now(),
            "result": if status.is_ok() { "whole" } else { "refused" },
            "failures": u64::from(!status.is_ok()),
        }));
        put_name(&mut record, "path", path.as_bytes());
        put_moved(&mut record, &moved);
        log.record(client, "file", record);
    }

    /// Records the end of the session.
    pub fn end(&self, log: &Accounting, client: &ClientIdentity) {
        self.user.open_sessions.fetch_sub(1, Ordering::Relaxed);
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut record = object(json!({
            "began_us": self.began,
            "files": number(&self.files),
            "requests": number(&self.requests),
            "refusals": number(&self.refusals),
            "result": self.end.get().copied().unwrap_or("dropped"),
        }));
        put_moved(&mut record, &self.moved);
        log.record(client, "session end", record);
    }
}
