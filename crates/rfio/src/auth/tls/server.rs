//! A server's side: what it shows, and whose certificates it takes.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::{BadTls, all_of, certificates, private_key, text_of};
use crate::auth::certificate::Users;
use crate::auth::files::read_unchanged;

/// What is needed to begin TLS with a client. Who is let in by a certificate is one thing with whose certificates are valid: a
/// connection is judged by what was in force when it began, whatever is read again meanwhile.
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) config: Arc<ServerConfig>,
    /// Whose certificates are whose, if any are asked for.
    pub(crate) users: Option<Arc<Users>>,
}

/// The files that decide which certificates of clients are taken. Whoever can change one of them can let himself in.
#[derive(Debug, Clone, Copy)]
pub struct ClientRules<'a> {
    /// Authorities, PEM.
    pub authorities: &'a Path,
    /// What these have revoked, PEM.
    pub revoked: Option<&'a Path>,
    /// Whose they are.
    pub users: &'a Path,
}

impl Server {
    /// A server with this certificate chain and key, in PEM, that asks for no certificate.
    pub fn new(chain: &Path, key: &Path) -> Result<Self, BadTls> {
        Ok(Self {
            config: Arc::new(config(chain, key, WebPkiClientVerifier::no_client_auth())?),
            users: None,
        })
    }

    /// The same, but clients may show certificates.
    pub fn asking(chain: &Path, key: &Path, rules: ClientRules<'_>) -> Result<Self, BadTls> {
        let users = Users::load(rules.users)?;
        let mut config = config(chain, key, verifier(rules)?)?;
        // A session that is taken up again is not asked for its certificate again, which may have expired or be revoked.
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

/// Lets clients without a certificate through, who have other ways to say who they are. What says nothing of a certificate's
/// revocation where lists are given, or only did so in the past, is no reason to take it.
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
            all_of(path, &text, "list of revoked certificates")?;
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    builder
        .build()
        .map_err(|error| match (&error, rules.revoked) {
            (VerifierBuilderError::InvalidCrl(_), Some(revoked)) => {
                let what =
                    format!("{error}; lists are understood as RFC 5280 has them, with a number");
                BadTls::Pem(revoked.to_owned(), what)
            }
            _ => BadTls::Pem(rules.authorities.to_owned(), error.to_string()),
        })
}
