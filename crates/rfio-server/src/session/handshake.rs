//! The handshake: the part of a connection before its session is established.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use verbena_rfio_protocol::reply::{Accepted, Refusal};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{Reply, Request, Status};

use super::authenticator::{AuthenticatedClient, ConnectionOrigin};
use super::channel::Channel;
use super::connection::{AcceptedRequest, Connection, Context, NextStep, Stage};
use super::input::NoFrame;
use super::scheduler::MOST_REQUESTS;
use super::serving::EstablishedSession;
use crate::addresses::AddressRefusal;
use crate::caps::Resource;
use crate::engine::{Answer, Engine};
use crate::export::Access;
use crate::metrics::count;
use crate::quota::Share;
use crate::rights::Subject;
use crate::sessions::SessionEntry;

/// How long an authenticated client waits for a free session.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(3);

impl Connection {
    /// Answers a hello or a proof. After a refusal the connection ends.
    pub(super) fn handle_handshake(
        &mut self,
        context: &Context,
        accepted: AcceptedRequest,
        request: Request,
    ) -> Result<(), NoFrame> {
        let channel = self
            .channel
            .as_ref()
            .expect("a connection has its channel between steps");
        let outcome = match (std::mem::replace(&mut self.stage, Stage::Ending), request) {
            (Stage::Handshake, Request::Hello(hello)) => {
                self.client.user = format!("claimed:{}", hello.user.as_str());
                let (tls_identity, is_encrypted) = (channel.tls_identity(), channel.is_encrypted());
                let service = &context.service;
                let arrived = service
                    .refuse_if_stopping()
                    .and_then(|()| self.count_address(context));
                let greeted = arrived.and_then(|()| {
                    let authenticator = &context.authenticator;
                    let greeted =
                        authenticator.welcome(hello, &self.origin, tls_identity, is_encrypted);
                    greeted.inspect_err(|refusal| {
                        // A version mismatch is not an authentication failure.
                        if refusal.status == Status::errno(libc::EACCES) {
                            self.note_refusal(context, refusal);
                        }
                    })
                });
                greeted.map(|(welcome, pending)| {
                    self.stage = Stage::Proving(pending);
                    Reply::Welcome(welcome)
                })
            }
            (Stage::Proving(pending), Request::Prove(prove)) => {
                let key = channel.key().map_err(NoFrame::Broken)?;
                let known = context.authenticator.verify_proof(&pending, &prove, &key);
                return self.admit(context, accepted, known);
            }
            (Stage::Proving(pending), Request::Redeem(redeem)) => {
                let key = channel.key().map_err(NoFrame::Broken)?;
                let issuer = redeem.claims.issuer.as_str();
                self.client.user = format!("claimed:{}@{issuer}", redeem.claims.user.as_str());
                let known = context.authenticator.redeem(&pending, &redeem, &key);
                let metrics = &context.service.metrics;
                let counter = match &known {
                    Ok(_) => &metrics.tickets_redeemed,
                    Err(_) => &metrics.tickets_refused,
                };
                count(counter, 1);
                return self.admit(context, accepted, known);
            }
            (Stage::Proving(pending), Request::Present(present)) => {
                self.client.user = "claimed:by a token".into();
                let known = context.authenticator.present(&pending, &present);
                let metrics = &context.service.metrics;
                let counter = match &known {
                    Ok(_) => &metrics.tokens_accepted,
                    Err(_) => &metrics.tokens_refused,
                };
                count(counter, 1);
                return self.admit(context, accepted, known);
            }
            (_, other) => {
                return Err(NoFrame::Violation(format!(
                    "{} is invalid during the handshake",
                    other.name()
                )));
            }
        };
        self.reply(context, accepted, outcome);
        Ok(())
    }

    /// Counts a session of this address, or refuses it if the address has reached its limit.
    fn count_address(&mut self, context: &Context) -> Result<(), Refusal> {
        let ConnectionOrigin::Remote(address) = self.origin else {
            return Ok(());
        };
        let service = &context.service;
        let entered = service.addresses.enter(address, Instant::now());
        self.address_share = Some(entered.map_err(|unwelcome| {
            count(&service.metrics.unwelcome, 1);
            let reason = unwelcome.to_string();
            let details = json!({ "reason": reason });
            service
                .audit
                .record(&self.client, "address refused", details);
            let errno = match unwelcome {
                AddressRefusal::Refused(_) => libc::EACCES,
                _ => libc::EBUSY,
            };
            Refusal::new(Status::errno(errno), reason)
        })?);
        Ok(())
    }

    /// Makes an authenticated client wait for a free session, or answers with the refusal.
    fn admit(
        &mut self,
        context: &Context,
        accepted: AcceptedRequest,
        known: Result<AuthenticatedClient, Refusal>,
    ) -> Result<(), NoFrame> {
        let known = known.and_then(|known| {
            refuse_banned(context, &known)?;
            Ok(known)
        });
        match known {
            Ok(known) => self.stage = Stage::Waiting(Box::new(known), accepted, Instant::now()),
            Err(refusal) => {
                self.note_refusal(context, &refusal);
                self.reply(context, accepted, Err(refusal));
            }
        }
        Ok(())
    }

    /// Counts a refused client and logs the reason.
    pub(super) fn note_refusal(&self, context: &Context, refusal: &Refusal) {
        let service = &context.service;
        count(&service.metrics.authentication_failures, 1);
        let details = json!({"status": refusal.status.0, "reason": refusal.reason.as_str()});
        let details = self.with_certificate(details);
        service
            .audit
            .record(&self.client, "authentication refused", details);
    }

    /// Returns details for the audit log with the client's certificate, if it has shown one.
    fn with_certificate(&self, mut details: Value) -> Value {
        let tls_identity = self.channel.as_ref().and_then(Channel::tls_identity);
        if let (Value::Object(details), Some(Value::Object(more))) = (
            &mut details,
            tls_identity.map(|tls_identity| tls_identity.details()),
        ) {
            details.extend(more);
        }
        details
    }

    /// Answers a hello or a proof. The reply to the proof has no tag: the client verifies the
    /// server's proof in it.
    fn reply(
        &mut self,
        context: &Context,
        accepted: AcceptedRequest,
        outcome: Result<Reply, Refusal>,
    ) {
        let tags = self.outgoing_tags.take();
        self.send(
            context,
            accepted,
            Answer {
                outcome,
                data: Vec::new(),
            },
            None,
        );
        self.outgoing_tags = tags;
    }

    /// Admits an authenticated client as soon as a session is free. Idle sessions are ended for
    /// it; if there is none, the client is refused after [`ADMISSION_TIMEOUT`].
    pub(super) fn wait_for_admission(
        &mut self,
        context: &Context,
        now: Instant,
    ) -> Option<NextStep> {
        let service = &context.service;
        let Stage::Waiting(known, accepted, since) =
            std::mem::replace(&mut self.stage, Stage::Ending)
        else {
            unreachable!("looked at by the caller")
        };
        let charged_user = self.charged_user_of(&known);
        let share = service.quotas.take(&charged_user, Resource::Session);
        let outcome = match (service.refuse_if_stopping(), share) {
            (Err(refusal), _) => Err(refusal),
            (Ok(()), Ok(share)) => self.enter(context, *known, charged_user, share),
            (Ok(()), Err(exhausted)) if now.duration_since(since) < ADMISSION_TIMEOUT => {
                service
                    .admission_queue
                    .ask(self.client.session, &charged_user, exhausted);
                self.stage = Stage::Waiting(known, accepted, since);
                return Some(NextStep::Starved);
            }
            (Ok(()), Err(exhausted)) => {
                count(&service.metrics.caps, 1);
                let reason = format!("sessions: {exhausted}");
                Err(Refusal::new(Status::errno(libc::EBUSY), reason))
            }
        };
        service.admission_queue.withdraw(self.client.session);
        self.reply(context, accepted, outcome);
        None
    }

    /// Returns the user whose quota a session counts against. Anonymous sessions of one address
    /// share the quota of one user.
    fn charged_user_of(&self, known: &AuthenticatedClient) -> String {
        match &self.origin {
            ConnectionOrigin::Remote(address) if known.is_nobody => {
                format!("{}@{}", known.user, address.ip())
            }
            _ => known.user.clone(),
        }
    }

    /// Opens the session of an authenticated user, unless the user is banned.
    fn enter(
        &mut self,
        context: &Context,
        known: AuthenticatedClient,
        charged_user: String,
        share: Share,
    ) -> Result<Reply, Refusal> {
        let entry = context
            .service
            .open_sessions
            .begin(&self.client, &known.user);
        refuse_banned(context, &known)
            .inspect_err(|refusal| self.note_refusal(context, refusal))?;
        Ok(self.accept(context, known, charged_user, share, entry))
    }

    fn accept(
        &mut self,
        context: &Context,
        known: AuthenticatedClient,
        charged_user: String,
        share: Share,
        entry: SessionEntry,
    ) -> Reply {
        let service = &context.service;
        self.account = service.buffers.account(&charged_user);
        self.client.user = charged_user;
        count(&service.metrics.sessions, 1);
        let reply = match (&known.confinement, &known.scopes) {
            (Some(_), _) => Reply::Redeemed,
            (None, Some(_)) => Reply::Presented,
            (None, None) => Reply::Accepted,
        };
        let details = match (&known.confinement, &known.scopes) {
            (Some(confinement), _) => json!({ "ticket": confinement.path().to_string() }),
            (None, Some(scopes)) => scopes.details(),
            (None, None) => json!({}),
        };
        let details = self.with_certificate(details);
        service.audit.record(&self.client, "session", details);
        if let Some((incoming, outgoing)) = known.taggers {
            self.incoming_tags = Some(incoming);
            self.outgoing_tags = Some(outgoing);
        }
        let accepted = Accepted {
            proof: known.proof,
            user: Text::new(known.user.clone()),
            most_payload: service.limits.payload as u32,
            most_ranges: service.limits.ranges as u32,
            block: service.limits.block as u32,
            most_requests: MOST_REQUESTS,
            fabric: service.fabric.is_some(),
            writable: known.rights == Access::ReadWrite && service.exports.any_writable(),
        };
        let groups = known.scopes.as_ref().map(|scopes| scopes.groups().to_vec());
        let subject = Subject {
            user: known.user,
            groups: groups.unwrap_or_default(),
        };
        let engine = Engine::new(Arc::clone(service), self.client.clone(), subject);
        self.stage = Stage::Established(Box::new(EstablishedSession::new(
            engine,
            known.rights,
            known.confinement,
            known.scopes,
            share,
            known.version,
            entry,
        )));
        reply(accepted)
    }
}

/// Fails for a banned user.
fn refuse_banned(context: &Context, known: &AuthenticatedClient) -> Result<(), Refusal> {
    match context.service.is_banned(&known.user) {
        false => Ok(()),
        true => {
            let reason = "access denied: this user is banned";
            Err(Refusal::new(Status::errno(libc::EACCES), reason))
        }
    }
}
