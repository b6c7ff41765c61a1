//! The audit log: one JSON object a line, for every session, every file opened and closed, and every change.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// Where the lines go.
#[derive(Debug)]
pub struct Audit {
    sink: Option<Mutex<File>>,
}

/// Who did it, from where.
#[derive(Debug, Clone)]
pub struct Who {
    /// The authenticated user, or the unproved claim in a failed attempt.
    pub user: String,
    /// The peer's address.
    pub peer: String,
    /// The session's number in this run of the service.
    pub session: u64,
}

impl Audit {
    /// No log.
    pub fn none() -> Self {
        Self { sink: None }
    }

    /// Appends to a file.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            sink: Some(Mutex::new(file)),
        })
    }

    /// Whether anything that is recorded is kept.
    pub fn is_kept(&self) -> bool {
        self.sink.is_some()
    }

    /// Writes a line. A log that cannot be written is reported on standard error and stops nothing.
    pub fn record(&self, who: &Who, event: &str, details: Value) {
        let Some(sink) = &self.sink else { return };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros());
        let mut object = Map::new();
        object.insert("time_us".into(), json!(now as u64));
        object.insert("session".into(), json!(who.session));
        object.insert("user".into(), json!(who.user));
        object.insert("peer".into(), json!(who.peer));
        object.insert("event".into(), json!(event));
        if let Value::Object(details) = details {
            object.extend(details);
        }
        let mut line = Value::Object(object).to_string();
        line.push('\n');
        let mut file = sink.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("rfiod: audit log: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_line_is_one_object_whatever_the_names_hold() {
        let scratch = Scratch::new();
        let audit = Audit::to_file(&scratch.path("audit")).unwrap();
        let who = Who {
            user: "a\n\"b".into(),
            peer: "::1".into(),
            session: 3,
        };
        audit.record(&who, "open", json!({"path": "/x\ny", "status": 0}));
        let text = std::fs::read_to_string(scratch.path("audit")).unwrap();
        assert_eq!(text.lines().count(), 1);
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["user"], "a\n\"b");
        assert_eq!(object["path"], "/x\ny");
    }
}
