//! Client certificates under TLS, and their mapping to users.
//!
//! This module does not verify certificates: the TLS handshake does ([`super::tls`]), and only
//! valid ones are passed to it.

mod der;
mod kind;
mod name;
mod public_key;
mod shown;
mod users;
mod written;

pub use name::Name;
pub use public_key::PublicKey;
pub use shown::{Fingerprint, Shown};
pub use users::{BadUsers, Users};
pub use written::BadName;
