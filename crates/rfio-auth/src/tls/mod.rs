//! TLS 1.3 for the control connection (RFC 8446), by rustls. Older versions are not offered.

mod client;
mod rejection;
mod server;

pub use client::ClientFiles;
pub use rejection::{rejection_by_server, rejection_reason};
pub use server::{ClientRules, TlsServer};

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::BadCertificateUsers;
use super::files::BadFile;

/// The label with which both sides derive the key that binds their proofs to this channel (RFC
/// 5705).
pub const EXPORTER: &[u8] = b"EXPORTER-RFIO-2";

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BadTls {
    /// A PEM file cannot be read or lacks the expected item.
    #[error("{0}: {1}")]
    Pem(PathBuf, String),
    /// A file cannot be read, or other users can read or change it.
    #[error(transparent)]
    File(#[from] BadFile),
    /// The file of users is invalid.
    #[error(transparent)]
    CertificateUsers(#[from] BadCertificateUsers),
    /// A certificate and a key that do not belong together.
    #[error("the key in {key} is not that of the certificate in {certificate}")]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Only one of certificate and key was named.
    #[error(
        "a certificate needs its key; give both, by --tls-certificate and --tls-key, or \
         RFIO_TLS_CERTIFICATE and RFIO_TLS_KEY"
    )]
    Half,
    /// A certificate is given without TLS.
    #[error(
        "a client certificate needs TLS; name the trusted authorities with --tls-ca or RFIO_TLS_CA"
    )]
    Untrusting,
    /// rustls rejects the configuration.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

impl BadTls {
    /// Converts rustls's error for a certificate and its key.
    fn of_pair(certificate: &Path, key: &Path, error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
                Self::Mismatch {
                    certificate: certificate.to_owned(),
                    key: key.to_owned(),
                }
            }
            other => Self::Rustls(other),
        }
    }
}

fn bad_pem(path: &Path) -> impl Fn(pem::Error) -> BadTls {
    move |error| BadTls::Pem(path.to_owned(), error.to_string())
}

/// Returns all items of one kind in a PEM text; it is an error if there are none.
fn all_of<T: PemObject>(path: &Path, text: &[u8], what: &str) -> Result<Vec<T>, BadTls> {
    let list = T::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let list = list.map_err(bad_pem(path))?;
    if list.is_empty() {
        return Err(BadTls::Pem(path.to_owned(), format!("holds no {what}")));
    }
    Ok(list)
}

fn text_of(path: &Path) -> Result<Vec<u8>, BadFile> {
    std::fs::read(path).map_err(|error| BadFile::Unreadable(path.to_owned(), error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    all_of(path, &text_of(path)?, "certificate")
}

fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, BadTls> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => BadTls::Pem(path.to_owned(), "holds no private key".into()),
        other => bad_pem(path)(other),
    })
}

/// Returns the key that TLS exports for the proofs.
///
/// # Errors
/// The handshake is not complete.
pub fn channel_key<Data>(connection: &rustls::ConnectionCommon<Data>) -> io::Result<[u8; 32]> {
    connection
        .export_keying_material([0; 32], EXPORTER, None)
        .map_err(io::Error::other)
}
