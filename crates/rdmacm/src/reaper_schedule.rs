//! The times at which the [reaper](crate::reaper) works.

use crate::alarm::Alarm;
use crate::reaper::Reaper;
use crate::state::State;
use crate::watch::Source;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Result;

/// Delays, in nanoseconds, of the checks after a death record was closed. The exiting process gives
/// up its place in the registry somewhat later than it closes its files.
const AFTERWARDS: [u64; 3] = [5_000_000, 100_000_000, 1_000_000_000];

impl State {
    /// Starts watching for death records, and sends those that exist.
    ///
    /// # Errors
    /// Those of [`Reaper::open`] and [`crate::watch::Watch::add`].
    pub fn start_reaping(&mut self) -> Result<()> {
        let reaper = self.reaper.insert(Reaper::open()?);
        if let Some(closed) = reaper.closed() {
            self.watch.add(closed, Source::DeathRecords)?;
        }
        self.reap();
        Ok(())
    }

    /// Handles a closed death record: its process is about to be dead.
    pub fn death_record_closed(&mut self) {
        if let Some(closed) = self.reaper.as_ref().and_then(Reaper::closed) {
            let mut events = [0; 4096];
            while rustix::io::read(closed, &mut events).is_ok_and(|length| length > 0) {}
        }
        let now = clock::now();
        for later in AFTERWARDS {
            self.set_alarm(now + later, Alarm::Reap);
        }
    }

    /// Looks for death records of dead processes, and sends the messages that are due.
    pub fn reap(&mut self) {
        let now = clock::now();
        let Some(reaper) = self.reaper.as_mut() else {
            return;
        };
        reaper.lock_dead(now);
        for due in reaper.send_due(now) {
            self.set_alarm(due, Alarm::Reap);
        }
    }
}
