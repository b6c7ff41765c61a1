//! Turns the command line into a service that is ready to start, and detects every configuration
//! error before anything is served.

use std::ffi::OsStr;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use verbena_rfio_auth::files::read_unchanged;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::tls::{self, ClientRules};
use verbena_rfio_auth::token::Issuers;
use verbena_rfio_common::fabric::Adapter;
use verbena_rfio_protocol::shown;
use verbena_rfio_server::accounting::Accounting;
use verbena_rfio_server::addresses::{Addresses, Rules};
use verbena_rfio_server::audit::Audit;
use verbena_rfio_server::bans::Bans;
use verbena_rfio_server::caps::Caps;
use verbena_rfio_server::config_lines::BadLine;
use verbena_rfio_server::event_loop::Deadlines;
use verbena_rfio_server::export::{Access, Export, Exports};
use verbena_rfio_server::local_user::{Mapping, UserMappings};
use verbena_rfio_server::rights::Rights;
use verbena_rfio_server::running::{Layout, Pages};
use verbena_rfio_server::service::{Limits, Service};
use verbena_rfio_server::session::authenticator::{Authenticator, LocalUserPolicy};
use verbena_rfio_server::session::connection::Context;
use verbena_rfio_server::storage::{Storage, StorageMethod};
use verbena_rfio_server::tickets::Tickets;
use verbena_rfio_server::user_counters::UserTable;
use verbena_rfio_server::user_limits::UserLimits;

use super::descriptors::{Clients, Needs};
use super::memory::{self, default_cache};
use crate::arguments::{Anonymous, CachePages, Daemon, FabricChoice, StorageChoice};

/// A service that is ready to start.
#[derive(Debug)]
pub struct Plan {
    /// Exports, users, limits and credentials.
    pub context: Context,
    /// Addresses, threads and deadlines.
    pub layout: Layout,
    /// Settings that differ from the command line.
    pub warnings: Vec<String>,
}

/// Prepares a service from its command line; `files` is the process's limit of open files.
///
/// # Errors
/// An option is invalid, or one of its files, directories or devices cannot be used.
pub fn prepare(arguments: &Daemon, files: usize) -> Result<Plan, String> {
    let exports = arguments
        .export
        .iter()
        .map(|text| export(text, arguments.require_mount))
        .collect::<Result<Vec<_>, _>>()?;
    let exports = Exports::new(exports).map_err(|bad| bad.to_string())?;
    let audit = match &arguments.audit {
        Some(path) => Audit::to_file(path)
            .map_err(|error| format!("audit log {}: {error}", path.display()))?,
        None => Audit::none(),
    };
    let layout = layout(arguments);
    let mut warnings = Vec::new();
    let limits = limits(arguments, &layout, files, &mut warnings)?;
    let mut service = match adapter(arguments.fabric)? {
        Some(adapter) => Service::with_adapter(exports, limits, audit, adapter)
            .map_err(|error| error.to_string())?,
        None => Service::new(exports, limits, audit).map_err(|error| format!("memory: {error}"))?,
    };
    if let Some(path) = &arguments.accounting {
        service.accounting = Accounting::to_file(path)
            .map_err(|error| format!("accounting log {}: {error}", path.display()))?;
    }
    service.users = UserTable::at_most(arguments.metrics_users);
    service.unfilled = arguments.unfilled;
    service.storage = storage(arguments.storage)?;
    service.addresses = Addresses::of(address_rules(arguments)?);
    service.replace_rights(rights(arguments)?);
    service.replace_bans(bans(arguments)?);
    service
        .quotas
        .replace_limits(user_limits(arguments, &service)?);
    if let Some(mapping) = mapping(arguments)? {
        let identities = UserMappings::new(mapping).map_err(|error| format!("--map: {error}"))?;
        service.identities = Some(identities);
    }
    let context = Context {
        service: Arc::new(service),
        authenticator: Authenticator::new(
            secrets(arguments)?,
            local_users(arguments),
            anonymous(arguments),
        )
        .with_tickets(Tickets::of(
            issuers(arguments)?,
            Duration::from_secs(arguments.ticket_skew),
        )),
        tls: RwLock::new(certificates(arguments)?),
        tls_only: arguments.tls_only,
    };
    context
        .authenticator
        .replace_issuers(token_issuers(arguments)?);
    Ok(Plan {
        context,
        layout,
        warnings,
    })
}

/// Reloads the configuration that may change while the service runs: the exports' directories,
/// rights, local users, bans, limits by user and address, secrets of users and tickets, token
/// issuers with their keys, certificate and key, and the rules for clients' certificates. Open
/// sessions continue, except those of banned users.
///
/// # Errors
/// A file is invalid or cannot be read, or an export cannot be opened; then nothing changes.
pub fn reload(arguments: &Daemon, context: &Context) -> Result<(), String> {
    let (secrets, issuers) = (secrets(arguments)?, issuers(arguments)?);
    let (rules, tls) = (address_rules(arguments)?, certificates(arguments)?);
    let (rights, mapping, bans) = (rights(arguments)?, mapping(arguments)?, bans(arguments)?);
    let user_limits = user_limits(arguments, &context.service)?;
    let token_issuers = token_issuers(arguments)?;
    context.service.exports.reopen()?;
    // Restrictions take effect before credentials that admit users.
    context.service.replace_bans(bans);
    context.service.replace_rights(rights);
    context.service.quotas.replace_limits(user_limits);
    if let (Some(identities), Some(mapping)) = (&context.service.identities, mapping) {
        identities.replace(mapping);
    }
    context.authenticator.replace_secrets(secrets);
    context.authenticator.tickets.replace_issuers(issuers);
    context.service.addresses.replace(rules);
    context.authenticator.replace_issuers(token_issuers);
    context.replace_tls(tls);
    Ok(())
}

/// Returns the TLS configuration: the server's certificate, and the rules for clients'
/// certificates.
fn certificates(arguments: &Daemon) -> Result<Option<tls::TlsServer>, String> {
    let (Some(chain), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) else {
        return Ok(None);
    };
    let server = match (&arguments.tls_client_ca, &arguments.tls_users) {
        (Some(authorities), Some(users)) => {
            let revoked = arguments.tls_revoked.as_deref();
            let rules = ClientRules {
                authorities,
                revoked,
                users,
            };
            tls::TlsServer::asking(chain, key, rules)
        }
        _ => tls::TlsServer::new(chain, key),
    };
    server.map(Some).map_err(|bad| bad.to_string())
}

/// Opens the RDMA adapter, unless data travel over TCP.
fn adapter(choice: FabricChoice) -> Result<Option<Arc<Adapter>>, String> {
    match choice {
        FabricChoice::Tcp => Ok(None),
        FabricChoice::Verbs => Adapter::open().map(Some).map_err(|error| {
            let missing = error.as_missing_device();
            format!("--fabric verbs: {missing}; start rfiod with 'verbena run --', or use TCP")
        }),
        FabricChoice::Auto => Ok(Adapter::open().ok()),
    }
}

/// Returns the way in which files are read.
fn storage(choice: StorageChoice) -> Result<Storage, String> {
    let wish = match choice {
        StorageChoice::Auto => StorageMethod::Auto,
        StorageChoice::IoUring => StorageMethod::IoUring,
        StorageChoice::Threads => StorageMethod::Threads,
    };
    Storage::open(wish).map_err(|error| format!("--storage io-uring: {error}"))
}

/// Parses `[NAME=]DIR[:ro|:rw]`. Both names are bytes.
fn export(text: &OsStr, must_be_mount_point: bool) -> Result<Export, String> {
    let text = text.as_bytes();
    let (rest, access) = match (text.strip_suffix(b":ro"), text.strip_suffix(b":rw")) {
        (Some(rest), _) => (rest, Access::ReadOnly),
        (_, Some(rest)) => (rest, Access::ReadWrite),
        _ => (text, Access::ReadWrite),
    };
    let mut parts = rest.splitn(2, |&byte| byte == b'=');
    let (name, directory) = match (parts.next(), parts.next()) {
        (Some(name), Some(directory)) if !name.contains(&b'/') => (name, directory),
        _ => (&b""[..], rest),
    };
    let directory_path = Path::new(OsStr::from_bytes(directory));
    let opened = match must_be_mount_point {
        true => Export::open_mounted(name, directory_path, access),
        false => Export::open(name, directory_path, access),
    };
    opened.map_err(|error| format!("export {}: {error}", shown::bytes(directory)))
}

fn limits(
    arguments: &Daemon,
    layout: &Layout,
    files: usize,
    warnings: &mut Vec<String>,
) -> Result<Limits, String> {
    let memory = |name: &str, bytes: u64| {
        usize::try_from(bytes).map_err(|_| format!("{name}: exceeds this machine's address space"))
    };
    let defaults = Limits::default();
    let cache = memory("--cache", arguments.cache.unwrap_or_else(default_cache))?;
    if cache < 2 * defaults.block {
        return Err(format!(
            "--cache must be at least {} bytes: two blocks",
            2 * defaults.block
        ));
    }
    if arguments.cache_pages == CachePages::AtStart {
        memory::check(cache as u64)?;
    }
    let buffers = memory("--buffers", arguments.buffers)?;
    let share = |name, asked: Option<u64>, whole: usize| match asked {
        Some(bytes) => memory(name, bytes),
        None => Ok(whole / 2),
    };
    let needs = Needs {
        loops: layout.shards,
        workers: layout.workers + 1,
        exports: arguments.export.len(),
        metrics: arguments.metrics.is_some(),
        fabric: arguments.fabric != FabricChoice::Tcp,
    };
    let asked = Clients {
        strangers: arguments.strangers,
        caps: Caps {
            sessions_per_user: arguments.sessions_per_user,
            sessions: arguments.sessions,
            queue_pairs_per_user: arguments.queue_pairs_per_user,
            queue_pairs: arguments.queue_pairs,
            open_files_per_user: arguments.open_files_per_user,
            open_files: arguments.open_files,
        },
    };
    let (clients, warning) = needs.share_out(files, asked)?;
    warnings.extend(warning);
    Ok(Limits {
        cache,
        buffers,
        buffers_per_user: share("--buffers-per-user", arguments.buffers_per_user, buffers)?,
        in_flight_per_user: share("--in-flight-per-user", arguments.in_flight_per_user, cache)?,
        strangers: clients.strangers,
        caps: clients.caps,
        ..defaults
    })
}

fn secrets(arguments: &Daemon) -> Result<Secrets, String> {
    match (&arguments.secrets, Secrets::default_path()) {
        (Some(path), _) => Secrets::load(path).map_err(|bad| bad.to_string()),
        (None, Some(path)) => Secrets::load_or_create(&path).map_err(|bad| bad.to_string()),
        (None, None) => Ok(Secrets::default()),
    }
}

/// Returns the issuers whose tickets are accepted, with their secrets.
fn issuers(arguments: &Daemon) -> Result<Secrets, String> {
    match &arguments.tickets {
        Some(path) => Secrets::load(path).map_err(|bad| bad.to_string()),
        None => Ok(Secrets::default()),
    }
}

/// Returns the issuers whose tokens are accepted.
fn token_issuers(arguments: &Daemon) -> Result<Issuers, String> {
    match &arguments.tokens {
        Some(path) => Issuers::load(path).map_err(|bad| bad.to_string()),
        None => Ok(Issuers::default()),
    }
}

fn address_rules(arguments: &Daemon) -> Result<Rules, String> {
    let Some(path) = &arguments.addresses else {
        return Ok(Rules::default());
    };
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Rules::parse(&text).map_err(|bad| format!("{}, {bad}", path.display()))
}

/// Returns the users' rights by path.
fn rights(arguments: &Daemon) -> Result<Option<Rights>, String> {
    lines_of(arguments.rights.as_deref(), Rights::parse)
}

/// Returns the mapping of users to local users.
fn mapping(arguments: &Daemon) -> Result<Option<Mapping>, String> {
    lines_of(arguments.map.as_deref(), Mapping::parse)
}

/// Returns the banned users.
fn bans(arguments: &Daemon) -> Result<Bans, String> {
    Ok(lines_of(arguments.banned.as_deref(), Bans::parse)?.unwrap_or_default())
}

/// Returns the limits of single users.
fn user_limits(arguments: &Daemon, service: &Service) -> Result<UserLimits, String> {
    let caps = service.quotas.caps();
    let parse = |text: &[u8]| UserLimits::parse(text, caps);
    Ok(lines_of(arguments.user_limits.as_deref(), parse)?.unwrap_or_default())
}

/// Parses a file that other users cannot change.
fn lines_of<T>(
    path: Option<&Path>,
    parse: impl Fn(&[u8]) -> Result<T, BadLine>,
) -> Result<Option<T>, String> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = read_unchanged(path).map_err(|bad| bad.to_string())?;
    let parsed = parse(&text).map_err(|bad| format!("{}, {bad}", path.display()))?;
    Ok(Some(parsed))
}

fn local_users(arguments: &Daemon) -> LocalUserPolicy {
    match &arguments.local_user[..] {
        [] => LocalUserPolicy::Own,
        names if names.iter().any(|name| name == "*") => LocalUserPolicy::All,
        names => LocalUserPolicy::Named(names.to_vec()),
    }
}

fn anonymous(arguments: &Daemon) -> Option<Access> {
    match arguments.anonymous {
        Anonymous::Nothing => None,
        Anonymous::Read => Some(Access::ReadOnly),
        Anonymous::Write => Some(Access::ReadWrite),
    }
}

fn layout(arguments: &Daemon) -> Layout {
    let mut layout = Layout {
        local: arguments.local.clone(),
        pages: match arguments.cache_pages {
            CachePages::AtStart => Pages::AtStart,
            CachePages::WhenUsed => Pages::WhenUsed,
        },
        ..Layout::default()
    };
    layout.listen = match &arguments.listen[..] {
        // Only a Unix socket was requested.
        [] if arguments.local.is_some() => Vec::new(),
        [] => vec![any_address(arguments.port)],
        addresses => addresses.to_vec(),
    };
    if let Some(threads) = arguments.threads {
        layout.shards = threads.max(1);
    }
    if let Some(workers) = arguments.workers {
        // The server starts one more, so that one user cannot occupy all of them.
        layout.workers = usize::from(workers) - 1;
    }
    layout.deadlines = Deadlines {
        handshake: Duration::from_secs(arguments.greeting_timeout),
        stall: Duration::from_secs(arguments.stall_timeout),
        vanish: Duration::from_secs(arguments.vanish_timeout),
        stop: Duration::from_secs(arguments.stop_timeout),
    };
    layout
}

/// Returns the wildcard address of both families if the host has IPv6, else IPv4's.
fn any_address(port: u16) -> SocketAddr {
    let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match std::net::TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))) {
        Ok(_) => both,
        Err(_) => SocketAddr::from(([0, 0, 0, 0], port)),
    }
}
