//! A pool of idle sessions, so that the next part of a copy does not pay for the three round trips
//! of connecting.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::address::Address;
use super::connection::MultiplexedConnection;
use super::error::Error;
use super::options::Options;

/// How long a session may be idle and still be reused. A server may end one that has been idle for
/// two seconds, to free space for others.
const MAX_IDLE: Duration = Duration::from_secs(1);

/// A session that returns to the pool when it is dropped.
#[derive(Debug)]
pub struct PooledSession {
    /// Always present until drop.
    session: Option<Arc<MultiplexedConnection>>,
    pool: Arc<SessionPool>,
}

impl Deref for PooledSession {
    type Target = Arc<MultiplexedConnection>;

    fn deref(&self) -> &Arc<MultiplexedConnection> {
        self.session.as_ref().expect("only drop takes it")
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.pool.put(session);
        }
    }
}

/// The sessions.
#[derive(Debug, Default)]
pub struct SessionPool {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<IdleSession>,
    /// Servers to which sessions are being connected.
    connecting: Vec<Address>,
}

/// A session for its next user, or the error of connecting.
#[derive(Debug)]
struct IdleSession {
    address: Address,
    since: Instant,
    session: Result<Arc<MultiplexedConnection>, Error>,
}

impl SessionPool {
    /// Begins to connect sessions that will be needed soon, without waiting for them. An error is
    /// returned to the caller that takes the session. The first session shows whether the server
    /// accepts the user, so that a wrong secret causes one failure there and not one for each
    /// session.
    pub fn prepare(self: &Arc<Self>, address: &Address, options: &Options, count: usize) {
        // A ticket is valid for one session.
        if options.ticket.is_some() || count == 0 {
            return;
        }
        self.lock().connecting.push(address.clone());
        let (pool, to, options) = (Arc::clone(self), address.clone(), options.clone());
        let address = to.clone();
        let connect = move || {
            let connected = MultiplexedConnection::for_copies(&address, &options);
            if connected.is_ok() {
                for _ in 1..count {
                    pool.prepare(&address, &options, 1);
                }
            }
            pool.connected(&address, Some(connected));
        };
        if std::thread::Builder::new().spawn(connect).is_err() {
            self.connected(&to, None);
        }
    }

    fn connected(
        &self,
        address: &Address,
        session: Option<Result<Arc<MultiplexedConnection>, Error>>,
    ) {
        let mut state = self.lock();
        if let Some(index) = state.connecting.iter().position(|one| one == address) {
            state.connecting.swap_remove(index);
        }
        let ready = session.map(|session| IdleSession {
            address: address.clone(),
            since: Instant::now(),
            session,
        });
        state.ready.extend(ready);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns a session with a server: an idle one, one that is being connected, or a new one.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn take(
        self: &Arc<Self>,
        address: &Address,
        options: &Options,
    ) -> Result<PooledSession, Error> {
        let session = match self.take_idle(address) {
            Some(session) => session?,
            None => MultiplexedConnection::for_copies(address, options)?,
        };
        Ok(PooledSession {
            session: Some(session),
            pool: Arc::clone(self),
        })
    }

    fn take_idle(&self, address: &Address) -> Option<Result<Arc<MultiplexedConnection>, Error>> {
        let mut state = self.lock();
        loop {
            let is_wanted = |ready: &IdleSession| ready.address == *address;
            if let Some(index) = state.ready.iter().position(is_wanted) {
                let IdleSession { since, session, .. } = state.ready.swap_remove(index);
                let is_good = session.as_ref().map_or(true, |session| session.is_idle());
                if since.elapsed() < MAX_IDLE && is_good {
                    return Some(session);
                }
                continue;
            }
            if !state.connecting.contains(address) {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|poison| poison.into_inner());
        }
    }

    /// Returns a session to the pool if it can be reused.
    fn put(&self, session: Arc<MultiplexedConnection>) {
        if session.is_idle() && !session.uses_fabric() {
            self.lock().ready.push(IdleSession {
                address: session.address().clone(),
                since: Instant::now(),
                session: Ok(session),
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_failed_prepared_connection_is_reported_on_use() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = Address::Host("127.0.0.1".into(), port);
        let options = Options::plain("nobody");
        let pool = Arc::new(SessionPool::default());
        pool.prepare(&address, &options, 3);
        let taken = pool.take(&address, &options);
        assert!(matches!(taken, Err(Error::Unreachable(..))), "{taken:?}");
        let state = pool.lock();
        assert!(state.connecting.is_empty() && state.ready.is_empty());
    }
}
