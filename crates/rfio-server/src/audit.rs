//! The audit log: a record of every session, every file opened, every change by name, and every
//! refused attempt.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::log::{Log, now, object};

/// The audit log.
#[derive(Debug)]
pub struct Audit {
    log: Option<Log>,
}

/// The identity in a record: user and origin.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// The authenticated user, or the unproved claim in a failed attempt.
    pub user: String,
    /// The peer's address.
    pub peer: String,
    /// The session's number in this run of the service.
    pub session: u64,
}

impl ClientIdentity {
    /// Returns the first fields of a record.
    pub fn fields(&self) -> Map<String, Value> {
        object(json!({
            "time_us": now(), "session": self.session, "user": self.user, "peer": self.peer,
        }))
    }
}

impl Audit {
    /// Returns an audit that keeps no records.
    pub fn none() -> Self {
        Self { log: None }
    }

    /// Appends to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Log::open("audit log", path).map(|log| Self { log: Some(log) })
    }

    /// Returns whether records are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// Returns the log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Writes a record. One that cannot be written is counted; the service continues.
    pub fn record(&self, client: &ClientIdentity, event: &str, details: Value) {
        let Some(log) = &self.log else { return };
        let mut record = client.fields();
        record.insert("event".into(), event.into());
        record.extend(object(details));
        log.record(record);
    }
}
