//! TLS 1.3 for the control connection (RFC 8446), by rustls. Older versions are not offered.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The label under which both sides derive the key that binds their proofs to this channel (RFC 5705).
pub const EXPORTER: &[u8] = b"EXPORTER-RFIO-2";

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BadTls {
    /// A PEM file cannot be read or holds nothing of the kind.
    #[error("{0}: {1}")]
    Pem(std::path::PathBuf, String),
    /// The parts do not fit together.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let bad =
        |error: rustls::pki_types::pem::Error| BadTls::Pem(path.to_owned(), error.to_string());
    let list = CertificateDer::pem_file_iter(path)
        .map_err(bad)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(bad)?;
    if list.is_empty() {
        return Err(BadTls::Pem(path.to_owned(), "holds no certificate".into()));
    }
    Ok(list)
}

/// What a server shows.
pub type Certificate = Arc<ServerConfig>;

/// A server's configuration: its certificate chain and key, in PEM.
pub fn server(chain: &Path, key: &Path) -> Result<Certificate, BadTls> {
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| BadTls::Pem(key.to_owned(), error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates(chain)?, key_der)?;
    Ok(Arc::new(config))
}

/// A client's configuration: the certificates that it trusts, in PEM.
pub fn client(trusted: &Path) -> Result<Arc<ClientConfig>, BadTls> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(trusted)? {
        roots.add(certificate)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The key that TLS exports for the proofs.
pub fn channel_key<Data>(connection: &rustls::ConnectionCommon<Data>) -> io::Result<[u8; 32]> {
    connection
        .export_keying_material([0; 32], EXPORTER, None)
        .map_err(io::Error::other)
}
