//! The open sessions: listed for administrators, and marked when they have to end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::audit::ClientIdentity;

/// A session.
#[derive(Debug)]
pub struct SessionRecord {
    /// Its number in this run of the service.
    pub number: u64,
    /// Its user.
    pub user: String,
    peer: String,
    since: SystemTime,
    /// The reason to end the session, once there is one.
    end: OnceLock<String>,
}

impl SessionRecord {
    /// Describes the session as JSON.
    pub fn describe(&self) -> Value {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "session": self.number,
            "user": self.user,
            "peer": self.peer,
            "since": since.as_secs(),
        })
    }
}

/// All established sessions.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<u64, Arc<SessionRecord>>>);

/// A session's entry in the list, until dropped.
#[derive(Debug)]
pub struct SessionEntry {
    sessions: Arc<Sessions>,
    session: Arc<SessionRecord>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<SessionRecord>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds a session of `user`.
    pub fn begin(self: &Arc<Self>, client: &ClientIdentity, user: &str) -> SessionEntry {
        let session = Arc::new(SessionRecord {
            number: client.session,
            user: user.to_owned(),
            peer: client.peer.clone(),
            since: SystemTime::now(),
            end: OnceLock::new(),
        });
        self.lock().insert(client.session, Arc::clone(&session));
        SessionEntry {
            sessions: Arc::clone(self),
            session,
        }
    }

    /// Marks sessions for ending, which their event loops do within half a second. Returns how many
    /// were newly marked.
    pub fn end(&self, why: &str, which: impl Fn(&SessionRecord) -> bool) -> usize {
        let sessions = self.lock();
        let chosen = sessions.values().filter(|session| which(session));
        chosen
            .filter(|session| session.end.set(why.to_owned()).is_ok())
            .count()
    }

    /// Returns all sessions, the oldest first.
    pub fn all(&self) -> Vec<Arc<SessionRecord>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by_key(|session| session.number);
        all
    }
}

impl SessionEntry {
    /// Returns the reason if the session is marked for ending.
    pub fn is_to_end(&self) -> Option<&str> {
        self.session.end.get().map(String::as_str)
    }
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.session.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(session: u64) -> ClientIdentity {
        ClientIdentity {
            user: "ann@192.0.2.1".into(),
            peer: "192.0.2.1:9".into(),
            session,
        }
    }

    #[test]
    fn sessions_are_listed_while_active_and_ended_once() {
        let sessions = Arc::new(Sessions::default());
        let (ann, bob) = (
            sessions.begin(&client(7), "ann"),
            sessions.begin(&client(3), "bob"),
        );
        let numbers = |all: Vec<Arc<SessionRecord>>| -> Vec<u64> {
            all.iter().map(|session| session.number).collect()
        };
        assert_eq!(numbers(sessions.all()), [3, 7]);
        assert_eq!(sessions.end("so", |session| session.user == "ann"), 1);
        assert_eq!(sessions.end("again", |session| session.user == "ann"), 0);
        assert_eq!((ann.is_to_end(), bob.is_to_end()), (Some("so"), None));
        drop(ann);
        assert_eq!(numbers(sessions.all()), [3]);
    }
}
