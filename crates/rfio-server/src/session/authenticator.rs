//! Authentication of a client: chooses the method and verifies the proof.

use std::sync::{Arc, RwLock};

use verbena_rfio_auth::proof::Handshake;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::ticket::Ticket;
use verbena_rfio_auth::token::Issuers;
use verbena_rfio_auth::{peer, tags::Tagger, ticket};
use verbena_rfio_common::random::random;
use verbena_rfio_protocol::handshake::{Methods, Purpose};
use verbena_rfio_protocol::reply::{Refusal, Welcome};
use verbena_rfio_protocol::request::{Hello, OpenFlags, Present, Prove, Redeem};
use verbena_rfio_protocol::status::Status;
use verbena_rfio_protocol::{IN_ORDER, NEWEST, common_version};

use super::confinement::Confinement;
use super::scopes::Scopes;
use super::tls_identity::TlsIdentity;
use crate::export::Access;
use crate::tickets::{TicketRefusal, Tickets};
use crate::user_counters::ANONYMOUS;

/// Which local users are accepted on the kernel's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalUserPolicy {
    /// The user that runs the service, and root.
    Own,
    /// These, in addition.
    Named(Vec<String>),
    /// All local users.
    All,
}

/// Decides which clients are admitted.
#[derive(Debug)]
pub struct Authenticator {
    secrets: RwLock<Arc<Secrets>>,
    /// Local users accepted on a Unix socket.
    pub local: LocalUserPolicy,
    /// Access of anonymous clients; `None` refuses them.
    pub anonymous: Option<Access>,
    /// Tickets that are accepted.
    pub tickets: Tickets,
    /// Accepted issuers of tokens.
    issuers: RwLock<Arc<Issuers>>,
    /// Secret used for unknown users, so that a client cannot tell them from known ones.
    decoy: [u8; 32],
}

/// Origin of a connection.
#[derive(Debug, Clone)]
pub enum ConnectionOrigin {
    /// The network.
    Remote(std::net::SocketAddr),
    /// This host, with the peer's user id.
    Local(u32),
}

impl std::fmt::Display for ConnectionOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(address) => write!(f, "{address}"),
            Self::Local(uid) => write!(f, "local uid {uid}"),
        }
    }
}

/// A welcome that was sent and awaits its answer.
#[derive(Debug)]
pub struct PendingWelcome {
    hello: Hello,
    version: u16,
    nonce: [u8; 32],
    method: u32,
    local_user: Option<String>,
    tls_identity: Option<TlsIdentity>,
}

/// An authenticated client.
#[derive(Debug)]
pub struct AuthenticatedClient {
    /// The user's name.
    pub user: String,
    /// Whether the name is anonymous, so that clients of different addresses are different users.
    pub is_nobody: bool,
    /// The permitted access of a client authenticated by a ticket.
    pub confinement: Option<Confinement>,
    /// The permitted access of a client authenticated by a token.
    pub scopes: Option<Scopes>,
    /// Maximum access of the user.
    pub rights: Access,
    /// The server's proof.
    pub proof: [u8; 32],
    /// Authentication tags on frames from and to the client, if the method provides keys.
    pub taggers: Option<(Tagger, Tagger)>,
    /// The negotiated protocol version.
    pub version: u16,
}

impl Authenticator {
    /// Replaces the secrets; established sessions continue.
    pub fn replace_secrets(&self, secrets: Secrets) {
        *self
            .secrets
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(secrets);
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(
            &self
                .secrets
                .read()
                .unwrap_or_else(|poison| poison.into_inner()),
        )
    }

    /// Returns an authenticator for these secrets that accepts no tickets.
    pub fn new(secrets: Secrets, local: LocalUserPolicy, anonymous: Option<Access>) -> Self {
        Self {
            secrets: RwLock::new(Arc::new(secrets)),
            local,
            anonymous,
            tickets: Tickets::none(),
            issuers: RwLock::default(),
            decoy: random(),
        }
    }

    /// Returns the authenticator with these tickets accepted.
    pub fn with_tickets(self, tickets: Tickets) -> Self {
        Self { tickets, ..self }
    }

    /// Replaces the accepted issuers; established sessions continue.
    pub fn replace_issuers(&self, issuers: Issuers) {
        *self
            .issuers
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(issuers);
    }

    fn issuers(&self) -> Arc<Issuers> {
        let issuers = self.issuers.read();
        Arc::clone(&issuers.unwrap_or_else(|poison| poison.into_inner()))
    }

    fn accepts_local_user(&self, uid: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        match &self.local {
            _ if uid == own || uid == 0 => true,
            LocalUserPolicy::Own => false,
            LocalUserPolicy::Named(names) => names.contains(&peer::name_of(uid)),
            LocalUserPolicy::All => true,
        }
    }

    /// Answers a client's hello and chooses the authentication method. `tls_identity` is the owner
    /// of the certificate shown under TLS. Tokens are accepted on encrypted channels only.
    ///
    /// # Errors
    /// Refuses if no version or no method is in common.
    pub fn welcome(
        &self,
        hello: Hello,
        origin: &ConnectionOrigin,
        tls_identity: Option<TlsIdentity>,
        is_encrypted: bool,
    ) -> Result<(Welcome, PendingWelcome), Refusal> {
        let Some(version) = common_version(hello.lowest, hello.highest) else {
            let spoken = format!(
                "the client supports versions {} to {}, the server {IN_ORDER} to {NEWEST}",
                hello.lowest, hello.highest
            );
            return Err(Refusal::new(Status::BAD_VERSION, spoken));
        };
        let offered = Methods(hello.methods);
        let local_user = match origin {
            ConnectionOrigin::Local(uid)
                if offered.has(Methods::PEER) && self.accepts_local_user(*uid) =>
            {
                Some(peer::name_of(*uid))
            }
            _ => None,
        };
        let is_somebodys = tls_identity
            .as_ref()
            .is_some_and(|tls_identity| tls_identity.user.is_some());
        let method = if local_user.is_some() {
            Methods::PEER
        } else if offered.has(Methods::TICKET) && self.tickets.are_accepted() {
            Methods::TICKET
        } else if offered.has(Methods::TOKEN) && is_encrypted && !self.issuers().is_empty() {
            Methods::TOKEN
        } else if offered.has(Methods::CERTIFICATE) && is_somebodys {
            Methods::CERTIFICATE
        } else if offered.has(Methods::SECRET) && !self.secrets().is_empty() {
            Methods::SECRET
        } else if offered.has(Methods::ANONYMOUS) && self.anonymous.is_some() {
            Methods::ANONYMOUS
        } else {
            let reason = no_method(offered, tls_identity.as_ref());
            return Err(Refusal::new(Status::errno(libc::EACCES), reason));
        };
        let nonce = random();
        let welcome = Welcome {
            version,
            method,
            nonce,
        };
        Ok((
            welcome,
            PendingWelcome {
                hello,
                version,
                nonce,
                method,
                local_user,
                tls_identity,
            },
        ))
    }

    /// Verifies a proof. `channel` is the channel's key, empty without TLS.
    ///
    /// # Errors
    /// Refuses an unknown user, a wrong proof, or a message that does not belong to the method.
    pub(crate) fn verify_proof(
        &self,
        pending: &PendingWelcome,
        prove: &Prove,
        channel: &[u8],
    ) -> Result<AuthenticatedClient, Refusal> {
        let denied = || {
            let wrong = "access denied: unknown user or wrong secret";
            // The owner of a certificate may not be aware that a secret was tried in its place.
            let reason = match &pending.tls_identity {
                Some(tls_identity) => format!("{wrong}, and {}", unknown_certificate(tls_identity)),
                None => wrong.into(),
            };
            Refusal::new(Status::errno(libc::EACCES), reason)
        };
        match pending.method {
            // The kernel supplied the credentials, or TLS verified the proof.
            Methods::PEER | Methods::CERTIFICATE => {
                let user = match pending.method {
                    Methods::PEER => pending.local_user.clone(),
                    _ => pending
                        .tls_identity
                        .as_ref()
                        .and_then(|one| one.user.clone()),
                };
                Ok(AuthenticatedClient {
                    user: user.ok_or_else(denied)?,
                    is_nobody: false,
                    confinement: None,
                    scopes: None,
                    rights: Access::ReadWrite,
                    proof: [0; 32],
                    taggers: None,
                    version: pending.version,
                })
            }
            Methods::ANONYMOUS => {
                let rights = self.anonymous.ok_or_else(denied)?;
                Ok(AuthenticatedClient {
                    user: ANONYMOUS.into(),
                    is_nobody: true,
                    confinement: None,
                    scopes: None,
                    rights,
                    proof: [0; 32],
                    taggers: None,
                    version: pending.version,
                })
            }
            Methods::SECRET => {
                let user = pending.hello.user.as_str();
                let secrets = self.secrets();
                let secret = secrets.of(user);
                let handshake = pending.handshake(secret.unwrap_or(&self.decoy), channel);
                if !handshake.verify(Purpose::Client, &prove.proof) || secret.is_none() {
                    return Err(denied());
                }
                Ok(AuthenticatedClient {
                    user: user.to_owned(),
                    is_nobody: false,
                    confinement: None,
                    scopes: None,
                    rights: Access::ReadWrite,
                    proof: handshake.proof(Purpose::Server),
                    taggers: taggers(&handshake),
                    version: pending.version,
                })
            }
            _ => Err(out_of_order("Prove")),
        }
    }

    /// Verifies a ticket. A ticket that admits its bearer is consumed.
    ///
    /// # Errors
    /// Refuses a ticket that is forged, untimely or used up, of an unknown issuer, or for no
    /// access.
    pub fn redeem(
        &self,
        pending: &PendingWelcome,
        redeem: &Redeem,
        channel: &[u8],
    ) -> Result<AuthenticatedClient, Refusal> {
        if pending.method != Methods::TICKET {
            return Err(out_of_order("Redeem"));
        }
        let claims = &redeem.claims;
        let secrets = self.tickets.issuers();
        let secret = secrets.of(claims.issuer.as_str());
        let ticket = Ticket::sign(secret.unwrap_or(&self.decoy), claims.clone());
        let handshake = pending.handshake(&ticket.key, channel);
        if !handshake.verify(Purpose::Client, &redeem.proof) || secret.is_none() {
            let reason = "access denied: the ticket's issuer is unknown, or the ticket was changed";
            return Err(Refusal::new(Status::errno(libc::EACCES), reason));
        }
        if !claims.has_an_access() {
            let reason = "the ticket allows neither reading nor writing";
            return Err(Refusal::new(Status::errno(libc::EINVAL), reason));
        }
        self.tickets
            .redeem(claims, ticket::now())
            .map_err(|untimely| Refusal::new(status_of(&untimely), untimely.to_string()))?;
        let rights = match claims.access & OpenFlags::WRITE {
            0 => Access::ReadOnly,
            _ => Access::ReadWrite,
        };
        let (user, issuer) = (claims.user.as_str(), claims.issuer.as_str());
        Ok(AuthenticatedClient {
            user: match user {
                "" => format!("{ANONYMOUS}@{issuer}"),
                user => format!("{user}@{issuer}"),
            },
            is_nobody: user.is_empty(),
            confinement: Some(Confinement::new(claims)),
            scopes: None,
            rights,
            proof: handshake.proof(Purpose::Server),
            taggers: taggers(&handshake),
            version: pending.version,
        })
    }
}

impl Authenticator {
    /// Verifies a token.
    ///
    /// # Errors
    /// Refuses a token that the issuers' rules reject.
    pub fn present(
        &self,
        pending: &PendingWelcome,
        present: &Present,
    ) -> Result<AuthenticatedClient, Refusal> {
        if pending.method != Methods::TOKEN {
            return Err(out_of_order("Present"));
        }
        let verified = self.issuers().verify_token(present.token.as_slice());
        let token = verified.map_err(|bad| {
            let reason = format!("access denied: invalid token: {bad}");
            Refusal::new(Status::errno(libc::EACCES), reason)
        })?;
        let scopes = Scopes::new(token);
        Ok(AuthenticatedClient {
            user: scopes.user().to_owned(),
            is_nobody: false,
            confinement: None,
            rights: match scopes.may_change() {
                true => Access::ReadWrite,
                false => Access::ReadOnly,
            },
            scopes: Some(scopes),
            proof: [0; 32],
            taggers: None,
            version: pending.version,
        })
    }
}

/// Explains why none of the client's methods is available.
fn no_method(offered: Methods, tls_identity: Option<&TlsIdentity>) -> String {
    let none = "the server accepts none of the client's credentials";
    match tls_identity {
        _ if offered.has(Methods::TICKET) => "this server accepts no tickets".into(),
        Some(tls_identity) => format!("access denied: {}", unknown_certificate(tls_identity)),
        None if offered.has(Methods::CERTIFICATE) => {
            format!("{none}: it requests no certificate, or the client sent none")
        }
        None => none.into(),
    }
}

fn unknown_certificate(tls_identity: &TlsIdentity) -> String {
    format!(
        "no user is mapped to the certificate of {}",
        tls_identity.certificate
    )
}

/// Returns taggers for the frames of both directions if TLS does not protect them.
fn taggers(handshake: &Handshake<'_>) -> Option<(Tagger, Tagger)> {
    handshake.channel.is_empty().then(|| {
        (
            handshake.tagger(Purpose::ClientFrames),
            handshake.tagger(Purpose::ServerFrames),
        )
    })
}

fn out_of_order(what: &str) -> Refusal {
    let reason = format!("{what} does not match the selected authentication method");
    Refusal::new(Status::errno(libc::EPROTO), reason)
}

/// Maps to EAGAIN if another ticket may be accepted, else to EACCES.
fn status_of(untimely: &TicketRefusal) -> Status {
    match untimely {
        TicketRefusal::BeforeTheStart | TicketRefusal::Crowd(_) => Status::errno(libc::EAGAIN),
        _ => Status::errno(libc::EACCES),
    }
}

impl PendingWelcome {
    fn handshake<'a>(&'a self, secret: &'a [u8], channel: &'a [u8]) -> Handshake<'a> {
        Handshake {
            secret,
            hello: &self.hello,
            server_nonce: &self.nonce,
            version: self.version,
            channel,
        }
    }
}

#[cfg(test)]
mod tests {
    use verbena_rfio_auth::certificate::{ClientCertificate, Fingerprint};
    use verbena_rfio_protocol::types::Text;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn authenticator(anonymous: Option<Access>) -> Authenticator {
        let secrets = Secrets::parse(&format!("ann:{SECRET}")).unwrap();
        Authenticator::new(secrets, LocalUserPolicy::Own, anonymous)
    }

    fn hello(user: &str, methods: u32) -> Hello {
        Hello {
            lowest: 1,
            highest: 9,
            methods,
            user: Text::new(user),
            nonce: [7; 32],
        }
    }

    fn remote() -> ConnectionOrigin {
        ConnectionOrigin::Remote("192.0.2.1:9".parse().unwrap())
    }

    fn prove(pending: &PendingWelcome, secret: &str) -> Prove {
        let (hello, server_nonce) = (&pending.hello, &pending.nonce);
        let handshake = Handshake {
            secret: secret.as_bytes(),
            hello,
            server_nonce,
            version: pending.version,
            channel: b"",
        };
        Prove {
            proof: handshake.proof(Purpose::Client),
        }
    }

    #[test]
    fn a_user_name_without_its_secret_is_refused() {
        let authenticator = authenticator(None);
        for (user, secret, accepted) in [
            ("ann", SECRET, true),
            ("ann", "fedcba9876543210", false),
            ("root", SECRET, false),
            ("", "", false),
        ] {
            let (_, pending) = authenticator
                .welcome(hello(user, Methods::SECRET), &remote(), None, false)
                .unwrap();
            let verdict = authenticator.verify_proof(&pending, &prove(&pending, secret), b"");
            assert_eq!(verdict.is_ok(), accepted, "{user}");
        }
    }

    #[test]
    fn a_proof_does_not_fit_another_handshake() {
        let authenticator = authenticator(None);
        let (_, first) = authenticator
            .welcome(hello("ann", Methods::SECRET), &remote(), None, false)
            .unwrap();
        let (_, second) = authenticator
            .welcome(hello("ann", Methods::SECRET), &remote(), None, false)
            .unwrap();
        assert!(
            authenticator
                .verify_proof(&second, &prove(&first, SECRET), b"")
                .is_err()
        );
    }

    #[test]
    fn remote_clients_cannot_use_peer_credentials() {
        let everything = Methods::PEER | Methods::ANONYMOUS;
        assert!(
            authenticator(None)
                .welcome(hello("root", everything), &remote(), None, false)
                .is_err()
        );
        let open = authenticator(Some(Access::ReadOnly));
        let (welcome, pending) = open
            .welcome(hello("root", everything), &remote(), None, false)
            .unwrap();
        assert_eq!(welcome.method, Methods::ANONYMOUS);
        let known = open
            .verify_proof(&pending, &Prove { proof: [0; 32] }, b"")
            .unwrap();
        assert_eq!(
            (known.user.as_str(), known.rights),
            ("anonymous", Access::ReadOnly)
        );
    }

    #[test]
    fn a_local_user_is_identified_by_the_kernel() {
        let own = rustix::process::geteuid().as_raw();
        let authenticator = authenticator(None);
        let (welcome, pending) = authenticator
            .welcome(
                hello("somebody", Methods::PEER),
                &ConnectionOrigin::Local(own),
                None,
                false,
            )
            .unwrap();
        assert_eq!(welcome.method, Methods::PEER);
        let known = authenticator
            .verify_proof(&pending, &Prove { proof: [0; 32] }, b"")
            .unwrap();
        assert_eq!(known.user, peer::own_name());
        assert!(
            authenticator
                .welcome(
                    hello("x", Methods::PEER),
                    &ConnectionOrigin::Local(4_000_000),
                    None,
                    false
                )
                .is_err()
        );
    }

    #[test]
    fn a_common_version_is_required() {
        let mut old = hello("ann", Methods::SECRET);
        old.highest = 1;
        let refusal = authenticator(None)
            .welcome(old, &remote(), None, false)
            .unwrap_err();
        assert_eq!(refusal.status, Status::BAD_VERSION);
    }

    /// An attacker that downgrades both peers to an older version is detected.
    #[test]
    fn the_proof_covers_the_version() {
        let authenticator = authenticator(None);
        let (welcome, pending) = authenticator
            .welcome(hello("ann", Methods::SECRET), &remote(), None, false)
            .unwrap();
        assert_eq!(welcome.version, NEWEST);
        let known = authenticator
            .verify_proof(&pending, &prove(&pending, SECRET), b"")
            .unwrap();
        assert_eq!(known.version, NEWEST);
        let proof = prove(&pending, SECRET);
        let deceived = PendingWelcome {
            version: IN_ORDER,
            ..pending
        };
        assert!(authenticator.verify_proof(&deceived, &proof, b"").is_err());
    }

    fn tls_identity(user: Option<&str>) -> Option<TlsIdentity> {
        let certificate = ClientCertificate {
            subject: Some("CN=Ann,O=Example".parse().unwrap()),
            fingerprint: Fingerprint::parse(&"07".repeat(32)).unwrap(),
            hosts: Vec::new(),
            uris: Vec::new(),
        };
        Some(TlsIdentity {
            certificate,
            user: user.map(str::to_owned),
        })
    }

    /// The method depends on the support of both peers, in an order that no client can change.
    #[test]
    fn a_mapped_certificate_takes_precedence_over_a_secret() {
        let (secret, certificate) = (Methods::SECRET, Methods::CERTIFICATE);
        for (offered, tls_identity, chosen) in [
            (
                secret | certificate,
                tls_identity(Some("ann")),
                Some(certificate),
            ),
            (secret | certificate, tls_identity(None), Some(secret)),
            (secret | certificate, None, Some(secret)),
            (secret, tls_identity(Some("ann")), Some(secret)),
            (certificate, tls_identity(Some("ann")), Some(certificate)),
            (certificate, tls_identity(None), None),
            (certificate, None, None),
        ] {
            let greeted =
                authenticator(None).welcome(hello("x", offered), &remote(), tls_identity, false);
            let method = greeted.ok().map(|(welcome, _)| welcome.method);
            assert_eq!(method, chosen, "{offered}");
        }
    }

    #[test]
    fn a_certificate_user_is_identified_by_the_file() {
        let authenticator = authenticator(None);
        let hello = hello("root", Methods::CERTIFICATE);
        let (_, pending) = authenticator
            .welcome(hello, &remote(), tls_identity(Some("ann")), false)
            .unwrap();
        let known = authenticator
            .verify_proof(&pending, &Prove { proof: [0; 32] }, b"key")
            .unwrap();
        assert_eq!((known.user.as_str(), known.is_nobody), ("ann", false));
        // Without a user in the file the certificate is refused, whichever way this state was
        // reached.
        let nobodys = PendingWelcome {
            tls_identity: tls_identity(None),
            ..pending
        };
        let proof = Prove { proof: [0; 32] };
        assert!(
            authenticator
                .verify_proof(&nobodys, &proof, b"key")
                .is_err()
        );
    }

    #[test]
    fn an_unmapped_certificate_is_named_in_the_refusal() {
        let secrets = authenticator(None);
        for offered in [Methods::CERTIFICATE, Methods::CERTIFICATE | Methods::SECRET] {
            let greeted =
                secrets.welcome(hello("ann", offered), &remote(), tls_identity(None), false);
            let refusal = match greeted {
                Err(refusal) => refusal,
                Ok((_, pending)) => secrets
                    .verify_proof(&pending, &prove(&pending, "fedcba9876543210"), b"")
                    .unwrap_err(),
            };
            let reason = refusal.reason.as_str();
            assert!(
                reason.ends_with("no user is mapped to the certificate of CN=Ann,O=Example"),
                "{reason}"
            );
        }
    }
}
