//! Matching of receives and messages: posted receives, and unexpected messages, both in order of
//! arrival.
//!
//! A message goes to the first receive that accepts it, and a receive gets the first accepted
//! message that has arrived. So messages that one receive accepts do not overtake each other. The
//! processor time of the search is part of the library's overhead unless a profile states it.
//! Source: the MPI standard, order of point-to-point communication.

use super::envelope::{Early, Envelope};
use crate::kernel::{Mailbox, Sim};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Source and tag of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The sending rank.
    pub source: usize,
    /// The tag.
    pub tag: u32,
}

/// Messages accepted by a receive; `None` is a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Accepted source.
    pub source: Option<usize>,
    /// Accepted tag.
    pub tag: Option<u32>,
}

impl Wanted {
    fn takes(self, origin: Origin) -> bool {
        self.source.is_none_or(|source| source == origin.source)
            && self.tag.is_none_or(|tag| tag == origin.tag)
    }
}

type QueuedMessage = (Origin, Envelope);

/// The matching queues of a rank.
#[derive(Default)]
pub(super) struct Inbox {
    /// Unmatched messages, oldest first.
    unexpected: RefCell<VecDeque<QueuedMessage>>,
    /// Posted receives, oldest first.
    posted: RefCell<VecDeque<(Wanted, Mailbox<QueuedMessage>)>>,
    /// Mailboxes of earlier receives, for reuse.
    spare: RefCell<Vec<Mailbox<QueuedMessage>>>,
}

impl Inbox {
    /// Handles the arrival of a message.
    pub fn arrive(&self, origin: Origin, envelope: Envelope) {
        let mut posted = self.posted.borrow_mut();
        let first = posted.iter().position(|(wanted, _)| wanted.takes(origin));
        match first.and_then(|place| posted.remove(place)) {
            Some((_, receive)) => receive.send((origin, envelope)),
            None => self.unexpected.borrow_mut().push_back((origin, envelope)),
        }
    }

    /// Waits for the message of a receive that is posted now and has found none.
    pub async fn wait(&self, sim: &Sim, wanted: Wanted) -> QueuedMessage {
        let spare = self.spare.borrow_mut().pop();
        let receive = spare.unwrap_or_else(|| Mailbox::new(sim));
        let posted = (wanted, receive.clone());
        self.posted.borrow_mut().push_back(posted);
        let message = receive.receive().await;
        self.spare.borrow_mut().push(receive);
        message
    }

    /// Takes the first available message that matches.
    pub fn find(&self, wanted: Wanted) -> Option<QueuedMessage> {
        let mut unexpected = self.unexpected.borrow_mut();
        let first = unexpected
            .iter()
            .position(|(origin, _)| wanted.takes(*origin))?;
        unexpected.remove(first)
    }

    /// Returns the number of messages passed in the search for a receive's message, all of them if
    /// it has not arrived.
    pub fn passed_for(&self, wanted: Wanted) -> usize {
        let unexpected = self.unexpected.borrow();
        let first = unexpected
            .iter()
            .position(|(origin, _)| wanted.takes(*origin));
        first.unwrap_or(unexpected.len())
    }

    /// Returns the oldest message that is still in the buffer that it arrived in, and the bytes to
    /// copy.
    pub fn first_in_its_buffer(&self) -> Option<(Origin, u64, Early)> {
        let unexpected = self.unexpected.borrow();
        let mut in_buffers = unexpected.iter().filter_map(|(origin, envelope)| {
            let (bytes, early) = envelope.in_its_buffer()?;
            Some((*origin, bytes, early))
        });
        in_buffers.next()
    }

    /// Returns the number of unmatched messages of a rank.
    pub fn behind(&self, source: usize) -> usize {
        let unexpected = self.unexpected.borrow();
        let of_source = |letter: &&QueuedMessage| letter.0.source == source;
        unexpected.iter().filter(of_source).count()
    }

    /// Returns the origins of the unmatched messages.
    pub fn left(&self) -> Vec<Origin> {
        let unexpected = self.unexpected.borrow();
        unexpected.iter().map(|(origin, _)| *origin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Time;
    use crate::mpi::cause::Cause;
    use std::rc::Rc;

    fn eager(bytes: u64) -> Envelope {
        let sent = Cause {
            rank: 0,
            at: Time::ZERO,
        };
        Envelope::Eager {
            bytes,
            sent,
            early: None,
            rest: None,
        }
    }

    async fn take(inbox: &Inbox, sim: &Sim, wanted: Wanted) -> QueuedMessage {
        match inbox.find(wanted) {
            Some(letter) => letter,
            None => inbox.wait(sim, wanted).await,
        }
    }

    fn wanted(source: Option<usize>, tag: Option<u32>) -> Wanted {
        Wanted { source, tag }
    }

    /// Returns the message of each receive, in the order of posting, with all receives posted
    /// before the messages arrive, and after.
    fn matched(receives: &[Wanted], messages: &[Origin]) -> [Vec<Option<usize>>; 2] {
        [true, false].map(|receives_first| {
            let sim = Sim::new();
            let inbox = Rc::new(Inbox::default());
            let got = Rc::new(RefCell::new(vec![None; receives.len()]));
            let come = || {
                for (number, origin) in messages.iter().enumerate() {
                    inbox.arrive(*origin, eager(number as u64));
                }
            };
            if !receives_first {
                come();
            }
            for (place, wanted) in receives.iter().copied().enumerate() {
                let (own, inbox, got) = (sim.clone(), inbox.clone(), got.clone());
                sim.start(async move {
                    let (_, envelope) = take(&inbox, &own, wanted).await;
                    if let Envelope::Eager { bytes, .. } = envelope {
                        got.borrow_mut()[place] = Some(bytes as usize);
                    }
                });
            }
            sim.run();
            if receives_first {
                come();
                sim.run();
            }
            assert_eq!(
                inbox.left().len() + got.borrow().iter().flatten().count(),
                messages.len()
            );
            sim.clear();
            got.take()
        })
    }

    #[test]
    fn messages_with_equal_envelopes_match_in_order() {
        let from = |source, tag| Origin { source, tag };
        let messages = [from(1, 5), from(2, 5), from(1, 7), from(1, 5)];
        let both = |receives: &[Wanted]| matched(receives, &messages);
        let named = [wanted(Some(1), Some(5)), wanted(Some(1), Some(5))];
        assert_eq!(
            both(&named),
            [vec![Some(0), Some(3)], vec![Some(0), Some(3)]]
        );
        let any = [wanted(None, Some(5)), wanted(Some(1), None)];
        assert_eq!(both(&any), [vec![Some(0), Some(2)], vec![Some(0), Some(2)]]);
        // The first receive that accepts a message gets it, even if another receive accepts no
        // other message.
        let all = [wanted(None, None), wanted(Some(2), Some(5))];
        assert_eq!(both(&all), [vec![Some(0), Some(1)], vec![Some(0), Some(1)]]);
        let nobody = [wanted(Some(3), None)];
        assert_eq!(both(&nobody), [vec![None], vec![None]]);
    }

    /// Receives and messages in random order are matched as in a list searched by hand.
    #[test]
    fn matching_follows_the_mpi_standard_in_any_order() {
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let (sim, inbox) = (Sim::new(), Rc::new(Inbox::default()));
            let got: Rc<RefCell<Vec<(usize, u64)>>> = Rc::default();
            let (mut waiting, mut unexpected) = (Vec::new(), Vec::new());
            let mut expected = Vec::new();
            for event in 0..40 {
                if next(2) == 0 {
                    let origin = Origin {
                        source: next(3) as usize,
                        tag: next(2) as u32,
                    };
                    let first = waiting
                        .iter()
                        .position(|(_, wanted): &(usize, Wanted)| wanted.takes(origin));
                    match first {
                        Some(place) => expected.push((waiting.remove(place).0, event)),
                        None => unexpected.push((event, origin)),
                    }
                    inbox.arrive(origin, eager(event));
                } else {
                    let wanted = Wanted {
                        source: (next(2) == 0).then(|| next(3) as usize),
                        tag: (next(2) == 0).then(|| next(2) as u32),
                    };
                    let receive = event as usize;
                    let first = unexpected
                        .iter()
                        .position(|(_, origin): &(u64, Origin)| wanted.takes(*origin));
                    match first {
                        Some(place) => expected.push((receive, unexpected.remove(place).0)),
                        None => waiting.push((receive, wanted)),
                    }
                    let (own, inbox, got) = (sim.clone(), inbox.clone(), got.clone());
                    sim.start(async move {
                        let (_, envelope) = take(&inbox, &own, wanted).await;
                        if let Envelope::Eager { bytes, .. } = envelope {
                            got.borrow_mut().push((receive, bytes));
                        }
                    });
                }
                sim.run();
            }
            assert_eq!(*got.borrow(), expected);
            let left: Vec<_> = unexpected.iter().map(|(_, origin)| *origin).collect();
            assert_eq!(inbox.left(), left);
            sim.clear();
        }
    }
}
