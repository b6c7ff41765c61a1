//! The part of a conversation before the session stands: greeting and proof.

use std::sync::Arc;

use serde_json::json;
use verbena_rfio_protocol::reply::{Accepted, Refusal};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{Header, Reply, Request, Status};

use super::conversation::{Context, Conversation, Stage};
use super::greeting::Known;
use super::input::NoFrame;
use super::serving::Standing;
use crate::server::engine::{Answer, Engine};
use crate::server::export::Access;
use crate::server::metrics::count;
use crate::server::quota::{Exhausted, Resource};

/// Requests that a client may send before it reads a reply.
const MOST_REQUESTS: u32 = 64;

impl Conversation {
    /// Answers a greeting or a proof. After a refusal the connection ends.
    pub(super) fn greet(
        &mut self,
        context: &Context,
        header: Header,
        request: Request,
    ) -> Result<(), NoFrame> {
        let channel = self
            .channel
            .as_ref()
            .expect("a conversation has its channel between steps");
        let outcome = match (std::mem::replace(&mut self.stage, Stage::Ending), request) {
            (Stage::Greeting, Request::Hello(hello)) => {
                self.who.user = format!("claimed:{}", hello.user.as_str());
                context
                    .authenticator
                    .welcome(hello, &self.origin)
                    .map(|(welcome, pending)| {
                        self.stage = Stage::Proving(pending);
                        Reply::Welcome(welcome)
                    })
            }
            (Stage::Proving(pending), Request::Prove(prove)) => {
                let key = channel.key().map_err(NoFrame::Broken)?;
                let known = context.authenticator.judge(&pending, &prove, &key);
                if let Err(refusal) = &known {
                    count(&context.service.metrics.authentication_failures, 1);
                    let details = json!({"status": refusal.status.0});
                    context
                        .service
                        .audit
                        .record(&self.who, "authentication refused", details);
                }
                known.and_then(|known| self.accept(context, known))
            }
            (_, other) => {
                return Err(NoFrame::Violation(format!(
                    "{} is out of place in the greeting",
                    other.name()
                )));
            }
        };
        // The reply to the proof is not tagged: its own proof is what the client checks.
        let tags = self.outgoing_tags.take();
        self.send(
            context,
            header,
            Answer {
                outcome,
                data: Vec::new(),
            },
            None,
        );
        self.outgoing_tags = tags;
        Ok(())
    }

    fn accept(&mut self, context: &Context, known: Known) -> Result<Reply, Refusal> {
        let service = &context.service;
        let busy = |exhausted: Exhausted| {
            count(&service.metrics.caps, 1);
            Refusal::new(Status::errno(libc::EBUSY), format!("sessions: {exhausted}"))
        };
        let share = service
            .quotas
            .take(&known.user, Resource::Session)
            .map_err(busy)?;
        self.who.user = known.user.clone();
        self.account = service.buffers.account(&known.user);
        count(&service.metrics.sessions, 1);
        service.audit.record(&self.who, "session", json!({}));
        if let Some((incoming, outgoing)) = known.taggers {
            self.incoming_tags = Some(incoming);
            self.outgoing_tags = Some(outgoing);
        }
        let accepted = Accepted {
            proof: known.proof,
            user: Text::new(known.user),
            most_payload: service.limits.payload as u32,
            most_ranges: service.limits.ranges as u32,
            block: service.limits.block as u32,
            most_requests: MOST_REQUESTS,
            fabric: service.fabric.is_some(),
            writable: known.rights == Access::ReadWrite && service.exports.any_writable(),
        };
        let engine = Engine::new(Arc::clone(service), self.who.clone());
        self.stage = Stage::Standing(Box::new(Standing::new(engine, known.rights, share)));
        Ok(Reply::Accepted(accepted))
    }
}
