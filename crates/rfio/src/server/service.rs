//! What all sessions of one service share.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::reply::Refusal;

use super::accounting::Accounting;
use super::addresses::Addresses;
use super::audit::Audit;
use super::bans::Bans;
use super::budget::{Bounds, Budget};
use super::cache::Cache;
use super::export::Exports;
use super::exposition::page::{Format, Kind};
use super::fabric::{ServerFabric, registered};
use super::identity::Identities;
use super::log::Log;
use super::metrics::{Gauge, Metrics};
use super::quota::{Caps, Quotas, Resource, Room};
use super::rights::Rights;
use super::sessions::Sessions;
use super::storage::Storage;
use super::users::Users;
use crate::fabric::{Adapter, FabricError};

/// Sizes and caps, all from the configuration.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of the block cache.
    pub cache: usize,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes of memory outside the cache, for all sessions.
    pub buffers: usize,
    /// Of those, for one user.
    pub buffers_per_user: usize,
    /// Bytes of cached blocks that may be on their way to one user.
    pub in_flight_per_user: usize,
    /// Largest payload and largest read.
    pub payload: usize,
    /// Most ranges of a vector. A request's body may have no more bytes than they need.
    pub ranges: usize,
    /// Bytes that may wait for one slow reader.
    pub waiting: usize,
    /// Open files per session.
    pub handles: usize,
    /// Connections that are not authenticated yet.
    pub strangers: usize,
    /// Sessions and queue pairs.
    pub caps: Caps,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cache: 256 << 20,
            block: 256 << 10,
            buffers: 64 << 20,
            buffers_per_user: 32 << 20,
            in_flight_per_user: 128 << 20,
            payload: 4 << 20,
            ranges: 8192,
            waiting: 4 << 20,
            handles: 1024,
            strangers: 512,
            caps: Caps {
                sessions_per_user: 256,
                sessions: 4096,
                queue_pairs_per_user: 64,
                queue_pairs: 1024,
                open_files_per_user: 4096,
                open_files: 16_384,
            },
        }
    }
}

/// The service.
#[derive(Debug)]
pub struct Service {
    /// What is served.
    pub exports: Exports,
    /// How they are read.
    pub storage: Storage,
    /// Blocks of files.
    pub cache: Arc<Cache>,
    /// Memory besides.
    pub buffers: Arc<Budget>,
    /// Caps per user.
    pub quotas: Arc<Quotas>,
    /// Limits by address.
    pub addresses: Arc<Addresses>,
    /// What users may do by path, if that is configured.
    rights: RwLock<Option<Arc<Rights>>>,
    /// Which users of this host the users act as, if they do not act as the daemon's own.
    pub identities: Option<Identities>,
    /// The banned users.
    bans: RwLock<Arc<Bans>>,
    /// The sessions that stand.
    pub standing: Arc<Sessions>,
    /// Whether nothing new is begun any more.
    is_stopping: AtomicBool,
    /// Who waits to be let in.
    pub room: Room,
    /// Who did what.
    pub audit: Audit,
    /// What each session and each file moved.
    pub accounting: Accounting,
    /// Counters.
    pub metrics: Metrics,
    /// Counters by user.
    pub users: Users,
    /// Sizes and caps.
    pub limits: Limits,
    /// A file of this many bytes without any storage behind it, at `/.rfio-unfilled`, for measurements.
    pub unfilled: Option<u64>,
    /// The fabric, where there is one.
    pub fabric: Option<ServerFabric>,
    sole_writers: Arc<Mutex<HashSet<(u64, u64)>>>,
    sessions: AtomicU64,
}

/// Holds a file against other sole writers.
#[derive(Debug)]
pub struct SoleWriter {
    files: Arc<Mutex<HashSet<(u64, u64)>>>,
    file: (u64, u64),
}

impl Service {
    /// A service that nobody talks to yet; data travel in the control connection.
    pub fn new(exports: Exports, limits: Limits, audit: Audit) -> io::Result<Self> {
        let cache = Cache::new(limits.cache, limits.block)?;
        Ok(Self::with_cache(exports, limits, audit, cache, None))
    }

    /// The same, with data by RDMA for clients that can: the cache is registered with the adapter, for the server alone.
    pub fn with_adapter(
        exports: Exports,
        limits: Limits,
        audit: Audit,
        adapter: Arc<Adapter>,
    ) -> Result<Self, FabricError> {
        let blocks = (limits.cache / limits.block).max(2);
        let arena = registered(&adapter, blocks * limits.block)?;
        // Half of the memory outside the cache is for what is staged.
        let slots = (limits.buffers / 2 / limits.payload).max(2);
        let fabric = ServerFabric::new(adapter, slots, limits.payload)?;
        let cache = Cache::in_arena(arena, limits.block);
        Ok(Self::with_cache(
            exports,
            limits,
            audit,
            cache,
            Some(fabric),
        ))
    }

    fn with_cache(
        exports: Exports,
        limits: Limits,
        audit: Audit,
        cache: Arc<Cache>,
        fabric: Option<ServerFabric>,
    ) -> Self {
        Self {
            exports,
            storage: Storage::InTurn(None),
            cache,
            fabric,
            buffers: Budget::new(Bounds {
                bytes: limits.buffers,
                bytes_per_user: limits.buffers_per_user,
                pinned_per_user: limits.in_flight_per_user,
            }),
            quotas: Quotas::new(limits.caps),
            addresses: Arc::default(),
            rights: RwLock::default(),
            identities: None,
            bans: RwLock::default(),
            standing: Arc::default(),
            is_stopping: AtomicBool::new(false),
            room: Room::default(),
            audit,
            accounting: Accounting::none(),
            metrics: Metrics::default(),
            users: Users::default(),
            unfilled: None,
            sole_writers: Arc::default(),
            sessions: AtomicU64::new(0),
            limits,
        }
    }

    /// What users may do by path, if that is configured.
    pub fn rights(&self) -> Option<Arc<Rights>> {
        let rights = self.rights.read();
        rights.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// Replaces the rights, for open sessions too. Open files stay open.
    pub fn replace_rights(&self, rights: Option<Rights>) {
        let mut now = self
            .rights
            .write()
            .unwrap_or_else(|poison| poison.into_inner());
        *now = rights.map(Arc::new);
    }

    /// Whether a user is banned.
    pub fn is_banned(&self, user: &str) -> bool {
        let bans = self.bans.read();
        bans.unwrap_or_else(|poison| poison.into_inner()).has(user)
    }

    /// Bans these users from now on, and ends their sessions; how many.
    pub fn replace_bans(&self, bans: Bans) -> usize {
        // A session is listed before it looks at the bans: it finds itself banned, or is found.
        *self
            .bans
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(bans);
        self.standing.end("the user was banned", |session| {
            self.is_banned(&session.user)
        })
    }

    /// Begins nothing new from now on.
    pub fn begin_to_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Why nothing new is begun, if the service is stopping.
    pub fn refuse_if_stopping(&self) -> Result<(), Refusal> {
        match self.is_stopping.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Refusal::new(
                Status::errno(libc::ESHUTDOWN),
                "the service is stopping; try again in a moment, on a new connection",
            )),
        }
    }

    /// A number for a new session.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// The right to be the only writer of a file, if nobody has it.
    pub fn sole_writer(&self, device: u64, inode: u64) -> Option<SoleWriter> {
        let mut files = self
            .sole_writers
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let file = (device, inode);
        files.insert(file).then(|| SoleWriter {
            files: Arc::clone(&self.sole_writers),
            file,
        })
    }

    /// The logs that are kept.
    pub fn logs(&self) -> impl Iterator<Item = &Log> {
        self.audit.log().into_iter().chain(self.accounting.log())
    }

    /// The page of metrics.
    pub fn render_metrics(&self, format: Format) -> String {
        let (ready, pinned) = self.cache.occupancy();
        let staging = self
            .fabric
            .as_ref()
            .map(|fabric| fabric.staging().occupancy());
        let (slots, taken) = staging.unwrap_or_default();
        let gauge = |name, help, value: usize| Gauge {
            name,
            help,
            value: value as u64,
        };
        let gauges = [
            gauge(
                "rfio_sessions",
                "Sessions that stand.",
                self.quotas.used(Resource::Session),
            ),
            gauge(
                "rfio_queue_pairs",
                "Data queue pairs that stand.",
                self.quotas.used(Resource::QueuePair),
            ),
            gauge(
                "rfio_open_files",
                "Files open for clients.",
                self.quotas.used(Resource::OpenFile),
            ),
            gauge(
                "rfio_cache_bytes",
                "Size of the block cache.",
                self.cache.arena().length(),
            ),
            gauge("rfio_cache_ready_blocks", "Blocks in the cache.", ready),
            gauge(
                "rfio_cache_pinned_blocks",
                "Blocks on their way to clients.",
                pinned,
            ),
            gauge(
                "rfio_buffer_bytes",
                "Memory in use outside the cache.",
                self.buffers.used(),
            ),
            gauge(
                "rfio_buffer_limit_bytes",
                "Memory that may be in use outside the cache.",
                self.buffers.bounds().bytes,
            ),
            gauge("rfio_staging_slots", "Staging slots for RDMA.", slots),
            gauge("rfio_staging_slots_used", "Staging slots in use.", taken),
        ];
        let mut page = self.metrics.render(format, &gauges);
        for (name, help, log) in [
            (
                "rfio_audit_lost_records_total",
                "Records that could not be written to the audit log.",
                self.audit.log(),
            ),
            (
                "rfio_accounting_lost_records_total",
                "Records that could not be written to the accounting log.",
                self.accounting.log(),
            ),
        ] {
            page.family(name, Kind::Counter, help);
            page.sample(name, &[], log.map_or(0, Log::lost));
        }
        self.users.render(&mut page);
        page.finish()
    }
}

impl Drop for SoleWriter {
    fn drop(&mut self) {
        self.files
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .remove(&self.file);
    }
}
