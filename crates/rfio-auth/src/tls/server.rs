//! TLS of the server: its own certificate, and the verification of clients' certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::{BadTls, all_of, certificates, private_key, text_of};
use crate::certificate::CertificateUsers;
use crate::files::read_unchanged;

/// State for accepting TLS connections. It holds both the verification of certificates and the
/// mapping to users, so that a connection is judged by one consistent configuration, the one at its
/// beginning, even if files are read again meanwhile.
#[derive(Debug, Clone)]
pub struct TlsServer {
    /// Settings of a connection.
    pub config: Arc<ServerConfig>,
    /// Mapping of certificates to users, if clients are asked for certificates.
    pub users: Option<Arc<CertificateUsers>>,
}

/// The files that decide which client certificates are accepted. Write access to one of them is
/// sufficient to gain access to the service.
#[derive(Debug, Clone, Copy)]
pub struct ClientRules<'a> {
    /// Certificate authorities, PEM.
    pub authorities: &'a Path,
    /// Certificate revocation lists of these, PEM.
    pub revoked: Option<&'a Path>,
    /// Mapping of certificates to users.
    pub users: &'a Path,
}

impl TlsServer {
    /// Creates a server with this certificate chain and key, in PEM, that asks for no client
    /// certificate.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn new(chain: &Path, key: &Path) -> Result<Self, BadTls> {
        Ok(Self {
            config: Arc::new(config(chain, key, WebPkiClientVerifier::no_client_auth())?),
            users: None,
        })
    }

    /// Creates a server that also asks clients for certificates.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn asking(chain: &Path, key: &Path, rules: ClientRules<'_>) -> Result<Self, BadTls> {
        let users = CertificateUsers::load(rules.users)?;
        let mut config = config(chain, key, verifier(rules)?)?;
        // A resumed TLS session would skip the client certificate, which may have expired or been
        // revoked.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            users: Some(Arc::new(users)),
        })
    }
}

fn config(
    chain: &Path,
    key: &Path,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, BadTls> {
    let private = private_key(key, &text_of(key)?)?;
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(chain)?, private)
        .map_err(|error| BadTls::of_pair(chain, key, error))
}

/// Returns a verifier that admits clients without a certificate, since they may authenticate in
/// other ways. If revocation lists are given, a certificate without revocation status, or with one
/// from an expired list, is rejected.
fn verifier(rules: ClientRules<'_>) -> Result<Arc<dyn ClientCertVerifier>, BadTls> {
    let path = rules.authorities;
    let mut roots = RootCertStore::empty();
    for authority in all_of(path, &read_unchanged(path)?, "certificate")? {
        roots
            .add(authority)
            .map_err(|error| BadTls::Pem(path.to_owned(), error.to_string()))?;
    }
    let provider = Arc::new(default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated();
    if let Some(path) = rules.revoked {
        let text = read_unchanged(path)?;
        let lists: Vec<CertificateRevocationListDer<'_>> =
            all_of(path, &text, "certificate revocation list")?;
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    builder
        .build()
        .map_err(|error| match (&error, rules.revoked) {
            (VerifierBuilderError::InvalidCrl(_), Some(revoked)) => {
                let what = format!("{error}; lists must follow RFC 5280 and have a number");
                BadTls::Pem(revoked.to_owned(), what)
            }
            _ => BadTls::Pem(rules.authorities.to_owned(), error.to_string()),
        })
}
