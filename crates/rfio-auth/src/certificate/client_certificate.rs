//! The properties of a certificate by which a line may name it.

use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::name::Name;
use super::name_parser::bytes_of;

/// The SHA-256 of a whole certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Parses hexadecimal digits, with colons or without.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|&one| one != ':').collect();
        bytes_of(&digits)?.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A valid certificate shown by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The subject; `None` if it is empty or cannot be read.
    pub subject: Option<Name>,
    /// The fingerprint of the whole certificate.
    pub fingerprint: Fingerprint,
    /// The DNS names, in lower case.
    pub hosts: Vec<String>,
    /// The URIs.
    pub uris: Vec<String>,
}

impl ClientCertificate {
    /// Reads a certificate.
    pub fn read(certificate: &CertificateDer<'_>) -> Self {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, certificate).as_ref());
        let mut shown = Self {
            subject: None,
            fingerprint: Fingerprint(fingerprint),
            hosts: Vec::new(),
            uris: Vec::new(),
        };
        if let Ok(read) = EndEntityCert::try_from(certificate) {
            shown.subject = Name::decode(read.subject()).filter(|name| !name.is_empty());
            let hosts = read.valid_dns_names();
            shown.hosts = hosts.map(str::to_ascii_lowercase).collect();
            shown.uris = read.valid_uri_names().map(str::to_owned).collect();
        }
        shown
    }
}

impl std::fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subject {
            Some(subject) => subject.fmt(f),
            None => write!(f, "sha256:{}", self.fingerprint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_in_openssls_format() {
        let digits = "ab".repeat(32);
        let colons = ["AB"; 32].join(":");
        let one = Fingerprint::parse(&digits).unwrap();
        assert_eq!(Fingerprint::parse(&format!(" {colons} ")), Some(one));
        assert_eq!(one.to_string(), digits);
        for bad in [
            "",
            "ab",
            &digits[1..],
            &format!("{digits}ab"),
            &digits.replace('a', "g"),
        ] {
            assert_eq!(Fingerprint::parse(bad), None, "{bad}");
        }
    }
}
