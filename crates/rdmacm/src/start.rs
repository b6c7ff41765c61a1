//! The start of a process's connection manager, at its first use.

use crate::at_exit;
use crate::causes;
use crate::inbox::Inbox;
use crate::service::{CURRENT, Service};
use crate::state::State;
use crate::thread;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use verbena_hca::process::watch::on_failure;
use verbena_hca_net::fabric::set_administration_agent;
use verbena_hca_net::link;
use verbena_hca_net::roce::management::{Agent, set_agent};
use verbena_hca_os::errno::{Errno, Result};

/// Callbacks of the adapter, for every MAD and for probes of other hosts. They only fill the inbox.
pub const AGENT: Agent = Agent {
    received: |cm_mad| {
        if let Ok(service) = Service::current() {
            service.inbox.put(cm_mad);
        }
    },
    question: || {
        if let Ok(service) = Service::current() {
            service.inbox.note_probe();
        }
    },
};

impl Service {
    /// Returns the connection manager of this process; creates it at first use. A child of fork(2)
    /// creates its own: the thread and the meaning of the descriptors stay with its parent.
    ///
    /// # Errors
    /// Those of joining the registry and of starting a thread.
    pub fn current() -> Result<&'static Service> {
        if let Some(service) = Service::existing() {
            return Ok(service);
        }
        let before = CURRENT.load(Ordering::Acquire);
        let made = Box::into_raw(Box::new(Service {
            pid: std::process::id(),
            state: Mutex::new(State::new(thread::run)?),
            inbox: Inbox::new()?,
        }));
        // Lives as long as the process, because its thread never ends.
        let result = CURRENT.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
        if result.is_err() {
            // SAFETY: `made` comes from `Box::into_raw`; the exchange failed, so no other reference
            // to it exists.
            drop(unsafe { Box::from_raw(made) });
        }
        let service = Service::existing().ok_or(Errno::EIO)?;
        if result.is_ok() {
            set_agent(AGENT);
            on_failure(causes::adapter_has_failed);
            service.open_to_other_hosts()?;
            at_exit::register();
        }
        Ok(service)
    }

    fn open_to_other_hosts(&self) -> Result<()> {
        if link::fabric().is_some() {
            set_administration_agent(|answer| {
                if let Some(service) = Service::existing() {
                    service.inbox.put_administration(answer);
                }
            });
            self.inbox.open(&mut self.lock().watch)?;
        }
        if link::is_ethernet() {
            let mut state = self.lock();
            self.inbox.open(&mut state.watch)?;
            // A failure matters only to the peers of killed processes.
            let _ = state.start_reaping();
        }
        Ok(())
    }
}
