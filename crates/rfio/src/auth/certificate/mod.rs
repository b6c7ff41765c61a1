//! Certificates that clients show under TLS, and whose they are.
//!
//! What is here decides nothing about a certificate's validity: that is done when TLS begins ([`super::tls`]), and only what
//! has passed there comes here.

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
