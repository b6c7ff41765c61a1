//! Command lines of all RFIO tools.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use verbena_rfio_auth::tls::ClientFiles;
use verbena_rfio_client::copy::filter::{FilterAction, FilterRule};
use verbena_rfio_client::copy::pattern::{BadPattern, Pattern};
use verbena_rfio_client::options::{Checksums, Fabric, load_secrets};
use verbena_rfio_client::{Error, Options};

use crate::size;
use crate::storage_report::Share;

/// Help on places and variables, for every client tool.
const PLACES: &str = "\
Places:
  HOST:/PATH, rfio://HOST[:PORT]/PATH   a file or directory on a server
  [ADDRESS]:/PATH                       the same, by IPv6 address
  [SOCKET]:/PATH                        the same, by the service's Unix socket
  anything without ':/'                 a local path

Environment:
  RFIO_USER             User name (--user)
  RFIO_SECRETS          File of shared secrets (--secrets)
  RFIO_TLS_CA           File of trusted certificates (--tls-ca)
  RFIO_TLS_CERTIFICATE  Client certificate (--tls-certificate)
  RFIO_TLS_KEY          Private key of the certificate (--tls-key)
  RFIO_FABRIC           auto, verbs or tcp (--fabric)
  RFIO_PORT             Port of places that name none
  RFIO_TIMEOUT          Longest wait for a reply, in seconds (--timeout)
  RFIO_DEVICE           RDMA device to use
  RFIO_GID_INDEX        GID index to use on it
  BEARER_TOKEN          Token to authenticate with
  BEARER_TOKEN_FILE     File that holds the token

Example:
  ";

/// Joins the common help and a tool's example.
macro_rules! help {
    ($example:literal) => {
        format!("{PLACES}{}", $example)
    };
}

/// Help on the daemon.
const DAEMON: &str = "\
SIGHUP reads the files of the options again; SIGTERM stops the daemon.

Environment:
  RFIO_SECRETS     File of shared secrets (--secrets)
  RFIO_DEVICE      RDMA device to use
  RFIO_GID_INDEX   GID index to use on it

Examples:
  rfiod --export /srv/data
  rfiod --export /srv/data:ro --listen 127.0.0.1:0 --anonymous read
  rfiod sessions --admin /run/rfio/admin";

/// Headings of the daemon's options.
mod heading {
    pub(super) const LISTEN: &str = "Exports and addresses";
    pub(super) const USERS: &str = "Authentication";
    pub(super) const TLS: &str = "TLS";
    pub(super) const RIGHTS: &str = "Authorization";
    pub(super) const LOGS: &str = "Logs and metrics";
    pub(super) const LIMITS: &str = "Limits";
    pub(super) const TIMEOUTS: &str = "Timeouts";
    pub(super) const STORAGE: &str = "Memory, threads and storage";
}

/// Transport for file data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FabricChoice {
    /// RDMA if client and server support it, otherwise TCP
    Auto,
    /// RDMA only
    Verbs,
    /// TCP only
    Tcp,
}

impl From<FabricChoice> for Fabric {
    fn from(filter: FabricChoice) -> Self {
        match filter {
            FabricChoice::Auto => Self::Auto,
            FabricChoice::Verbs => Self::Verbs,
            FabricChoice::Tcp => Self::Tcp,
        }
    }
}

/// Connection options, the same for all tools.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// Authenticate as this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Read shared secrets from this file
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Use TLS and trust the certificates in this file
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Authenticate with this certificate chain (PEM)
    ///
    /// Sent to servers that ask for a certificate; it takes precedence over secrets. The file also
    /// holds the intermediate certificates up to an authority.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Read the certificate's private key (PEM, mode 600) from here
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Transport file data over this fabric
    #[arg(long, value_enum)]
    pub fabric: Option<FabricChoice>,
    /// Wait at most this long for a reply; 0 waits forever
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Do not verify checksums block by block
    #[arg(long)]
    pub no_block_checksums: bool,
}

impl Connection {
    /// Returns the environment's options, overridden by the command line's.
    ///
    /// # Errors
    /// A certificate, key or secrets file cannot be used.
    pub fn options(&self) -> Result<Options, Error> {
        let typed = ClientFiles {
            trusted: self.tls_ca.clone(),
            certificate: self.tls_certificate.clone(),
            key: self.tls_key.clone(),
        };
        let mut options = Options::with_tls(&typed.or(ClientFiles::from_environment()))?;
        if let Some(user) = &self.user {
            options.user.clone_from(user);
        }
        if let Some(path) = &self.secrets {
            options.secrets = load_secrets(path)?;
            options.secrets_file = Some(path.clone());
        }
        if let Some(fabric) = self.fabric {
            options.fabric = fabric.into();
        }
        if let Some(seconds) = self.timeout {
            options.timeout = std::time::Duration::from_secs(seconds);
        }
        if self.no_block_checksums {
            options.checksums = Checksums::Off;
        }
        Ok(options)
    }
}

/// Copy files to, from and between RFIO servers
#[derive(Debug, Parser)]
#[command(
    name = "rfcp",
    version,
    after_help = help!("rfcp -r -P 4 results data.example.org:/run7")
)]
pub struct Copy {
    /// Sources, then the destination; '-' is standard input or output
    #[arg(required = true, num_args = 2.., value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Copy only the first BYTES bytes
    #[arg(short = 's', value_name = "BYTES", value_parser = size::parse)]
    pub size: Option<u64>,
    /// Copy directories recursively
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Resume a partial copy
    ///
    /// Keeps the blocks that match the source and transfers the others.
    #[arg(short = 'c', long = "continue")]
    pub continue_earlier: bool,
    /// Read the copy back and compare it with the source
    ///
    /// Block by block, before the copy gets its name.
    #[arg(long)]
    pub checksum: bool,
    /// Copy over N sessions in parallel [default: 1 to 4, as CPUs are idle]
    #[arg(short = 'P', long, value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: Option<u16>,
    /// Flush data and names to stable storage
    ///
    /// The data before the copy gets its name, the names before the tool exits.
    #[arg(long)]
    pub sync: bool,
    /// Copy extended attributes of the user namespace, too
    #[arg(long)]
    pub xattrs: bool,
    /// Keep existing files
    #[arg(long, conflicts_with = "update")]
    pub no_clobber: bool,
    /// Replace only files that are older than their source
    ///
    /// A file of the same age is replaced if its size differs.
    #[arg(long)]
    pub update: bool,
    /// Rules that select the files of directories
    #[command(flatten)]
    pub rules: Rules,
    /// Limit the rate of all sessions, in bytes per second
    #[arg(long, value_name = "RATE", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    /// Reconnect for this long without progress; 0 never reconnects
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub retry: u64,
    /// Print the summary as one JSON object
    ///
    /// On standard output, or on standard error if the destination is '-'.
    #[arg(long)]
    pub json: bool,
    /// Print neither progress nor summary
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// `--include` and `--exclude` rules, in command-line order.
#[derive(Debug, Clone, Default)]
pub struct Rules(pub Vec<FilterRule>);

const VERDICTS: [(&str, FilterAction, &str); 2] = [
    (
        "include",
        FilterAction::Include,
        "Copy matching files of -r; the first matching rule applies",
    ),
    (
        "exclude",
        FilterAction::Exclude,
        "Skip matching files of -r and whole matching directories",
    ),
];

impl Args for Rules {
    fn augment_args(command: clap::Command) -> clap::Command {
        VERDICTS
            .iter()
            .fold(command, |command, &(name, verdict, help)| {
                let rule = clap::Arg::new(name)
                    .long(name)
                    .value_name("PATTERN")
                    .action(clap::ArgAction::Append)
                    .requires("recursive")
                    .value_parser(OsStringValueParser::new().try_map(move |text| {
                        let pattern = Pattern::new(text.as_bytes())?;
                        Ok::<_, BadPattern>(FilterRule { verdict, pattern })
                    }))
                    .help(help);
                command.arg(rule)
            })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for (name, ..) in VERDICTS {
            if let (Some(rules), Some(places)) = (
                matches.get_many::<FilterRule>(name),
                matches.indices_of(name),
            ) {
                placed.extend(places.zip(rules.cloned()));
            }
        }
        placed.sort_by_key(|&(place, _)| place);
        Ok(Self(placed.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// List directories
#[derive(Debug, Parser)]
#[command(name = "rfdir", version, after_help = help!("rfdir -R data.example.org:/run7"))]
pub struct Directory {
    /// Directories or files to list
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Write files to standard output
#[derive(Debug, Parser)]
#[command(name = "rfcat", version, after_help = help!("rfcat data.example.org:/run7/log.txt"))]
pub struct Concatenate {
    /// Files to write
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Remove files
#[derive(Debug, Parser)]
#[command(name = "rfrm", version, after_help = help!("rfrm -r data.example.org:/run7/old"))]
pub struct Remove {
    /// Files to remove
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Remove directories and their contents
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Create directories
#[derive(Debug, Parser)]
#[command(name = "rfmkdir", version, after_help = help!("rfmkdir -p data.example.org:/run7/plots"))]
pub struct MakeDirectory {
    /// Directories to create
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Set these permission bits, in octal
    #[arg(short = 'm', value_name = "MODE", value_parser = octal, default_value = "777")]
    pub mode: u32,
    /// Create missing parents; accept existing directories
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Rename a file or directory on a server
#[derive(Debug, Parser)]
#[command(
    name = "rfrename",
    version,
    after_help = help!("rfrename data.example.org:/run7 data.example.org:/run8")
)]
pub struct Rename {
    /// Current name
    pub from: OsString,
    /// New name, on the same server
    pub to: OsString,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Change permission bits
#[derive(Debug, Parser)]
#[command(
    name = "rfchmod",
    version,
    after_help = help!("rfchmod 640 data.example.org:/run7/log.txt")
)]
pub struct ChangeMode {
    /// Permission bits to set, in octal
    #[arg(value_parser = octal)]
    pub mode: u32,
    /// Files or directories to change
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Show the attributes of files
#[derive(Debug, Parser)]
#[command(name = "rfstat", version, after_help = help!("rfstat data.example.org:/run7/log.txt"))]
pub struct Status {
    /// Files or directories to show
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Show symbolic links themselves, not their targets
    #[arg(short = 'P', long)]
    pub no_follow: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Write a WLCG storage resource report
#[derive(Debug, Parser)]
#[command(
    name = "rfsrr",
    version,
    after_help = help!("rfsrr --share data:atlas=data.example.org:/atlas --out report.json")
)]
pub struct StorageReport {
    /// Report this share of the storage and its virtual organisations
    #[arg(long, required = true, value_name = "NAME:VO[,VO...]=PLACE")]
    pub share: Vec<Share>,
    /// Name the service
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Identify the service; by convention its host name
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// State the quality level of the service
    #[arg(long, value_name = "LEVEL", default_value = "production",
          value_parser = ["development", "testing", "pre-production", "production"])]
    pub quality: String,
    /// State the URL of the service [default: that of the place]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Replace this file by the report [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Serve directories to RFIO tools and libraries
#[derive(Debug, Parser)]
#[command(
    name = "rfiod",
    version,
    after_help = DAEMON,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Daemon {
    /// Administration of a running daemon
    #[command(subcommand)]
    pub administration: Option<Administration>,
    /// Serve this directory; may be repeated
    ///
    /// DIR is served as the root, NAME=DIR as /NAME; ':ro' at the end makes it read-only.
    #[arg(
        long,
        short = 'e',
        required = true,
        value_name = "[NAME=]DIR[:ro]",
        help_heading = heading::LISTEN
    )]
    pub export: Vec<OsString>,
    /// Serve only mount points
    ///
    /// Refuses a directory that is not a mount point, at the start and later.
    #[arg(long, help_heading = heading::LISTEN)]
    pub require_mount: bool,
    /// Listen on this address; may be repeated
    ///
    /// Port 0 lets the system choose a port [default: all addresses, port 5001].
    #[arg(long, short = 'l', value_name = "ADDRESS:PORT", help_heading = heading::LISTEN)]
    pub listen: Vec<SocketAddr>,
    /// Listen on this port of all addresses, without --listen
    #[arg(
        long,
        short = 'p',
        default_value_t = verbena_rfio_protocol::DEFAULT_PORT,
        help_heading = heading::LISTEN
    )]
    pub port: u16,
    /// Listen on this Unix socket
    ///
    /// The kernel authenticates its clients.
    #[arg(long, value_name = "PATH", help_heading = heading::LISTEN)]
    pub local: Option<PathBuf>,
    /// Admit this local user to the Unix socket; '*' admits all
    ///
    /// Root and the daemon's own user are always admitted. May be repeated.
    #[arg(long, value_name = "NAME", help_heading = heading::LISTEN)]
    pub local_user: Vec<String>,
    /// Read shared secrets, `user:secret` lines, from this file
    ///
    /// By default a file in the user's configuration directory, created if it is missing.
    #[arg(long, value_name = "FILE", help_heading = heading::USERS)]
    pub secrets: Option<PathBuf>,
    /// Read ticket secrets, `issuer:secret` lines, from this file
    ///
    /// The issuers are XRootD servers that share these secrets; their tickets authenticate clients.
    #[arg(long, value_name = "FILE", help_heading = heading::USERS)]
    pub tickets: Option<PathBuf>,
    /// Accept this difference to the clock of a ticket's issuer
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(..=60),
        help_heading = heading::USERS
    )]
    pub ticket_skew: u64,
    /// Grant this access to clients without secret and certificate
    #[arg(long, value_enum, default_value_t = Anonymous::Nothing, help_heading = heading::USERS)]
    pub anonymous: Anonymous,
    /// Read the TLS certificate chain (PEM) from this file
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = heading::TLS)]
    pub tls_certificate: Option<PathBuf>,
    /// Read the TLS private key (PEM) from this file
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = heading::TLS)]
    pub tls_key: Option<PathBuf>,
    /// Refuse network connections without TLS
    #[arg(long, requires = "tls_certificate", help_heading = heading::TLS)]
    pub tls_only: bool,
    /// Accept client certificates signed by these authorities (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires_all = ["tls_certificate", "tls_users"],
        help_heading = heading::TLS
    )]
    pub tls_client_ca: Option<PathBuf>,
    /// Map client certificates to users by this file
    ///
    /// Lines are user:SUBJECT or user:sha256:FINGERPRINT; unlisted certificates identify no user.
    #[arg(long, value_name = "FILE", requires = "tls_client_ca", help_heading = heading::TLS)]
    pub tls_users: Option<PathBuf>,
    /// Read certificate revocation lists (PEM), one per authority
    #[arg(long, value_name = "FILE", requires = "tls_client_ca", help_heading = heading::TLS)]
    pub tls_revoked: Option<PathBuf>,
    /// Restrict users to the rights in this file
    ///
    /// Lines are USER OPERATIONS PATH; a user without a line has no rights.
    #[arg(long, value_name = "FILE", help_heading = heading::RIGHTS)]
    pub rights: Option<PathBuf>,
    /// Act as local users by this file; requires root
    ///
    /// Lines are USER LOCAL.
    #[arg(long, value_name = "FILE", conflicts_with = "user", help_heading = heading::RIGHTS)]
    pub map: Option<PathBuf>,
    /// Ban the users in this file, one per line; end their sessions
    #[arg(long, value_name = "FILE", help_heading = heading::RIGHTS)]
    pub banned: Option<PathBuf>,
    /// Answer 'rfiod sessions' and 'rfiod end' on this Unix socket
    #[arg(long, value_name = "PATH", help_heading = heading::LISTEN)]
    pub admin: Option<PathBuf>,
    /// Accept SciTokens and WLCG tokens of the issuers in this file
    ///
    /// Tokens are accepted over TLS only.
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = heading::USERS)]
    pub tokens: Option<PathBuf>,
    /// Transport file data over this fabric
    #[arg(long, value_enum, default_value_t = FabricChoice::Auto, help_heading = heading::LISTEN)]
    pub fabric: FabricChoice,
    /// Become this user after opening sockets and files
    #[arg(long, value_name = "NAME", help_heading = heading::LISTEN)]
    pub user: Option<String>,
    /// Append a JSON line per session, open and change to this file
    #[arg(long, value_name = "FILE", help_heading = heading::LOGS)]
    pub audit: Option<PathBuf>,
    /// Append a JSON line per closed file and session to this file
    #[arg(long, value_name = "FILE", help_heading = heading::LOGS)]
    pub accounting: Option<PathBuf>,
    /// Serve Prometheus metrics on this address
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = heading::LOGS)]
    pub metrics: Option<SocketAddr>,
    /// Report separate metrics for N users; the rest is 'other'
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = heading::LOGS)]
    pub metrics_users: usize,
    /// Cache file blocks in this much memory
    ///
    /// [default: 1/16 of the memory, from 256M to 4G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = heading::STORAGE)]
    pub cache: Option<u64>,
    /// When to allocate the cache's memory
    #[arg(
        long,
        value_enum,
        default_value_t = CachePages::AtStart,
        help_heading = heading::STORAGE
    )]
    pub cache_pages: CachePages,
    /// Use this much memory for data in flight outside the cache
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size::parse,
        default_value = "64M",
        help_heading = heading::STORAGE
    )]
    pub buffers: u64,
    /// Limit one user to this much of --buffers [default: half]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = heading::LIMITS)]
    pub buffers_per_user: Option<u64>,
    /// Limit cache blocks in flight to one user
    ///
    /// [default: half of --cache]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = heading::LIMITS)]
    pub in_flight_per_user: Option<u64>,
    /// Limit sessions in total
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = heading::LIMITS)]
    pub sessions: usize,
    /// Limit sessions per user
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = heading::LIMITS)]
    pub sessions_per_user: usize,
    /// Limit queue pairs in total
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = heading::LIMITS)]
    pub queue_pairs: usize,
    /// Limit queue pairs per user
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = heading::LIMITS)]
    pub queue_pairs_per_user: usize,
    /// Limit addresses and networks by this file
    ///
    /// Lines are NETWORK [together] [sessions=N] [requests=N] [bytes=SIZE], or NETWORK refuse.
    #[arg(long, value_name = "FILE", help_heading = heading::LIMITS)]
    pub addresses: Option<PathBuf>,
    /// Limit users by this file
    ///
    /// Lines are USER [reserve-]sessions|files|queue-pairs=N ...
    #[arg(long, value_name = "FILE", help_heading = heading::LIMITS)]
    pub user_limits: Option<PathBuf>,
    /// Limit open files in total
    #[arg(long, value_name = "N", default_value_t = 16_384, help_heading = heading::LIMITS)]
    pub open_files: usize,
    /// Limit open files per user
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = heading::LIMITS)]
    pub open_files_per_user: usize,
    /// Limit unauthenticated connections
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = heading::LIMITS)]
    pub strangers: usize,
    /// Close connections that do not authenticate in time
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = heading::TIMEOUTS)]
    pub greeting_timeout: u64,
    /// Disconnect a client that does not take its data for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 120, help_heading = heading::TIMEOUTS)]
    pub stall_timeout: u64,
    /// Disconnect a client whose host does not answer for this long
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(2..),
        help_heading = heading::TIMEOUTS
    )]
    pub vanish_timeout: u64,
    /// Give pending requests this long to complete after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = heading::TIMEOUTS)]
    pub stop_timeout: u64,
    /// Run N event loops [default: one per core, at most 8]
    #[arg(long, value_name = "N", help_heading = heading::STORAGE)]
    pub threads: Option<usize>,
    /// Run N storage threads; one user can occupy all but one
    ///
    /// [default: one per core, from 2 to 16, plus one]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(2..=512),
        help_heading = heading::STORAGE
    )]
    pub workers: Option<u16>,
    /// Read storage in this way
    #[arg(long, value_enum, default_value_t = StorageChoice::Auto, help_heading = heading::STORAGE)]
    pub storage: StorageChoice,
    /// Serve /.rfio-unfilled, a file of this size without storage
    ///
    /// For measurements that exclude storage.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = heading::STORAGE)]
    pub unfilled: Option<u64>,
}

/// Administration commands for a running daemon.
#[derive(Debug, Subcommand)]
pub enum Administration {
    /// List the sessions of a running daemon
    Sessions(ListSessions),
    /// End a session, or all sessions of a user
    End(EndSession),
}

/// `rfiod sessions`.
#[derive(Debug, Args)]
pub struct ListSessions {
    /// Ask the daemon at this socket, its --admin
    #[arg(long, value_name = "PATH")]
    pub admin: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `rfiod end`.
#[derive(Debug, Args)]
pub struct EndSession {
    /// Session number, or user name
    #[arg(value_name = "SESSION|USER")]
    pub target: String,
    /// Ask the daemon at this socket, its --admin
    #[arg(long, value_name = "PATH")]
    pub admin: PathBuf,
    /// Treat a number as a user name
    #[arg(long)]
    pub user: bool,
}

/// Rights of clients without credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Anonymous {
    /// No access
    Nothing,
    /// Read access
    Read,
    /// Read and write access
    Write,
}

/// When the cache's memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CachePages {
    /// Before serving, for up to 2 s, and the rest in the background
    AtStart,
    /// Block by block on first use
    WhenUsed,
}

/// Method of reading storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StorageChoice {
    /// io_uring if the kernel allows it, otherwise threads
    Auto,
    /// io_uring only: the reads of a request run concurrently
    IoUring,
    /// Blocking reads, one at a time on each thread
    Threads,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|&mode| mode <= 0o7777)
        .ok_or_else(|| format!("'{text}' is not an octal mode such as 644"))
}

/// Returns every tool's command line, for manual pages and shell completion.
pub fn all() -> Vec<Command> {
    vec![
        Copy::command(),
        Directory::command(),
        Concatenate::command(),
        Remove::command(),
        MakeDirectory::command(),
        Rename::command(),
        ChangeMode::command(),
        Status::command(),
        StorageReport::command(),
        Daemon::command(),
    ]
}

/// Parses the command line.
///
/// # Errors
/// Help, version or a usage error was printed; returns the exit code: RFIO's
/// [`crate::exit::BAD_PARAMETER`] for an error.
pub fn parse<T: Parser>() -> Result<T, std::process::ExitCode> {
    T::try_parse().map_err(|error| {
        let _ = error.print();
        let code = if error.use_stderr() {
            crate::exit::BAD_PARAMETER
        } else {
            crate::exit::OK
        };
        std::process::ExitCode::from(code)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_line_definitions_are_consistent() {
        for command in super::all() {
            command.debug_assert();
        }
    }

    #[test]
    fn help_is_one_line_of_less_than_70_columns_and_no_sentence() {
        let check = |of: &str, text: Option<&clap::builder::StyledStr>| {
            let text = text.map_or(String::new(), ToString::to_string);
            let length = text.chars().count();
            assert!(!text.is_empty(), "{of} has no help");
            assert!(length < 70, "{of}: {length} columns: {text}");
            assert!(!text.contains('\n'), "{of}: {text}");
            assert!(
                !text.ends_with('.') || text.ends_with("..."),
                "{of}: {text}"
            );
            assert!(text.starts_with(char::is_uppercase), "{of}: {text}");
        };
        for tool in super::all() {
            for command in std::iter::once(&tool).chain(tool.get_subcommands()) {
                check(command.get_name(), command.get_about());
                for argument in command.get_arguments() {
                    let of = format!("{} {}", command.get_name(), argument.get_id());
                    check(&of, argument.get_help());
                }
            }
        }
    }

    #[test]
    fn examples_in_help_are_valid_command_lines() {
        for tool in super::all() {
            let help = tool.get_after_help().expect("help has an example");
            let help = help.to_string();
            let start = format!("  {} ", tool.get_name());
            let examples: Vec<&str> = help.lines().filter(|l| l.starts_with(&start)).collect();
            assert!(!examples.is_empty(), "{} has no example", tool.get_name());
            for example in examples {
                if let Err(error) = tool
                    .clone()
                    .try_get_matches_from(example.split_whitespace())
                {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
