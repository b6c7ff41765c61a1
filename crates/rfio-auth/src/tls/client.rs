//! TLS of the client: its trusted certificates, and its own certificate.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

use super::{BadTls, certificates, private_key};
use crate::files::read_private;

/// A client's files, all PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Trusted certificates. Without them there is no TLS.
    pub trusted: Option<PathBuf>,
    /// The client's certificate, with its chain to an authority.
    pub certificate: Option<PathBuf>,
    /// The key of the client's certificate.
    pub key: Option<PathBuf>,
}

impl ClientFiles {
    /// Reads `RFIO_TLS_CA`, `RFIO_TLS_CERTIFICATE` and `RFIO_TLS_KEY`.
    pub fn from_environment() -> Self {
        let variable = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        Self {
            trusted: variable("RFIO_TLS_CA"),
            certificate: variable("RFIO_TLS_CERTIFICATE"),
            key: variable("RFIO_TLS_KEY"),
        }
    }

    /// Fills in missing files from `others`. Certificate and key are taken from the same source.
    pub fn or(self, others: Self) -> Self {
        let trusted = self.trusted.or(others.trusted);
        let (certificate, key) = match (self.certificate, self.key) {
            (None, None) => (others.certificate, others.key),
            own => own,
        };
        Self {
            trusted,
            certificate,
            key,
        }
    }

    /// Returns the TLS configuration, or `None` if TLS is not wanted.
    ///
    /// # Errors
    /// A file cannot be read or is invalid, one of certificate and key is missing, or trusted
    /// certificates are missing.
    pub fn configuration(&self) -> Result<Option<Arc<ClientConfig>>, BadTls> {
        let own = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(BadTls::Half),
        };
        let trusted = match (&self.trusted, own) {
            (Some(trusted), _) => trusted,
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(BadTls::Untrusting),
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(trusted)? {
            roots.add(certificate)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let private = private_key(key, &read_private(key)?)?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| BadTls::of_pair(certificate, key, error))?
            }
        };
        Ok(Some(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: [&str; 3]) -> ClientFiles {
        let path = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
        ClientFiles {
            trusted: path(names[0]),
            certificate: path(names[1]),
            key: path(names[2]),
        }
    }

    #[test]
    fn options_take_precedence_and_certificate_and_key_stay_paired() {
        for (typed, environment, taken) in [
            (["", "", ""], ["a", "b", "c"], ["a", "b", "c"]),
            (["x", "", ""], ["a", "b", "c"], ["x", "b", "c"]),
            (["", "y", "z"], ["a", "b", "c"], ["a", "y", "z"]),
            (["", "y", ""], ["a", "b", "c"], ["a", "y", ""]),
        ] {
            assert_eq!(files(typed).or(files(environment)), files(taken));
        }
    }

    #[test]
    fn a_certificate_needs_its_key_and_tls() {
        assert!(files(["", "", ""]).configuration().unwrap().is_none());
        for half in [["a", "b", ""], ["a", "", "c"], ["", "b", ""]] {
            let made = files(half).configuration();
            assert!(matches!(made, Err(BadTls::Half)), "{half:?}");
        }
        let made = files(["", "b", "c"]).configuration();
        assert!(matches!(made, Err(BadTls::Untrusting)));
    }
}
