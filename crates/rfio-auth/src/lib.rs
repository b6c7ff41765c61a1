//! Authentication of the file service: shared secrets, certificates, tickets, tokens, tags on
//! frames, TLS, and kernel credentials on one host.

pub mod certificate;
pub mod compare;
pub mod files;
pub mod peer;
pub mod proof;
pub mod secrets;
pub mod tags;
pub mod ticket;
pub mod tls;
pub mod token;
