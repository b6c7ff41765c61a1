//! The file of shared secrets, with lines `user:secret`, and `#` for comments.
//!
//! Server and client read the same format. The file must belong to its reader or to root, and no
//! other user may read it. Without any configuration, a daemon creates one for the user that starts
//! it. It admits this user's tools, on this host or wherever the home directory is shared, and no
//! others.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use verbena_rfio_common::random::random;

use super::files::{BadFile, read_private, text_of};
use super::peer;

/// Minimum length of a secret in bytes.
pub(crate) const SHORTEST: usize = 16;

/// Secrets by user.
#[derive(Default, Clone)]
pub struct Secrets(HashMap<String, Vec<u8>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets of {} users", self.0.len())
    }
}

/// Why a file of secrets is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BadSecrets {
    /// It cannot be read, or is not private.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A line is not `user:secret`.
    #[error("{0}, line {1}: expected user:secret with a secret of at least {SHORTEST} characters")]
    Line(PathBuf, usize),
}

impl Secrets {
    /// Returns the default path of the file: `$RFIO_SECRETS`, else `rfio/secrets` in the user's
    /// configuration directory.
    pub fn default_path() -> Option<PathBuf> {
        if let Some(path) = std::env::var_os("RFIO_SECRETS") {
            return Some(path.into());
        }
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let base =
            set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
        Some(base.join("rfio/secrets"))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not private, or has an invalid line.
    pub fn load(path: &Path) -> Result<Self, BadSecrets> {
        let text = text_of(path, read_private(path)?)?;
        Self::parse(&text).map_err(|line| BadSecrets::Line(path.to_owned(), line))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The number of the first invalid line.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut secrets = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, secret) = line.split_once(':').ok_or(index + 1)?;
            if user.is_empty() || secret.len() < SHORTEST {
                return Err(index + 1);
            }
            secrets.insert(user.to_owned(), secret.as_bytes().to_vec());
        }
        Ok(Self(secrets))
    }

    /// Creates a file with a new secret for the current user, unless it exists; then reads it.
    ///
    /// # Errors
    /// It cannot be created; as [`Secrets::load`].
    pub fn load_or_create(path: &Path) -> Result<Self, BadSecrets> {
        let unreadable = |error| BadFile::Unreadable(path.to_owned(), error);
        if !path.exists() {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory).map_err(unreadable)?;
            }
            let secret: String = random::<32>()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let user = peer::own_name();
            let temporary = path.with_extension(format!("new-{}", std::process::id()));
            let write = || -> io::Result<()> {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o600)
                    .open(&temporary)?;
                writeln!(
                    file,
                    "# Shared secrets of RFIO, one user:secret a line. Keep this file to yourself."
                )?;
                writeln!(file, "{user}:{secret}")?;
                // The link fails if another daemon was faster; its file is equally good.
                let linked = fs::hard_link(&temporary, path);
                fs::remove_file(&temporary)?;
                match linked {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                    _ => Ok(()),
                }
            };
            write().map_err(unreadable)?;
        }
        Self::load(path)
    }

    /// Returns a user's secret.
    pub fn of(&self, user: &str) -> Option<&[u8]> {
        self.0.get(user).map(Vec::as_slice)
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use verbena_rfio_common::scratch::Scratch;

    #[test]
    fn valid_lines_are_parsed_and_invalid_ones_named() {
        let secrets =
            Secrets::parse("# x\n\nann:0123456789abcdef\n bob:secret:with:colons!\n").unwrap();
        assert_eq!(secrets.of("ann"), Some(&b"0123456789abcdef"[..]));
        assert_eq!(secrets.of("bob"), Some(&b"secret:with:colons!"[..]));
        assert_eq!(secrets.of("cy"), None);
        assert_eq!(
            Secrets::parse("ann:0123456789abcdef\nbob:short").unwrap_err(),
            2
        );
        assert_eq!(Secrets::parse(":0123456789abcdef").unwrap_err(), 1);
    }

    #[test]
    fn a_file_readable_by_others_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path("secrets");
        fs::write(&path, "ann:0123456789abcdef").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            Secrets::load(&path),
            Err(BadSecrets::File(BadFile::Exposed(_, 0o640)))
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Secrets::load(&path).is_ok());
    }

    #[test]
    fn a_created_file_is_private_and_never_overwritten() {
        let scratch = Scratch::new();
        let path = scratch.path("a/b/secrets");
        let first = Secrets::load_or_create(&path).unwrap();
        let second = Secrets::load_or_create(&path).unwrap();
        let user = peer::own_name();
        assert!(first.of(&user).unwrap().len() >= 64);
        assert_eq!(first.of(&user), second.of(&user));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
