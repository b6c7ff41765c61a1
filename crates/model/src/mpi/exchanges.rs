//! The exchanges of a rank: mailboxes for their events.

use super::cause::Cause;
use super::notice::{Content, Event, Exchange, Notice};
use super::world::{Rank, World};
use crate::adapter::Notified;
use crate::kernel::Mailbox;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The events that a rank may have to wait for.
#[derive(Default)]
pub(super) struct Exchanges {
    /// Number of exchanges that it has opened.
    opened: Cell<u32>,
    /// Mailboxes of events, created when the first comes or is waited for.
    mail: RefCell<BTreeMap<Event, Mailbox<Cause>>>,
    /// Mailboxes of earlier events, for reuse.
    spare: RefCell<Vec<Mailbox<Cause>>>,
}

impl Exchanges {
    /// Returns the number of mailboxes in use.
    pub(super) fn open(&self) -> usize {
        self.mail.borrow().len()
    }
}

impl Rank {
    /// Opens an exchange.
    pub(super) fn open(&self) -> Exchange {
        let exchanges = &self.world.relations(self.number).exchanges;
        let number = exchanges.opened.get();
        exchanges.opened.set(number.wrapping_add(1));
        Exchange {
            opener: self.number as u32,
            number,
        }
    }

    /// Returns the mailbox of an event that this rank waits for.
    pub(super) fn mail(&self, event: Event) -> Mailbox<Cause> {
        self.world.mail(self.number, event)
    }

    /// Frees the mailbox of an event that does not come again.
    pub(super) fn release_mail(&self, event: Event) {
        let exchanges = &self.world.relations(self.number).exchanges;
        let mailbox = exchanges.mail.borrow_mut().remove(&event);
        exchanges.spare.borrow_mut().extend(mailbox);
    }
}

impl World {
    fn mail(&self, rank: usize, event: Event) -> Mailbox<Cause> {
        let exchanges = &self.relations(rank).exchanges;
        let mut mail = exchanges.mail.borrow_mut();
        let made = || {
            let spare = exchanges.spare.borrow_mut().pop();
            spare.unwrap_or_else(|| Mailbox::new(self.cluster.sim()))
        };
        mail.entry(event).or_insert_with(made).clone()
    }
}

impl Notified for World {
    fn notify(self: Rc<Self>, notice: Notice) {
        let (from, to) = (notice.from as usize, notice.to as usize);
        let sent = Cause {
            rank: from,
            at: notice.sent,
        };
        self.credits_back(to, from, u64::from(notice.emptied), sent);
        match notice.content {
            Content::Nothing => (),
            Content::Eager { bytes, tag, rest } => {
                self.arrive_eagerly(to, (sent, tag), bytes, rest)
            }
            Content::Rendezvous {
                bytes,
                tag,
                exchange,
            } => self.asks_for_rendezvous(to, (sent, tag), bytes, exchange),
            Content::Event(event) => self.mail(to, event).send(sent),
            Content::Access {
                exchange,
                out,
                back,
            } => self.serve(to, (sent, exchange), out, back),
        }
    }
}
