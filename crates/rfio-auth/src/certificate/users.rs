//! The file that maps certificates to users, with lines `user:CERTIFICATE`, and `#` for comments.
//!
//! `CERTIFICATE` is a subject such as `CN=Ann Example,O=Example`, or `sha256:` and the
//! certificate's fingerprint, or `DNS:` or `URI:` and one of its alternative names. A user may have
//! several lines, a certificate one; if several lines match, the first applies. A certificate
//! without a line maps to no user: no rule derives users from subjects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::client_certificate::{ClientCertificate, Fingerprint};
use super::name::Name;
use crate::files::{BadFile, read_unchanged, text_of};

/// Mapping of certificates to users.
#[derive(Debug, Default)]
pub struct CertificateUsers(HashMap<CertificateProperty, UserLine>);

/// The property of a certificate that a line names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CertificateProperty {
    Subject(Name),
    Fingerprint(Fingerprint),
    Host(String),
    Uri(String),
}

#[derive(Debug)]
struct UserLine {
    number: usize,
    user: String,
}

/// Why such a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BadCertificateUsers {
    /// It cannot be read, or other users can change it.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A line is invalid.
    #[error("{0}, line {1}: {2}")]
    UserLine(PathBuf, usize, String),
}

impl CertificateUsers {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, other users can change it, or a line is invalid.
    pub fn load(path: &Path) -> Result<Self, BadCertificateUsers> {
        let text = text_of(path, read_unchanged(path)?)?;
        Self::parse(&text)
            .map_err(|(line, what)| BadCertificateUsers::UserLine(path.to_owned(), line, what))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The number of the first invalid line, and a description of the error.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut users: HashMap<CertificateProperty, UserLine> = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            // Trailing spaces are kept: a name may end with a significant space.
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, property) = read(line).map_err(|what| (number, what))?;
            if let Some(earlier) = users.get(&property) {
                let what = format!("line {} already names this certificate", earlier.number);
                return Err((number, what));
            }
            users.insert(property, UserLine { number, user });
        }
        Ok(Self(users))
    }

    /// Returns the user that a certificate maps to.
    pub fn of(&self, shown: &ClientCertificate) -> Option<&str> {
        let subject = shown
            .subject
            .iter()
            .cloned()
            .map(CertificateProperty::Subject);
        let hosts = shown.hosts.iter().cloned().map(CertificateProperty::Host);
        let properties = subject
            .chain([CertificateProperty::Fingerprint(shown.fingerprint)])
            .chain(hosts)
            .chain(shown.uris.iter().cloned().map(CertificateProperty::Uri));
        let lines = properties.filter_map(|property| self.0.get(&property));
        let first = lines.min_by_key(|line| line.number)?;
        Some(&first.user)
    }
}

fn read(line: &str) -> Result<(String, CertificateProperty), String> {
    let expected = || "expected user:CERTIFICATE".to_owned();
    let (user, certificate) = line.split_once(':').ok_or_else(expected)?;
    let user = user.trim_end();
    if user.is_empty() {
        return Err(expected());
    }
    // A subject has an equals sign before any colon.
    let certificate = certificate.trim_start();
    let (kind, value) = certificate.split_once(':').unwrap_or_default();
    let value = value.trim();
    let property = match kind.to_ascii_lowercase().as_str() {
        "sha256" => CertificateProperty::Fingerprint(
            Fingerprint::parse(value)
                .ok_or("a fingerprint by SHA-256 has 64 hexadecimal digits")?,
        ),
        "dns" | "uri" if value.is_empty() => return Err(format!("nothing follows {kind}:")),
        "dns" => CertificateProperty::Host(value.to_ascii_lowercase()),
        "uri" => CertificateProperty::Uri(value.to_owned()),
        _ => CertificateProperty::Subject(certificate.parse().map_err(|bad| format!("{bad}"))?),
    };
    Ok((user.to_owned(), property))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;
    use verbena_rfio_common::scratch::Scratch;

    fn shown(subject: &str) -> ClientCertificate {
        ClientCertificate {
            subject: Some(subject.parse().unwrap()),
            fingerprint: Fingerprint::parse(&"07".repeat(32)).unwrap(),
            hosts: vec!["worker7.example.org".into()],
            uris: vec!["spiffe://example.org/robot".into()],
        }
    }

    #[test]
    fn every_kind_of_certificate_name_matches() {
        let fingerprint = ["07"; 32].join(":");
        for line in [
            "ann:CN=Ann,O=Example",
            " ann : cn=Ann, O=Example ",
            &format!("ann:sha256:{fingerprint}"),
            "ann:DNS:Worker7.example.org",
            "ann:URI:spiffe://example.org/robot",
        ] {
            let users = CertificateUsers::parse(&format!("# x\n\nbob:CN=Bob\n{line}\n")).unwrap();
            assert_eq!(users.of(&shown("CN=Ann,O=Example")), Some("ann"), "{line}");
        }
    }

    #[test]
    fn similar_subjects_do_not_match() {
        let users = CertificateUsers::parse(
            "ann:CN=Ann,O=Example\nann:DNS:worker\nann:URI:spiffe://example.org/\n\
             ann:DNS:*.example.org\n",
        )
        .unwrap();
        for subject in [
            "CN=Ann",
            "CN=ann,O=Example",
            "O=Example,CN=Ann",
            "CN=Ann,O=Example,C=CH",
            "CN=Ann\\,O=Example",
            "CN=Ann\\ ,O=Example",
        ] {
            assert_eq!(users.of(&shown(subject)), None, "{subject}");
        }
        let unnamed = ClientCertificate {
            subject: None,
            ..shown("CN=Ann")
        };
        assert_eq!(users.of(&unnamed), None);
    }

    #[test]
    fn the_first_matching_line_decides() {
        let fingerprint = "07".repeat(32);
        let text = format!("ann:sha256:{fingerprint}\nbob:CN=Ann\ncy:DNS:worker7.example.org\n");
        assert_eq!(
            CertificateUsers::parse(&text).unwrap().of(&shown("CN=Ann")),
            Some("ann")
        );
        let text: Vec<_> = text.lines().rev().collect();
        assert_eq!(
            CertificateUsers::parse(&text.join("\n"))
                .unwrap()
                .of(&shown("CN=Ann")),
            Some("cy")
        );
    }

    #[test]
    fn invalid_lines_are_named() {
        for (text, line, words) in [
            ("ann", 1, "expected user:CERTIFICATE"),
            ("# x\n:CN=Ann", 2, "expected user:CERTIFICATE"),
            ("ann:CN=Ann\nbob:", 2, "expected a name"),
            ("ann:Ann Example", 1, "ATTRIBUTE=VALUE"),
            ("ann:sha256:ab", 1, "64 hexadecimal digits"),
            ("ann:DNS:", 1, "nothing follows DNS:"),
            ("ann:XY=1", 1, "'XY' is not an attribute"),
            (
                "ann:CN=Ann\n\nbob:cn = Ann",
                3,
                "line 1 already names this certificate",
            ),
        ] {
            let (number, what) = CertificateUsers::parse(text).unwrap_err();
            assert_eq!(number, line, "{text}");
            assert!(what.contains(words), "{text}: {what}");
        }
    }

    #[test]
    fn a_file_writable_by_others_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path("users");
        std::fs::write(&path, "ann:CN=Ann\n").unwrap();
        for (mode, accepted) in [(0o644, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(CertificateUsers::load(&path).is_ok(), accepted, "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, "ann:CN=Ann\nbob\n").unwrap();
        let error = CertificateUsers::load(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("users, line 2: expected user:CERTIFICATE"),
            "{error}"
        );
    }

    proptest! {
        /// A certificate maps to a user by its formatted subject, and by no other line.
        #[test]
        fn a_subject_matches_its_own_text_form(name in super::super::name::tests::any_name(),
                                               other in super::super::name::tests::any_name()) {
            let users = CertificateUsers::parse(&format!("ann:{name}")).unwrap();
            let with = |name: &Name| ClientCertificate { subject: Some(name.clone()),
                ..shown("CN=x") };
            prop_assert_eq!(users.of(&with(&name)), Some("ann"));
            prop_assert_eq!(users.of(&with(&other)).is_some(), name == other);
        }
    }
}
