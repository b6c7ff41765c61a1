//! Counts the use of capped resources by user, and admits or refuses more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::caps::{Caps, Resource};
use super::user_limits::UserLimits;

#[derive(Debug, Default)]
struct Counts {
    limits: UserLimits,
    users: HashMap<(String, Resource), usize>,
    all: HashMap<Resource, usize>,
}

/// Usage of all users.
#[derive(Debug)]
pub struct Quotas {
    caps: Caps,
    counts: Mutex<Counts>,
}

/// Which session must end to admit another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionRequest {
    /// One of this user's.
    Of(String),
    /// Any session.
    Anybodys,
}

impl EvictionRequest {
    /// Returns whether a session of this user qualifies.
    pub(crate) fn is_of(&self, user: &str) -> bool {
        match self {
            Self::Of(wanted) => wanted == user,
            Self::Anybodys => true,
        }
    }
}

/// Sessions that wait to be admitted, for the event loops that can free space.
#[derive(Debug, Default)]
pub struct AdmissionQueue(Mutex<HashMap<u64, (Instant, EvictionRequest)>>);

/// Lifetime of a request for space that is not repeated: its connection has ended.
const FORGOTTEN: Duration = Duration::from_secs(1);

impl AdmissionQueue {
    /// Records that a session waits because this cap is reached.
    pub fn ask(&self, session: u64, user: &str, exhausted: Exhausted) {
        let wish = match exhausted {
            Exhausted::User(_) => EvictionRequest::Of(user.to_owned()),
            Exhausted::Service(_) => EvictionRequest::Anybodys,
        };
        self.lock().insert(session, (Instant::now(), wish));
    }

    /// Records that a session no longer waits.
    pub(crate) fn withdraw(&self, session: u64) {
        self.lock().remove(&session);
    }

    /// Returns the current requests for space.
    pub(crate) fn requests(&self) -> Vec<EvictionRequest> {
        let mut requests = self.lock();
        requests.retain(|_, (since, _)| since.elapsed() < FORGOTTEN);
        requests.values().map(|(_, wish)| wish.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (Instant, EvictionRequest)>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// One unit of a resource, held until dropped.
#[derive(Debug)]
pub struct Share {
    quotas: Arc<Quotas>,
    user: String,
    resource: Resource,
}

/// The cap that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The user's cap.
    #[error("the user already has {0}, the limit per user")]
    User(usize),
    /// The service's cap.
    #[error("the service already has {0}; none is left for this user")]
    Service(usize),
}

impl Counts {
    fn of(&self, user: &str, resource: Resource) -> usize {
        let key = (user.to_owned(), resource);
        self.users.get(&key).copied().unwrap_or(0)
    }

    /// Returns the number of free units reserved for other users.
    fn kept_from(&self, user: &str, resource: Resource) -> usize {
        let reserves = self.limits.reserves(resource).iter();
        reserves
            .filter(|(other, _)| other != user)
            .map(|(other, reserve)| reserve.saturating_sub(self.of(other, resource)))
            .sum()
    }
}

impl Quotas {
    /// Returns quotas with nothing in use.
    pub fn new(caps: Caps) -> Arc<Self> {
        Arc::new(Self {
            caps,
            counts: Mutex::default(),
        })
    }

    /// Returns the caps.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Replaces the caps and reserves of single users. Resources above a new cap stay open.
    pub fn replace_limits(&self, limits: UserLimits) {
        let mut counts = self
            .counts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        counts.limits = limits;
    }

    /// Takes one unit for a user.
    ///
    /// # Errors
    /// The cap that was reached.
    pub fn take(self: &Arc<Self>, user: &str, resource: Resource) -> Result<Share, Exhausted> {
        let (per_user, in_all) = self.caps.of(resource);
        let mut counts = self
            .counts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let all = counts.all.get(&resource).copied().unwrap_or(0);
        let own = counts.of(user, resource);
        let terms = counts.limits.of(user, resource);
        if own >= terms.most.unwrap_or(per_user) {
            return Err(Exhausted::User(own));
        }
        // Within the user's own reserve, the other users' reserves do not matter.
        let kept = match own < terms.reserve {
            true => 0,
            false => counts.kept_from(user, resource),
        };
        if all + kept >= in_all {
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

    /// Returns the number of units in use by all users.
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

    #[test]
    fn reserves_and_user_caps_are_enforced() {
        let caps = Caps {
            sessions_per_user: 8,
            sessions: 8,
            queue_pairs_per_user: 1,
            queue_pairs: 1,
            open_files_per_user: 1,
            open_files: 1,
        };
        let quotas = Quotas::new(caps);
        let limits = b"ann reserve-sessions=2\nbob sessions=1\n";
        quotas.replace_limits(UserLimits::parse(limits, &caps).unwrap());
        let take = |user: &str| quotas.take(user, Resource::Session);
        let _bob = take("bob").unwrap();
        assert_eq!(take("bob").unwrap_err(), Exhausted::User(1));
        let mut others: Vec<_> = (0..5).map(|_| take("cy").unwrap()).collect();
        assert_eq!(take("cy").unwrap_err(), Exhausted::Service(6));
        let _ann = (take("ann").unwrap(), take("ann").unwrap());
        assert_eq!(take("ann").unwrap_err(), Exhausted::Service(8));
        others.pop();
        assert!(
            take("cy").is_ok(),
            "the reserve is in use, so nothing is kept"
        );
    }
}
