//! Messages that come before their receive, in a library that does not leave them where they came in.
//!
//! A library works when it is called: so while a rank waits for anything it takes them out of their buffers in the order of coming, and a
//! receive that finds one copies it once more. While a rank computes they stay.

use super::matching::Origin;
use super::{Cause, Rank, World};
use crate::cluster::CacheState;
use crate::kernel::{Mailbox, Sim, Time};
use crate::profile::Unexpected;
use std::cell::Cell;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Buffer,
    OnItsWay,
    Aside,
}

/// Where a message is that nobody has asked for.
#[derive(Clone)]
pub(super) struct Early(Rc<(Cell<Place>, Mailbox<Cause>)>);

impl Early {
    fn new(sim: &Sim) -> Early {
        Early(Rc::new((Cell::new(Place::Buffer), Mailbox::new(sim))))
    }

    /// Whether nobody has touched it.
    pub fn is_in_its_buffer(&self) -> bool {
        self.0.0.get() == Place::Buffer
    }
}

/// A rank is in the library as long as this is.
pub(super) struct Inside(Option<(Rc<World>, usize)>);

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some((world, rank)) = &self.0 {
            let inside = &world.relations[*rank].inside;
            inside.set(inside.get() - 1);
        }
    }
}

impl World {
    pub(super) fn sets_aside(&self) -> bool {
        self.mpi.unexpected == Some(Unexpected::Copied)
    }

    /// What is noted of a message in a library that sets messages aside.
    pub(super) fn early(&self) -> Option<Early> {
        self.sets_aside().then(|| Early::new(self.cluster.sim()))
    }

    /// Has a rank that is in the library take out what has come, unless it is at it.
    pub(super) fn tidy(self: &Rc<Self>, rank: usize) {
        let relations = &self.relations[rank];
        let can = relations.inside.get() > 0 && !relations.tidying.get();
        if !can || relations.inbox.first_in_its_buffer().is_none() {
            return;
        }
        relations.tidying.set(true);
        let rank = self.rank(rank);
        self.cluster.sim().clone().start(async move {
            let relations = &rank.world.relations[rank.number];
            while let Some((origin, bytes, early)) = relations.inbox.first_in_its_buffer() {
                rank.set_aside(origin, bytes, &early).await;
            }
            relations.tidying.set(false);
        });
    }
}

impl Rank {
    /// This rank is in the library, waiting.
    pub(super) fn inside(&self) -> Inside {
        if !self.world.sets_aside() {
            return Inside(None);
        }
        let inside = &self.world.relations[self.number].inside;
        inside.set(inside.get() + 1);
        self.world.tidy(self.number);
        Inside(Some((self.world.clone(), self.number)))
    }

    /// Takes a message, of a rendezvous without bytes of its own, out of its buffer.
    async fn set_aside(&self, origin: Origin, bytes: u64, early: &Early) {
        early.0.0.set(Place::OnItsWay);
        self.find().await;
        self.compute(self.world.mpi.overhead).await;
        if bytes > 0 {
            self.process.copy(bytes, CacheState::Cold).await;
        }
        early.0.0.set(Place::Aside);
        early.0.1.send(self.cause());
        self.emptied(origin.source).await;
    }

    /// Sees a message that a receive has got, and does the `work` on it that comes before its data; one that has been set aside has had
    /// an overhead's worth of it.
    pub(super) async fn see(&self, source: usize, early: Option<&Early>, work: Time) -> Seen {
        let seen = early.filter(|early| !early.is_in_its_buffer());
        let Some(early) = seen else {
            self.find().await;
            self.compute(work).await;
            return Seen::InItsBuffer(source);
        };
        if early.0.0.get() == Place::OnItsWay {
            self.wait_for(&early.0.1).await;
        }
        let rest = work.since(self.world.mpi.overhead);
        if rest > Time::ZERO {
            self.compute(rest).await;
        }
        Seen::Aside
    }

    /// The message has been used.
    pub(super) async fn used(&self, seen: Seen) {
        if let Seen::InItsBuffer(source) = seen {
            self.emptied(source).await;
        }
    }
}

/// Where a receive has found its message.
pub(super) enum Seen {
    /// In a buffer that this rank filled.
    InItsBuffer(usize),
    /// Beside the buffers.
    Aside,
}
