//! Unexpected messages in a library that copies them out of their buffers.
//!
//! A library makes progress only inside its calls: while a rank waits, it copies messages out of
//! their buffers in order of arrival, and a receive that finds one copies it once more. While a
//! rank computes, they stay in their buffers.

use super::envelope::{Early, Envelope, MessageLocation};
use super::matching::Origin;
use super::world::{Rank, World};
use crate::kernel::Time;
use crate::profile::Unexpected;
use crate::stage;
use std::rc::Rc;

/// Guard: the rank is inside the library until it is dropped.
pub(super) struct Inside(Option<(Rc<World>, usize)>);

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some((world, rank)) = &self.0 {
            let inside = &world.relations(*rank).inside;
            inside.set(inside.get() - 1);
        }
    }
}

impl World {
    /// Handles the arrival of a message at a rank.
    pub(super) fn arrive(self: &Rc<Self>, to: usize, origin: Origin, envelope: Envelope) {
        let held = self.plan.held;
        if held == Time::ZERO || matches!(envelope, Envelope::Local(_)) {
            return self.arrive_now(to, origin, envelope);
        }
        let sim = self.cluster.sim();
        let (now, own) = (sim.now(), self.clone());
        let node = self.node(to);
        sim.span(stage::ANCHOR, node, now, now + held);
        sim.start_at(now + held, async move {
            own.arrive_now(to, origin, envelope);
        });
    }

    fn arrive_now(self: &Rc<Self>, to: usize, origin: Origin, envelope: Envelope) {
        self.relations(to).inbox.arrive(origin, envelope);
        if self.sets_aside() {
            self.copy_unexpected(to);
        }
    }

    pub(super) fn sets_aside(&self) -> bool {
        self.mpi.unexpected == Some(Unexpected::Copied)
    }

    /// Returns the location state of a new message, if the library copies unexpected messages.
    pub(super) fn early(&self) -> Option<Early> {
        self.sets_aside().then(|| Early::new(self.cluster.sim()))
    }

    /// Has a rank inside the library copy messages out of their buffers, unless it is already doing
    /// so.
    pub(super) fn copy_unexpected(self: &Rc<Self>, rank: usize) {
        let relations = &self.relations(rank);
        let can = relations.inside.get() > 0 && !relations.tidying.get();
        if !can || relations.inbox.first_in_its_buffer().is_none() {
            return;
        }
        relations.tidying.set(true);
        let rank = self.rank(rank);
        self.cluster.sim().clone().start(async move {
            let relations = &rank.world.relations(rank.number);
            while let Some((origin, bytes, early)) = relations.inbox.first_in_its_buffer() {
                rank.set_aside(origin, bytes, &early).await;
            }
            relations.tidying.set(false);
        });
    }
}

impl Rank {
    /// Enters the library to wait.
    pub(super) fn inside(&self) -> Inside {
        if !self.world.sets_aside() {
            return Inside(None);
        }
        let inside = &self.world.relations(self.number).inside;
        inside.set(inside.get() + 1);
        self.world.copy_unexpected(self.number);
        Inside(Some((self.world.clone(), self.number)))
    }

    /// Copies a message out of its buffer; a rendezvous request has no data to copy.
    async fn set_aside(&self, origin: Origin, bytes: u64, early: &Early) {
        early.moves_to(MessageLocation::OnItsWay);
        self.find().await;
        self.spend(stage::MATCH, self.world.mpi.overhead).await;
        if bytes > 0 {
            self.copy(stage::COPY_IN, bytes).await;
        }
        early.moves_to(MessageLocation::Aside);
        early.aside().send(self.cause());
        self.emptied(origin.source).await;
    }

    /// Detects the message of a receive and spends the `work` due before its data; a message that
    /// was copied aside has already had an overhead's worth of it.
    pub(super) async fn find_message(
        &self,
        source: usize,
        early: Option<&Early>,
        work: Time,
    ) -> Seen {
        let seen = early.filter(|early| !early.is_in_its_buffer());
        let Some(early) = seen else {
            self.find().await;
            self.spend(stage::MATCH, work).await;
            return Seen::InItsBuffer(source);
        };
        if early.location() == MessageLocation::OnItsWay {
            self.wait_for(early.aside()).await;
        }
        let rest = work.since(self.world.mpi.overhead);
        if rest > Time::ZERO {
            self.spend(stage::MATCH, rest).await;
        }
        Seen::Aside
    }

    /// Ends the use of a message.
    pub(super) async fn used(&self, seen: Seen) {
        if let Seen::InItsBuffer(source) = seen {
            self.emptied(source).await;
        }
    }
}

/// Location in which a receive found its message.
pub(super) enum Seen {
    /// In a buffer filled by this rank.
    InItsBuffer(usize),
    /// In a temporary buffer.
    Aside,
}
