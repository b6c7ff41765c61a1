//! State shared by all sessions of one service.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use verbena_rfio_common::fabric::{Adapter, FabricError};
use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::reply::Refusal;

use super::accounting::Accounting;
use super::addresses::Addresses;
use super::audit::Audit;
use super::bans::Bans;
use super::budget::{Budget, BudgetBounds};
use super::cache::Cache;
use super::caps::{Caps, Resource};
use super::export::Exports;
use super::exposition::page::{Format, MetricType};
use super::fabric::{ServerFabric, registered};
use super::local_user::UserMappings;
use super::log::Log;
use super::metrics::{Gauge, Metrics};
use super::quota::{AdmissionQueue, Quotas};
use super::rights::Rights;
use super::sessions::Sessions;
use super::storage::Storage;
use super::user_counters::UserTable;

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
    /// Bytes of cached blocks that may be in flight to one user.
    pub in_flight_per_user: usize,
    /// Maximum payload and maximum read, in bytes.
    pub payload: usize,
    /// Maximum number of ranges of a vector. It also bounds the length of a request's body.
    pub ranges: usize,
    /// Bytes that may be queued for one slow reader.
    pub waiting: usize,
    /// Open files per session.
    pub handles: usize,
    /// Unauthenticated connections.
    pub strangers: usize,
    /// Caps on sessions, queue pairs and open files.
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
                queue_pairs_per_user: 256,
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
    /// The exported directories.
    pub exports: Exports,
    /// The way files are read.
    pub storage: Storage,
    /// Cached blocks of files.
    pub cache: Arc<Cache>,
    /// Memory outside the cache.
    pub buffers: Arc<Budget>,
    /// Caps per user.
    pub quotas: Arc<Quotas>,
    /// Limits by address.
    pub addresses: Arc<Addresses>,
    /// Rights by path, if configured.
    rights: RwLock<Option<Arc<Rights>>>,
    /// The local users that users act as; `None` if all act as the daemon's own.
    pub identities: Option<UserMappings>,
    /// The banned users.
    bans: RwLock<Arc<Bans>>,
    /// The established sessions.
    pub open_sessions: Arc<Sessions>,
    /// Whether new requests are refused because the service stops.
    is_stopping: AtomicBool,
    /// Sessions that wait to be admitted.
    pub admission_queue: AdmissionQueue,
    /// The audit log.
    pub audit: Audit,
    /// The accounting log of sessions and files.
    pub accounting: Accounting,
    /// Counters.
    pub metrics: Metrics,
    /// Counters by user.
    pub users: UserTable,
    /// Sizes and caps.
    pub limits: Limits,
    /// Size in bytes of a file without storage at `/.rfio-unfilled`, for measurements.
    pub unfilled: Option<u64>,
    /// The adapter's state, if there is an adapter.
    pub fabric: Option<ServerFabric>,
    sole_writers: Arc<Mutex<HashSet<(u64, u64)>>>,
    sessions: AtomicU64,
}

/// Reserves a file against other sole writers.
#[derive(Debug)]
pub struct SoleWriter {
    files: Arc<Mutex<HashSet<(u64, u64)>>>,
    file: (u64, u64),
}

impl Service {
    /// Creates a service whose data travel in the control connection.
    ///
    /// # Errors
    /// The cache cannot be allocated.
    pub fn new(exports: Exports, limits: Limits, audit: Audit) -> io::Result<Self> {
        let cache = Cache::new(limits.cache, limits.block)?;
        Ok(Self::with_cache(exports, limits, audit, cache, None))
    }

    /// Creates a service that offers data transfer by RDMA: the cache is registered with the
    /// adapter, for local access only.
    ///
    /// # Errors
    /// Memory cannot be allocated or registered.
    pub fn with_adapter(
        exports: Exports,
        limits: Limits,
        audit: Audit,
        adapter: Arc<Adapter>,
    ) -> Result<Self, FabricError> {
        let blocks = (limits.cache / limits.block).max(2);
        let arena = registered(&adapter, blocks * limits.block)?;
        // Half of the memory outside the cache is for staging.
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
            buffers: Budget::new(BudgetBounds {
                bytes: limits.buffers,
                bytes_per_user: limits.buffers_per_user,
                pinned_per_user: limits.in_flight_per_user,
            }),
            quotas: Quotas::new(limits.caps),
            addresses: Arc::default(),
            rights: RwLock::default(),
            identities: None,
            bans: RwLock::default(),
            open_sessions: Arc::default(),
            is_stopping: AtomicBool::new(false),
            admission_queue: AdmissionQueue::default(),
            audit,
            accounting: Accounting::none(),
            metrics: Metrics::default(),
            users: UserTable::default(),
            unfilled: None,
            sole_writers: Arc::default(),
            sessions: AtomicU64::new(0),
            limits,
        }
    }

    /// Returns the rights by path, if configured.
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

    /// Returns whether a user is banned.
    pub(crate) fn is_banned(&self, user: &str) -> bool {
        let bans = self.bans.read();
        bans.unwrap_or_else(|poison| poison.into_inner()).has(user)
    }

    /// Replaces the list of banned users and ends their sessions; returns how many.
    pub fn replace_bans(&self, bans: Bans) -> usize {
        // A session is listed before it checks the bans: it either finds itself banned or is found
        // here.
        *self
            .bans
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(bans);
        self.open_sessions.end("the user was banned", |session| {
            self.is_banned(&session.user)
        })
    }

    /// Begins to stop: new requests are refused from now on.
    pub(crate) fn begin_to_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Checks that the service is not stopping.
    ///
    /// # Errors
    /// ESHUTDOWN if it is.
    pub(crate) fn refuse_if_stopping(&self) -> Result<(), Refusal> {
        match self.is_stopping.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Refusal::new(
                Status::errno(libc::ESHUTDOWN),
                "the service is stopping; retry shortly, on a new connection",
            )),
        }
    }

    /// Returns a number for a new session.
    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Reserves a file for one writer, unless it is reserved already.
    pub(crate) fn sole_writer(&self, device: u64, inode: u64) -> Option<SoleWriter> {
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

    /// Iterates over the logs that are kept.
    pub fn logs(&self) -> impl Iterator<Item = &Log> {
        self.audit.log().into_iter().chain(self.accounting.log())
    }

    /// Renders the page of metrics.
    pub(crate) fn render_metrics(&self, format: Format) -> String {
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
                "Open sessions.",
                self.quotas.used(Resource::Session),
            ),
            gauge(
                "rfio_queue_pairs",
                "Open data queue pairs.",
                self.quotas.used(Resource::QueuePair),
            ),
            gauge(
                "rfio_open_files",
                "Files opened by clients.",
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
                "Blocks in flight to clients.",
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
            page.family(name, MetricType::Counter, help);
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
