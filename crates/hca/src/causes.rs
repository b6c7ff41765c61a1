//! Causes of failed completions, which rules plant (`verbena run --fault`, [`verbena_faults`]).
//!
//! A rule names a queue pair, an operation and a status. When such a request begins, the adapter
//! plants a cause of that status: it uses a key that names nothing, leaves the packets out, or has
//! the responder find a fault. All else (answers, states, flushes, events, retries) follows from
//! the transport's rules.
//!
//! A queue pair without rules has none of this: it is created without [`Sends`] and [`Receives`],
//! and its requests take their fast paths.

pub mod delay_line;
pub mod events;
pub mod limits;
pub mod link;
mod own;
pub mod passage;
pub mod queues;
mod ruled_peer;

use link::QpLink;
use own::own;
use passage::Passages;
use ruled_peer::RuledPeer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use verbena_faults::peer::PeerAddress;
use verbena_faults::process_rules::ProcessRules;
use verbena_faults::rule::{Action, Rule};
use verbena_faults::site::{Operation, Site};
use verbena_faults::status::Status;

/// Number of queue pairs that the process has created, those before a fork included, as
/// `verbena trace` counts them.
static QUEUE_PAIRS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of a queue pair that is being created.
pub fn number_queue_pair() -> u32 {
    QUEUE_PAIRS.fetch_add(1, Ordering::Relaxed) + 1
}

/// A rule about an object, and the number of its requests so far.
struct Counted {
    number: usize,
    operation: Operation,
    /// None records the request only.
    status: Option<Status>,
    count: u64,
    peer: RuledPeer,
}

/// Rules about one queue of an object.
struct Rules {
    object: u32,
    counted: Vec<Counted>,
}

impl Rules {
    /// Returns those that `of_queue` selects.
    fn of(object: u32, of_queue: impl Fn(Site) -> Option<Operation>) -> Rules {
        let counted = |(number, rule): (usize, &'static Rule)| {
            Some(Counted {
                number,
                peer: RuledPeer::of(rule),
                operation: of_queue(rule.site)?,
                status: match rule.action {
                    Action::End(status) => Some(status),
                    _ => None,
                },
                count: 0,
            })
        };
        let all = own().into_iter().flat_map(ProcessRules::rules);
        Rules {
            object,
            counted: all.filter_map(counted).collect(),
        }
    }

    /// Counts a request for the rules that may concern it, and returns the first one that is met.
    /// Records those that let it pass.
    fn next(&mut self, concerns: impl Fn(Operation, Option<Status>) -> bool) -> Option<Met> {
        let own = own()?;
        let mut found = None;
        for rule in &mut self.counted {
            if !rule.peer.is_met || !concerns(rule.operation, rule.status) {
                continue;
            }
            rule.count += 1;
            if found.is_some() || !own.is_met(rule.number, self.object, rule.count) {
                continue;
            }
            match rule.status {
                None => own.note(rule.number, self.object, rule.count),
                Some(status) => {
                    found = Some(Met {
                        number: rule.number,
                        count: rule.count,
                        status,
                    });
                }
            }
        }
        found
    }

    /// Returns whether a rule is about some peers only.
    fn name_peers(&self) -> bool {
        self.counted.iter().any(|rule| rule.peer.is_named())
    }

    /// Notes the peer of the requests that follow.
    fn meet(&mut self, address: &PeerAddress) {
        let counted = self.counted.iter_mut();
        counted.for_each(|rule| rule.peer.meet(address));
    }

    /// Records that a rule has fired.
    fn note(&self, met: Met) {
        if let Some(own) = own() {
            own.note(met.number, self.object, met.count);
        }
    }
}

/// A rule that is met by a request.
#[derive(Clone, Copy)]
pub struct Met {
    number: usize,
    count: u64,
    /// The status with which the request is to end.
    pub status: Status,
}

/// A request with a cause.
#[derive(Clone, Copy)]
pub struct Planted {
    /// Its index in the send queue.
    pub index: u64,
    /// The PSN of its first packet.
    pub psn: u32,
    /// The number of its packets.
    pub packets: u32,
    /// The rule.
    pub met: Met,
}

/// The rules about the send requests of a queue pair.
pub struct Sends {
    rules: Rules,
    /// Index of the first request that has not begun yet.
    next: u64,
    /// Those of the present connection.
    planted: Vec<Planted>,
    /// Requests on a link with rules.
    passages: Option<Passages>,
    /// Destination of the peer that was noted last; none if its process was not known.
    peer: Option<Destination>,
    /// Whether there are any rules; an adapter is emulated otherwise.
    has_rules: bool,
}

/// Number and port of a peer: its LID and its GID, as an address vector has them.
pub type Destination = (u32, u16, [u8; 16]);

impl Sends {
    /// Returns the rules about a queue pair; none if there are none, and events do not
    /// count requests.
    pub fn of(object: u32, link: Option<&Arc<QpLink>>) -> Option<Box<Sends>> {
        let rules = Rules::of(object, |site| match site {
            Site::Requests(objects, operation) if objects.include(object) => Some(operation),
            _ => None,
        });
        let are_counted = !rules.counted.is_empty() || events::count_requests();
        let has_rules = are_counted || link.is_some_and(|link| link.has_rules);
        let is_needed = has_rules || link.is_some();
        is_needed.then(|| {
            Box::new(Sends {
                has_rules,
                rules,
                next: 0,
                planted: Vec::new(),
                passages: link.cloned().map(Passages::new),
                peer: None,
            })
        })
    }

    /// Returns whether there are any rules about the requests; without, an adapter is emulated.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Returns whether rules about requests or the link name peers, and the last one was another.
    pub fn awaits_peer(&self, destination: Destination) -> bool {
        let link = self.passages.as_ref().map(Passages::link);
        let is_named = self.rules.name_peers() || link.is_some_and(|link| link.names_peers());
        is_named && self.peer != Some(destination)
    }

    /// Notes the peer of the requests that follow. A number may get its owner later, so an address
    /// without a process is not kept.
    pub fn meet(&mut self, destination: Destination, address: &PeerAddress) {
        self.peer = (address.process != 0).then_some(destination);
        self.rules.meet(address);
        if let Some(passages) = &self.passages {
            passages.link().meet(address);
        }
    }

    /// Counts the request with this index, if it begins and was not counted before. `can_end` tells
    /// whether it can end with a status; `planted` describes it.
    pub fn begin(
        &mut self,
        index: u64,
        operation: Operation,
        can_end: impl Fn(Status) -> bool,
        planted: impl FnOnce(Met) -> Planted,
    ) {
        if index < self.next {
            return;
        }
        self.next = index + 1;
        events::count();
        let met = self.rules.next(|wanted, status| {
            (wanted == operation || wanted == Operation::Any) && status.is_none_or(&can_end)
        });
        self.planted.extend(met.map(planted));
    }

    /// Returns the cause of the request with this index.
    pub fn planted(&self, index: u64) -> Option<Status> {
        let found = self.planted.iter().find(|one| one.index == index);
        found.map(|one| one.met.status)
    }

    /// Returns the cause at a PSN, with the packet's number in the request. Packets behind one that
    /// is left out are left out, too.
    pub fn at(&self, psn: u32) -> Option<(Status, u32)> {
        self.planted.iter().find_map(|one| {
            let distance = psn.wrapping_sub(one.psn) & 0xff_ffff;
            let is_behind = distance < 1 << 23 && one.met.status == Status::RetryExceeded;
            (distance < one.packets || is_behind).then_some((one.met.status, distance))
        })
    }

    /// Records that the request with this index has ended with its status. Of several requests in
    /// flight that are to fail, only the first one does.
    pub fn ended(&self, index: u64) {
        if let Some(one) = self.planted.iter().find(|one| one.index == index) {
            self.rules.note(one.met);
        }
    }

    /// Forgets the causes and the peer of a connection that has ended. The peer's number may belong
    /// to another process later.
    pub fn forget(&mut self) {
        self.planted.clear();
        self.peer = None;
        if let Some(passages) = &mut self.passages {
            passages.forget();
        }
    }

    /// Returns whether a request fails because all its transmissions are lost.
    pub fn loses(&self, index: u64) -> bool {
        let passages = self.passages.as_ref();
        passages.is_some_and(|passages| passages.fails(index))
    }

    /// Returns the requests on a link with rules; none if there are no such rules.
    pub fn passages(&mut self) -> Option<&mut Passages> {
        self.passages.as_mut()
    }
}

/// The rules about the receives of a queue pair.
pub struct Receives(Rules);

impl Receives {
    /// Returns the rules about a queue pair; none if there are none.
    pub fn of(object: u32) -> Option<Box<Receives>> {
        let rules = Rules::of(object, |site| match site {
            Site::Receives(objects) if objects.include(object) => Some(Operation::Any),
            _ => None,
        });
        (!rules.counted.is_empty()).then(|| Box::new(Receives(rules)))
    }

    /// Returns whether rules name peers.
    pub fn name_peers(&self) -> bool {
        self.0.name_peers()
    }

    /// Notes the peer whose messages follow.
    pub fn meet(&mut self, address: &PeerAddress) {
        self.0.meet(address);
    }

    /// Counts a receive that a message takes. Returns the status with which it is to end.
    pub fn take(&mut self) -> Option<Status> {
        let met = self.0.next(|_, _| true)?;
        self.0.note(met);
        Some(met.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESTINATION: Destination = (17, 4, [0; 16]);

    /// The sends of a queue pair with a rule about a process.
    fn sends() -> Sends {
        let rule: Rule = "qp1.send peer pid 42: flush".parse().unwrap();
        let counted = Counted {
            number: 0,
            operation: Operation::Send,
            status: Some(Status::Flush),
            count: 0,
            peer: RuledPeer::of(Box::leak(Box::new(rule))),
        };
        Sends {
            rules: Rules {
                object: 1,
                counted: vec![counted],
            },
            next: 0,
            planted: Vec::new(),
            passages: None,
            peer: None,
            has_rules: true,
        }
    }

    fn peer(process: u32) -> PeerAddress {
        PeerAddress {
            lid: 4,
            queue_pair: 17,
            process,
            ..PeerAddress::default()
        }
    }

    #[test]
    fn a_peer_is_looked_up_again_until_its_process_is_known() {
        let mut sends = sends();
        assert!(sends.awaits_peer(DESTINATION));
        sends.meet(DESTINATION, &peer(0));
        assert!(sends.awaits_peer(DESTINATION) && !sends.rules.counted[0].peer.is_met);
        sends.meet(DESTINATION, &peer(42));
        assert!(!sends.awaits_peer(DESTINATION) && sends.rules.counted[0].peer.is_met);
        assert!(sends.awaits_peer((18, 4, [0; 16])));
    }

    #[test]
    fn a_peer_is_looked_up_again_in_the_next_connection() {
        let mut sends = sends();
        sends.meet(DESTINATION, &peer(42));
        sends.forget();
        assert!(sends.awaits_peer(DESTINATION));
        sends.meet(DESTINATION, &peer(43));
        assert!(!sends.rules.counted[0].peer.is_met);
    }
}
