//! Caps per user: sessions, data queue pairs, and open files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Authenticated sessions.
    Session,
    /// Data queue pairs.
    QueuePair,
    /// Open files, of which a process has only so many.
    OpenFile,
}

/// The caps.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Sessions per user.
    pub sessions_per_user: usize,
    /// Sessions of all users.
    pub sessions: usize,
    /// Queue pairs per user.
    pub queue_pairs_per_user: usize,
    /// Queue pairs of all users.
    pub queue_pairs: usize,
    /// Open files per user.
    pub open_files_per_user: usize,
    /// Open files of all users.
    pub open_files: usize,
}

#[derive(Debug, Default)]
struct Counts {
    users: HashMap<(String, Resource), usize>,
    all: HashMap<Resource, usize>,
}

/// Who uses how much.
#[derive(Debug)]
pub struct Quotas {
    caps: Caps,
    counts: Mutex<Counts>,
}

/// Whose session has to go for another one to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// One of this user's.
    Of(String),
    /// Anybody's.
    Anybodys,
}

impl Wish {
    /// Whether a session of this user would do.
    pub fn is_of(&self, user: &str) -> bool {
        match self {
            Self::Of(wanted) => wanted == user,
            Self::Anybodys => true,
        }
    }
}

/// Who waits to be let in, for those who can make room.
#[derive(Debug, Default)]
pub struct Room(Mutex<HashMap<u64, (Instant, Wish)>>);

/// How long a wish lasts that is not repeated: whoever made it has gone.
const FORGOTTEN: Duration = Duration::from_secs(1);

impl Room {
    /// A session waits, since this cap is reached.
    pub fn ask(&self, session: u64, user: &str, exhausted: Exhausted) {
        let wish = match exhausted {
            Exhausted::User(_) => Wish::Of(user.to_owned()),
            Exhausted::Service(_) => Wish::Anybodys,
        };
        self.lock().insert(session, (Instant::now(), wish));
    }

    /// It waits no more.
    pub fn withdraw(&self, session: u64) {
        self.lock().remove(&session);
    }

    /// What is wished for now.
    pub fn wishes(&self) -> Vec<Wish> {
        let mut wishes = self.lock();
        wishes.retain(|_, (since, _)| since.elapsed() < FORGOTTEN);
        wishes.values().map(|(_, wish)| wish.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Instant, Wish)>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// One unit, until it is dropped.
#[derive(Debug)]
pub struct Share {
    quotas: Arc<Quotas>,
    user: String,
    resource: Resource,
}

/// Which cap was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The user's own.
    #[error("user has {0} already, the limit per user")]
    User(usize),
    /// The service's.
    #[error("service has {0} already, its limit")]
    Service(usize),
}

impl Quotas {
    /// Nothing used yet.
    pub fn new(caps: Caps) -> Arc<Self> {
        Arc::new(Self {
            caps,
            counts: Mutex::default(),
        })
    }

    /// One unit for a user.
    pub fn take(self: &Arc<Self>, user: &str, resource: Resource) -> Result<Share, Exhausted> {
        let (per_user, in_all) = match resource {
            Resource::Session => (self.caps.sessions_per_user, self.caps.sessions),
            Resource::QueuePair => (self.caps.queue_pairs_per_user, self.caps.queue_pairs),
            Resource::OpenFile => (self.caps.open_files_per_user, self.caps.open_files),
        };
        let mut counts = self
            .counts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let all = counts.all.get(&resource).copied().unwrap_or(0);
        let own = counts
            .users
            .get(&(user.to_owned(), resource))
            .copied()
            .unwrap_or(0);
        if own >= per_user {
            return Err(Exhausted::User(own));
        }
        if all >= in_all {
            return Err(Exhausted::Service(all));
        }
        counts.all.insert(resource, all + 1);
        counts.users.insert((user.to_owned(), resource), own + 1);
        Ok(Share {
            quotas: Arc::clone(self),
            user: user.to_owned(),
            resource,
        })
    }

    /// Units in use by all.
    pub fn used(&self, resource: Resource) -> usize {
        let counts = self
            .counts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        counts.all.get(&resource).copied().unwrap_or(0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self
            .quotas
            .counts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let key = (std::mem::take(&mut self.user), self.resource);
        if let Some(all) = counts.all.get_mut(&self.resource) {
            *all -= 1;
        }
        if let Some(own) = counts.users.get_mut(&key) {
            *own -= 1;
            if *own == 0 {
                counts.users.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_hold_per_user_and_in_all() {
        let caps = Caps {
            sessions_per_user: 2,
            sessions: 3,
            queue_pairs_per_user: 1,
            queue_pairs: 1,
            open_files_per_user: 1,
            open_files: 1,
        };
        let quotas = Quotas::new(caps);
        let a = quotas.take("ann", Resource::Session).unwrap();
        let _b = quotas.take("ann", Resource::Session).unwrap();
        assert_eq!(
            quotas.take("ann", Resource::Session).unwrap_err(),
            Exhausted::User(2)
        );
        let _c = quotas.take("bob", Resource::Session).unwrap();
        assert_eq!(
            quotas.take("cy", Resource::Session).unwrap_err(),
            Exhausted::Service(3)
        );
        drop(a);
        assert!(quotas.take("cy", Resource::Session).is_ok());
    }
}
