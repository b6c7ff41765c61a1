//! Options of a client.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use verbena_rfio_auth::peer;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::ticket::Ticket;
use verbena_rfio_auth::tls::ClientFiles;
use verbena_rfio_protocol::shown;
use verbena_rfio_protocol::types::{MOST_TOKEN, Token};

use super::error::Error;

/// The data path of file data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// By RDMA if both sides support it, else in the connection.
    #[default]
    Auto,
    /// By RDMA, or fail.
    Verbs,
    /// In the connection.
    Tcp,
}

impl std::str::FromStr for Fabric {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "verbs" | "rdma" => Ok(Self::Verbs),
            "tcp" => Ok(Self::Tcp),
            other => Err(format!("fabric '{other}' is not auto, verbs or tcp")),
        }
    }
}

/// Options of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// The user name that the client claims.
    pub user: String,
    /// Secrets that it may use.
    pub secrets: Secrets,
    /// File that the secrets are read from, if any, for messages; it need not exist.
    pub secrets_file: Option<PathBuf>,
    /// Ticket that authenticates instead of a secret, valid for one session.
    pub ticket: Option<Ticket>,
    /// Token that authenticates under TLS instead of a secret: a SciToken or a WLCG token.
    pub token: Option<Token>,
    /// TLS, with the client's certificate if it has one; if set, no plain connection is made.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The data path.
    pub fabric: Fabric,
    /// Time limit for an answer; zero means none.
    pub timeout: Duration,
    /// Whether data carry checksums.
    pub checksums: Checksums,
}

/// Whether data carry checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// A CRC32C for each block, verified on arrival.
    On,
    /// None.
    Off,
}

impl Options {
    /// Returns options of a user without secret, ticket, token or certificate: TCP, checksums, and
    /// a timeout of 60 seconds.
    pub fn plain(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            secrets: Secrets::default(),
            secrets_file: None,
            ticket: None,
            token: None,
            tls: None,
            fabric: Fabric::Tcp,
            timeout: Duration::from_secs(60),
            checksums: Checksums::On,
        }
    }

    /// Reads the options from the environment: `RFIO_USER`, `RFIO_SECRETS`, `RFIO_TLS_CA`,
    /// `RFIO_TLS_CERTIFICATE`, `RFIO_TLS_KEY`, `RFIO_FABRIC`, `RFIO_TIMEOUT` (seconds),
    /// `BEARER_TOKEN`, `BEARER_TOKEN_FILE`.
    ///
    /// # Errors
    /// A variable is invalid, or a file that it names.
    pub fn from_environment() -> Result<Self, Error> {
        Self::with_tls(&ClientFiles::from_environment())
    }

    /// Reads the options from the environment, except for TLS, which uses these files.
    ///
    /// # Errors
    /// A variable is invalid, or a file.
    pub fn with_tls(files: &ClientFiles) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let secrets_file = Secrets::default_path();
        let secrets = match &secrets_file {
            Some(path) if path.exists() => load_secrets(path)?,
            _ => Secrets::default(),
        };
        let tls = files.configuration();
        let tls = tls.map_err(|bad| Error::Setup(bad.to_string()))?;
        let fabric = match variable("RFIO_FABRIC") {
            Some(text) => text
                .parse()
                .map_err(|bad| Error::Setup(format!("RFIO_FABRIC: {bad}")))?,
            None => Fabric::Auto,
        };
        let timeout = match variable("RFIO_TIMEOUT") {
            Some(text) => text.parse().map(Duration::from_secs).map_err(|_| {
                Error::Setup(format!("RFIO_TIMEOUT: '{text}' is not a number of seconds"))
            })?,
            None => Duration::from_secs(120),
        };
        let user = variable("RFIO_USER").unwrap_or_else(peer::own_name);
        Ok(Self {
            user,
            secrets,
            secrets_file,
            ticket: None,
            token: token_from_environment()?,
            tls,
            fabric,
            timeout,
            checksums: Checksums::On,
        })
    }
}

impl Options {
    /// Describes the client's credentials, and where it looked for them, for messages.
    pub(super) fn describe_credentials(&self) -> String {
        if self.ticket.is_some() {
            return "; the client has a ticket".into();
        }
        let user = shown::bytes(self.user.as_bytes());
        let has_secret = self.secrets.of(&self.user).is_some();
        let secret = match &self.secrets_file {
            None if has_secret => format!("the secret of user '{user}'"),
            None => format!("no secret of user '{user}'"),
            Some(file) => {
                let name = shown::bytes(file.as_os_str().as_bytes());
                match (has_secret, file.exists()) {
                    (true, _) => format!("the secret of user '{user}' in {name}"),
                    (false, true) => format!("no secret of user '{user}' in {name}"),
                    (false, false) => format!("no secret, as there is no file {name}"),
                }
            }
        };
        let token = match (&self.token, &self.tls) {
            (Some(_), Some(_)) => " and a token",
            (Some(_), None) => " and a token, which it sends under TLS only (--tls-ca)",
            (None, _) => "",
        };
        format!(
            "; the client has {secret}{token} (see RFIO_USER, \
             RFIO_SECRETS and RFIO_TLS_CERTIFICATE, or --user, --secrets and --tls-certificate)"
        )
    }
}

/// Returns the token in `BEARER_TOKEN`, or in the file that `BEARER_TOKEN_FILE` names.
fn token_from_environment() -> Result<Option<Token>, Error> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (source, bytes) = match (set("BEARER_TOKEN"), set("BEARER_TOKEN_FILE")) {
        (Some(token), _) => ("BEARER_TOKEN".to_owned(), token.into_encoded_bytes()),
        (None, Some(file)) => {
            let source = format!("BEARER_TOKEN_FILE {}", Path::new(&file).display());
            let read = std::fs::File::open(&file).and_then(|file| {
                let mut bytes = Vec::new();
                // Reads just enough to detect that it is too long.
                file.take(MOST_TOKEN as u64 + 2).read_to_end(&mut bytes)?;
                Ok(bytes)
            });
            let bytes = read.map_err(|error| Error::Setup(format!("{source}: {error}")))?;
            (source, bytes)
        }
        (None, None) => return Ok(None),
    };
    let token = Token::new(bytes.trim_ascii());
    let too_long = || Error::Setup(format!("{source}: a token has at most {MOST_TOKEN} bytes"));
    token.map(Some).ok_or_else(too_long)
}

/// Reads a file of secrets.
///
/// # Errors
/// It cannot be read or is invalid.
pub fn load_secrets(path: &Path) -> Result<Secrets, Error> {
    Secrets::load(path).map_err(|bad| Error::Setup(bad.to_string()))
}
