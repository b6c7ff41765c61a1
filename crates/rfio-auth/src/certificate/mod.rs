//! Client certificates under TLS, and their mapping to users.
//!
//! This module does not verify certificates: the TLS handshake does ([`super::tls`]), and only
//! valid ones are passed to it.

mod attribute_type;
mod client_certificate;
mod der;
mod name;
mod name_parser;
mod public_key;
mod users;

pub use client_certificate::{ClientCertificate, Fingerprint};
pub use name::Name;
pub use name_parser::BadName;
pub use public_key::PublicKey;
pub use users::{BadCertificateUsers, CertificateUsers};
