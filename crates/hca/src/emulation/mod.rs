//! Emulation of another adapter's times (`verbena run --as`, [`verbena_emulation`]).
//!
//! At each post the times of the request are taken from the table ([`schedule`]). The request then
//! waits as on a link with rules (`causes/passage.rs`): its data arrive, and it completes, when
//! they are due. Polls and posts look at the deadlines, and a thread looks where the program does
//! not ([`thread`]). The time that the software needs from a deadline on is followed ([`lead`]),
//! and that of the work from then on ([`work`]). Each timing error is counted (`report.rs`).
//!
//! A request to another host leaves as packets before its data are due, by the time of the network
//! ([`network`]), and completes at the time of the table or, if the network is slower, with the
//! acknowledgement.

pub mod lead;
pub mod network;
pub mod nodes;
mod report;
pub mod schedule;
pub mod thread;
pub mod work;

use report::Report;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use verbena_emulation::lateness::{Side, Word, class, counter, is_late};
use verbena_emulation::table::Table;
use verbena_emulation::{TABLE, VARIABLE};
use verbena_hca_memory::limits;
use verbena_hca_net::identity::{self, Identity};
use verbena_hca_net::reported_port;
use verbena_hca_os::counter_clock;
use verbena_hca_os::errno::{Errno, Result};

/// Largest table, in bytes.
const LARGEST: u64 = 1 << 20;

/// The emulation of this process.
pub struct Emulation {
    table: Table,
    directory: PathBuf,
    /// The report, once a device is opened.
    report: OnceLock<Option<Report>>,
}

static OWN: OnceLock<Emulation> = OnceLock::new();

/// Returns the emulation of this process; none without [`VARIABLE`].
#[inline]
pub fn own() -> Option<&'static Emulation> {
    OWN.get()
}

/// Reads the table, before the first device is opened or its files in sysfs are read; later calls
/// have the same result.
///
/// # Errors
/// EINVAL, after a line on standard error, for a table that cannot be read.
pub fn begin() -> Result<()> {
    static BEGUN: OnceLock<Result<()>> = OnceLock::new();
    *BEGUN.get_or_init(|| {
        let directory = std::env::var_os(VARIABLE).filter(|one| !one.is_empty());
        let Some(directory) = directory else {
            return Ok(());
        };
        let own = of(directory.as_ref()).map_err(|error| {
            let directory = Path::new(&directory).display();
            eprintln!(
                "verbena: cannot use the emulation of {VARIABLE}={directory}: {error}; it lasts \
                 as long as the `verbena run --as` that made it"
            );
            Errno::EINVAL
        })?;
        if let Some(port) = own.table.port() {
            reported_port::stand_for(port.speed, port.width, port.mtu);
        }
        if let Some(device) = own.table.device() {
            identity::stand_for(Identity {
                name: device.name().to_owned(),
                vendor: device.vendor,
                bus_vendor: device.pci_vendor,
                part: device.part,
                revision: device.revision,
            });
        }
        for limit in own.table.limits() {
            // One above the software adapter's changes nothing.
            limits::named(&limit.name).map(|known| known.lower(limit.value));
        }
        OWN.get_or_init(|| own);
        Ok(())
    })
}

fn of(directory: &Path) -> std::result::Result<Emulation, String> {
    let path = directory.join(TABLE);
    let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let metadata = std::fs::metadata(&path).map_err(|error| describe(&error))?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(describe(&"it is not a regular file of at most 1 MiB"));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| describe(&error))?;
    let table = Table::read(&text).map_err(|error| describe(&error))?;
    let is_unknown = |name: &str| limits::named(name).is_none();
    if let Some(limit) = table.limits().iter().find(|one| is_unknown(&one.name)) {
        return Err(describe(&format!(
            "the adapter has no limit {}",
            limit.name
        )));
    }
    Ok(Emulation {
        table,
        directory: directory.to_owned(),
        report: OnceLock::new(),
    })
}

impl Emulation {
    /// Prepares for requests: begins the report, and chooses a clock.
    pub fn prepare(&self) {
        self.report.get_or_init(|| Report::create(&self.directory));
        counter_clock::prepare();
    }

    fn count(&self, index: usize) {
        if let Some(Some(report)) = self.report.get() {
            report.count(index);
        }
    }

    /// Counts by how much data have missed their time, or a completion: `now`, when they were
    /// `due`, `lead` nanoseconds early, of a request that was to take `time` nanoseconds. Returns
    /// whether that is too much.
    pub fn note(&self, side: Side, now: u64, due: u64, lead: u64, time: u64) -> bool {
        lead::follow(side, now.saturating_sub(due));
        let off = now.abs_diff(due.saturating_add(lead));
        self.count(class(side, off));
        let is_late = is_late(off, time);
        if is_late && side == Side::Completion {
            self.count(counter(Word::LateCompletions));
        }
        is_late
    }

    /// Counts a request that is complete.
    pub fn note_request(&self, is_late: bool) {
        self.count(counter(Word::Requests));
        if is_late {
            self.count(counter(Word::Late));
        }
    }

    /// Counts a request that took too long to post.
    pub fn note_slow_post(&self) {
        self.count(counter(Word::SlowPosts));
    }

    /// Counts a request to another host that is complete, and whether the network was slower than
    /// the emulated adapter.
    pub fn note_packets(&self, is_late: bool) {
        self.count(counter(Word::Packets));
        if is_late {
            self.count(counter(Word::LatePackets));
        }
    }
}
