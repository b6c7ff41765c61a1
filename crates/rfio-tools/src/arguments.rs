//! The command lines of all tools, as typed.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use verbena_rfio::auth::tls::ClientFiles;
use verbena_rfio::client::copy::choice::{Rule, Verdict};
use verbena_rfio::client::copy::pattern::{BadPattern, Pattern};
use verbena_rfio::client::options::{Checksums, Fabric, load_secrets};
use verbena_rfio::client::{Error, Options};

use crate::size;
use crate::storage_report::Share;

const PLACES: &str = "A place on a server is HOST:/PATH or rfio://HOST[:PORT]/PATH. HOST may be an IPv6 address or the \
path of a service's Unix socket, in brackets. Anything without ':/' is a local path. The environment variables \
RFIO_USER, RFIO_SECRETS, RFIO_TLS_CA, RFIO_TLS_CERTIFICATE, RFIO_TLS_KEY, RFIO_FABRIC, RFIO_PORT and RFIO_TIMEOUT give \
defaults.";

/// How data travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FabricChoice {
    /// By RDMA where both sides can, else over TCP
    Auto,
    /// By RDMA or not at all
    Verbs,
    /// Over TCP
    Tcp,
}

impl From<FabricChoice> for Fabric {
    fn from(choice: FabricChoice) -> Self {
        match choice {
            FabricChoice::Auto => Self::Auto,
            FabricChoice::Verbs => Self::Verbs,
            FabricChoice::Tcp => Self::Tcp,
        }
    }
}

/// How a tool connects; the same for all.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// Who to be on the server
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File of shared secrets
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Use TLS and trust the certificates in this file
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate to show to servers that ask for one, with those that lead to an authority, PEM; it goes before secrets
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM, mode 600
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// How data travel
    #[arg(long, value_enum)]
    pub fabric: Option<FabricChoice>,
    /// Longest wait for an answer, in seconds; 0 is for ever
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Do not check data block by block
    #[arg(long)]
    pub no_block_checksums: bool,
}

impl Connection {
    /// The environment's options, with what was typed in their place.
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
        }
        if let Some(fabric) = self.fabric {
            options.fabric = fabric.into();
        }
        if let Some(seconds) = self.timeout {
            options.patience = std::time::Duration::from_secs(seconds);
        }
        if self.no_block_checksums {
            options.checksums = Checksums::Off;
        }
        Ok(options)
    }
}

/// Copy files to, from and between RFIO servers
#[derive(Debug, Parser)]
#[command(name = "rfcp", version, after_help = PLACES)]
pub struct Copy {
    /// Sources, then the destination; '-' is standard input or output
    #[arg(required = true, num_args = 2.., value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Copy only so many bytes from the front
    #[arg(short = 's', value_name = "BYTES", value_parser = size::parse)]
    pub size: Option<u64>,
    /// Copy directories with everything in them
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Keep what is right of an earlier attempt and move the rest
    #[arg(short = 'c', long = "continue")]
    pub continue_earlier: bool,
    /// Read the copy back and compare it, block by block, before it gets its name
    #[arg(long)]
    pub checksum: bool,
    /// Number of parallel sessions [default: 1, up to 4 while processors are idle]
    #[arg(short = 'P', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: Option<u16>,
    /// Put the data on stable storage before the copy gets its name, and the name before the end
    #[arg(long)]
    pub sync: bool,
    /// Copy extended attributes of the users' name space as well
    #[arg(long)]
    pub xattrs: bool,
    /// Leave what has the destination's name as it is
    #[arg(long, conflicts_with = "update")]
    pub no_clobber: bool,
    /// Replace only what is older than its source, or as old and of another length
    #[arg(long)]
    pub update: bool,
    /// What of directories is copied
    #[command(flatten)]
    pub rules: Rules,
    /// Largest rate in bytes a second, of all sessions together
    #[arg(long, value_name = "RATE", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    /// Seconds to retry without progress after a lost connection; 0 never
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub retry: u64,
    /// Summary as one JSON object on standard output (standard error when copying to '-')
    #[arg(long)]
    pub json: bool,
    /// No progress and no summary
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// `--include` and `--exclude`, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub struct Rules(pub Vec<Rule>);

const VERDICTS: [(&str, Verdict, &str); 2] = [
    (
        "include",
        Verdict::Include,
        "Copy what fits, of what -r finds; the first rule that fits decides",
    ),
    (
        "exclude",
        Verdict::Exclude,
        "Leave out what fits, of what -r finds, with all that is below it",
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
                        Ok::<_, BadPattern>(Rule { verdict, pattern })
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
            if let (Some(rules), Some(places)) =
                (matches.get_many::<Rule>(name), matches.indices_of(name))
            {
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
#[command(name = "rfdir", version, after_help = PLACES)]
pub struct Directory {
    /// What to list
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// And everything below
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Write files to standard output
#[derive(Debug, Parser)]
#[command(name = "rfcat", version, after_help = PLACES)]
pub struct Concatenate {
    /// What to write
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Remove files
#[derive(Debug, Parser)]
#[command(name = "rfrm", version, after_help = PLACES)]
pub struct Remove {
    /// What to remove
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Make directories
#[derive(Debug, Parser)]
#[command(name = "rfmkdir", version, after_help = PLACES)]
pub struct MakeDirectory {
    /// What to make
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Permission bits, octal
    #[arg(short = 'm', value_name = "MODE", value_parser = octal, default_value = "777")]
    pub mode: u32,
    /// Make what is missing above as well; no error if it is there
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Rename a file or directory on a server
#[derive(Debug, Parser)]
#[command(name = "rfrename", version, after_help = PLACES)]
pub struct Rename {
    /// The old name
    pub from: OsString,
    /// The new name, on the same server
    pub to: OsString,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Change permission bits
#[derive(Debug, Parser)]
#[command(name = "rfchmod", version, after_help = PLACES)]
pub struct ChangeMode {
    /// Permission bits, octal
    #[arg(value_parser = octal)]
    pub mode: u32,
    /// Of what
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Show what files are
#[derive(Debug, Parser)]
#[command(name = "rfstat", version, after_help = PLACES)]
pub struct Status {
    /// What to show
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// Show a symbolic link itself
    #[arg(short = 'P', long)]
    pub no_follow: bool,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Report storage as WLCG's Storage Resource Reporting has it
#[derive(Debug, Parser)]
#[command(name = "rfsrr", version, after_help = PLACES)]
pub struct StorageReport {
    /// Part of the storage, with the virtual organisations that it is for
    #[arg(long, required = true, value_name = "NAME:VO[,VO...]=PLACE")]
    pub share: Vec<Share>,
    /// Name of the service
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Identifier of the service, by custom its host's name
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Quality level of the service
    #[arg(long, value_name = "LEVEL", default_value = "production",
          value_parser = ["development", "testing", "pre-production", "production"])]
    pub quality: String,
    /// URL at which users reach the service [default: the place's]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// File that is replaced by the report [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Connection
    #[command(flatten)]
    pub connection: Connection,
}

/// Serve directories to RFIO's tools and libraries
#[derive(Debug, Parser)]
#[command(
    name = "rfiod",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Daemon {
    /// A question to a daemon that runs, in place of serving
    #[command(subcommand)]
    pub administration: Option<Administration>,
    /// Directory to serve: DIR as the root, or NAME=DIR as /NAME; ':ro' at the end forbids changes
    #[arg(long, short = 'e', required = true, value_name = "[NAME=]DIR[:ro]")]
    pub export: Vec<OsString>,
    /// Refuse to serve a directory that is no mount point, now and later
    #[arg(long)]
    pub require_mount: bool,
    /// Address to listen on; port 0 lets the system choose [default: all addresses, port 5001]
    #[arg(long, short = 'l', value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Port, when no --listen is given
    #[arg(long, short = 'p', default_value_t = verbena_rfio_protocol::DEFAULT_PORT)]
    pub port: u16,
    /// Unix socket to listen on; its users are known by the kernel's word
    #[arg(long, value_name = "PATH")]
    pub local: Option<PathBuf>,
    /// User of this host, besides the daemon's own and root, who may use the Unix socket; '*' is everybody
    #[arg(long, value_name = "NAME")]
    pub local_user: Vec<String>,
    /// File of shared secrets [default: one in the user's configuration, made when it is missing]
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// File of secrets, issuer:secret a line, shared with the servers of XRootD whose tickets let clients in
    #[arg(long, value_name = "FILE")]
    pub tickets: Option<PathBuf>,
    /// Seconds that the clocks of this host and of a tickets' issuer may be apart
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=60))]
    pub ticket_skew: u64,
    /// What clients may do that have neither a secret nor a certificate
    #[arg(long, value_enum, default_value_t = Anonymous::Nothing)]
    pub anonymous: Anonymous,
    /// Certificate chain for TLS, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key for TLS, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Refuse connections from the network without TLS
    #[arg(long, requires = "tls_certificate")]
    pub tls_only: bool,
    /// Certificates of authorities, PEM: clients may show certificates that these have signed
    #[arg(long, value_name = "FILE", requires_all = ["tls_certificate", "tls_users"])]
    pub tls_client_ca: Option<PathBuf>,
    /// File of whose certificates are whose, user:SUBJECT or user:sha256:FINGERPRINT a line; whoever has no line is nobody
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    pub tls_users: Option<PathBuf>,
    /// Lists of revoked certificates, PEM, one for each authority
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    pub tls_revoked: Option<PathBuf>,
    /// File of rights, USER OPERATIONS PATH a line; without a line there are none
    #[arg(long, value_name = "FILE")]
    pub rights: Option<PathBuf>,
    /// File of local users to act as, USER LOCAL a line; takes root
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub map: Option<PathBuf>,
    /// File of banned users, one a line; their sessions end
    #[arg(long, value_name = "FILE")]
    pub banned: Option<PathBuf>,
    /// Unix socket to answer 'rfiod sessions' and 'rfiod end' at
    #[arg(long, value_name = "PATH")]
    pub admin: Option<PathBuf>,
    /// File of issuers whose SciTokens and WLCG tokens are taken under TLS
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tokens: Option<PathBuf>,
    /// How data may travel
    #[arg(long, value_enum, default_value_t = FabricChoice::Auto)]
    pub fabric: FabricChoice,
    /// Become this user after the sockets and files are open
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Append a line of JSON for every session, open and change
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Append a line of JSON at the end of every file and session
    #[arg(long, value_name = "FILE")]
    pub accounting: Option<PathBuf>,
    /// Serve metrics for Prometheus on this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Users that have metrics of their own; the rest is 'other'
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub metrics_users: usize,
    /// Memory for blocks of files [default: a sixteenth of the memory, from 256M to 4G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub cache: Option<u64>,
    /// When to allocate the cache's memory; with RDMA always at the start
    #[arg(long, value_enum, default_value_t = CachePages::AtStart)]
    pub cache_pages: CachePages,
    /// Memory for everything else that travels
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64M")]
    pub buffers: u64,
    /// Of --buffers, for one user [default: half]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub buffers_per_user: Option<u64>,
    /// Blocks of the cache that may be on their way to one user [default: half of --cache]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub in_flight_per_user: Option<u64>,
    /// Sessions in all
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub sessions: usize,
    /// Sessions per user
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub sessions_per_user: usize,
    /// Queue pairs in all
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub queue_pairs: usize,
    /// Queue pairs per user
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub queue_pairs_per_user: usize,
    /// File of limits by address, NETWORK [together] [sessions=N] [requests=N] [bytes=SIZE] or NETWORK refuse a line
    #[arg(long, value_name = "FILE")]
    pub addresses: Option<PathBuf>,
    /// File of limits by user, USER [reserve-]sessions|files|queue-pairs=N ... a line
    #[arg(long, value_name = "FILE")]
    pub user_limits: Option<PathBuf>,
    /// Files open in all
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub open_files: usize,
    /// Files open per user
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub open_files_per_user: usize,
    /// Connections that have not proved yet who they are
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub strangers: usize,
    /// Seconds for a connection to prove who it is
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub greeting_timeout: u64,
    /// Seconds after which a client that takes no data is let go
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub stall_timeout: u64,
    /// Seconds after which a client is let go whose host does not answer any more
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..))]
    pub vanish_timeout: u64,
    /// Seconds that requests under way have to end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub stop_timeout: u64,
    /// Event loops [default: one per core, at most 8]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Threads that wait for storage, of which one user may keep all but one busy [default: one per core, from 2 to 16, and one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=512))]
    pub workers: Option<u16>,
    /// How these read what a request wants: together by io_uring, or one after the other
    #[arg(long, value_enum, default_value_t = StorageChoice::Auto)]
    pub storage: StorageChoice,
    /// Serve a file of this size without storage, /.rfio-unfilled, to measure everything but the storage
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub unfilled: Option<u64>,
}

/// What a daemon that runs is asked.
#[derive(Debug, Subcommand)]
pub enum Administration {
    /// List the sessions of a daemon that runs
    Sessions(ListSessions),
    /// End a session, or all of a user
    End(EndSession),
}

/// `rfiod sessions`.
#[derive(Debug, Args)]
pub struct ListSessions {
    /// The daemon's --admin
    #[arg(long, value_name = "PATH")]
    pub admin: PathBuf,
    /// As one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `rfiod end`.
#[derive(Debug, Args)]
pub struct EndSession {
    /// A session's number, or a user
    #[arg(value_name = "SESSION|USER")]
    pub target: String,
    /// The daemon's --admin
    #[arg(long, value_name = "PATH")]
    pub admin: PathBuf,
    /// Take a number for a user's name
    #[arg(long)]
    pub user: bool,
}

/// What clients without any secret may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Anonymous {
    /// Nothing
    Nothing,
    /// Read
    Read,
    /// Read and change
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

/// How storage is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StorageChoice {
    /// By io_uring where the kernel has it and lets the daemon use it
    Auto,
    /// By io_uring, or not at all
    IoUring,
    /// One read after the other on each thread
    Threads,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|&mode| mode <= 0o7777)
        .ok_or_else(|| format!("'{text}' is not an octal mode such as 644"))
}

/// Every tool's command line, for manual pages and completion.
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

/// Parses a command line; what is wrong with it goes to standard error and the exit code is RFIO's.
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
    fn command_lines_are_sound() {
        for command in super::all() {
            command.debug_assert();
        }
    }
}
