//! Reasons for the refusal of a certificate, as known to each side.
//!
//! In TLS 1.3 a client has finished its part of the handshake before the server verifies its
//! certificate, so a refusal reaches it as an alert in place of the first answer.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Returns the server's reason for rejecting a client's certificate, if the connection failed for
/// that.
pub fn rejection_reason(error: &io::Error) -> Option<String> {
    match tls_error(error)? {
        Error::InvalidCertificate(why) => Some(words(why)),
        _ => None,
    }
}

fn words(why: &CertificateError) -> String {
    use CertificateError as Why;
    let words = match why {
        Why::Expired | Why::ExpiredContext { .. } => "it has expired",
        Why::NotValidYet | Why::NotValidYetContext { .. } => "it is not valid yet",
        Why::Revoked => "it has been revoked",
        Why::UnknownIssuer => "no authority known here has signed it",
        Why::UnknownRevocationStatus => "no revocation list of its authority covers it",
        Why::ExpiredRevocationList | Why::ExpiredRevocationListContext { .. } => {
            "the revocation list of its authority is out of date"
        }
        Why::InvalidPurpose | Why::InvalidPurposeContext { .. } => "it is not for clients",
        other => return other.to_string(),
    };
    words.to_owned()
}

/// Returns the reason in the server's alert, if the server ended the connection because of the
/// client's certificate.
pub fn rejection_by_server(error: &io::Error) -> Option<&'static str> {
    let Error::AlertReceived(alert) = tls_error(error)? else {
        return None;
    };
    Some(match alert {
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::CertificateRevoked => "it has been revoked",
        AlertDescription::UnknownCA => {
            "no authority known to the server has signed it, or the server has no current \
             revocation list of that authority"
        }
        AlertDescription::UnsupportedCertificate => "it is not for clients",
        AlertDescription::BadCertificate => "the server cannot parse it",
        AlertDescription::DecryptError => {
            "its signature is invalid, or of a kind unknown to the server"
        }
        AlertDescription::CertificateRequired => "the server requires one, and none was sent",
        AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied
        | AlertDescription::NoCertificate => "the server gives no reason",
        _ => return None,
    })
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificate_refusals_give_a_reason() {
        let here = |error| rejection_reason(&io::Error::other(error));
        assert_eq!(
            here(Error::InvalidCertificate(CertificateError::Revoked)).as_deref(),
            Some("it has been revoked")
        );
        assert_eq!(here(Error::DecryptError), None);
        let there = |alert| rejection_by_server(&io::Error::other(Error::AlertReceived(alert)));
        assert_eq!(
            there(AlertDescription::CertificateRevoked),
            Some("it has been revoked")
        );
        assert_eq!(there(AlertDescription::HandshakeFailure), None);
        assert_eq!(rejection_by_server(&io::Error::other("x")), None);
        assert_eq!(rejection_by_server(&io::Error::from_raw_os_error(5)), None);
    }
}
