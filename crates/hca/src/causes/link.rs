//! Faults of links, which rules bring about: `link: loss 1%`, `link.out: delay 5 us`.
//!
//! Each queue pair counts its messages in both directions, and chance is a hash of that count, so
//! the same messages are lost in each run. The consequences of a loss or a delay follow where the
//! message goes: [`super::passage`] for requests in shared memory, [`super::delay_line`] for
//! packets.

use super::delay_line;
use super::own::own;
use super::ruled_peer::RuledPeer;
use crate::emulation;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use verbena_faults::link::{Direction, LinkFault};
use verbena_faults::peer::PeerAddress;
use verbena_faults::process_rules::ProcessRules;
use verbena_faults::rule::{Action, Rule};
use verbena_faults::site::Site;
use verbena_hca_os::clock;

/// Nanoseconds after which a message is sent although no other has overtaken it.
const LONGEST_OVERTAKEN: u64 = 10_000_000;

/// The kind of a message on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A request of a connected queue pair in shared memory, or its answer.
    Request,
    /// A datagram in shared memory.
    Datagram,
    /// A datagram that leaves as a packet.
    DatagramPacket,
    /// A packet of a connected queue pair.
    Packet,
}

/// A rule about a link, and the number of messages so far that it may concern.
struct Counted {
    number: usize,
    /// 0 for each port.
    port: u8,
    /// None records the message only.
    fault: Option<LinkFault>,
    count: u64,
    peer: RuledPeer,
}

/// The effects of the rules on a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// It does not arrive.
    pub is_lost: bool,
    /// It is lost because it arrives damaged.
    pub is_damaged: bool,
    /// It arrives twice.
    pub is_doubled: bool,
    /// It arrives behind the next one.
    pub is_late: bool,
    /// Nanoseconds that it takes longer.
    delay: u64,
    /// The rule with the link's rate, and the bits a second.
    rate: Option<(usize, u64)>,
}

/// The messages of a queue pair in one direction, with the rules about them.
pub struct DirectionRules {
    direction: Direction,
    /// The number that firings have.
    object: u32,
    rules: Vec<Counted>,
    /// Arrival of the last message: order is kept.
    last: u64,
}

impl DirectionRules {
    fn of(own: &'static ProcessRules, object: u32, direction: Direction) -> DirectionRules {
        let counted = |(number, rule): (usize, &'static Rule)| {
            let Site::Link(link) = rule.site else {
                return None;
            };
            let fault = match rule.action {
                Action::Disturb(fault) => Some(fault),
                Action::Pass => None,
                _ => return None,
            };
            let is_meant = link.includes(direction) && link.objects.include(object);
            is_meant.then_some(Counted {
                number,
                port: link.port,
                fault,
                count: 0,
                peer: RuledPeer::of(rule),
            })
        };
        DirectionRules {
            direction,
            object: direction.object(object),
            rules: own.rules().filter_map(counted).collect(),
            last: 0,
        }
    }

    /// Returns the fate of the next message, at a port. Counts it, and records the rules that it
    /// meets.
    pub fn next(&mut self, medium: Medium, port: u8) -> Fate {
        let mut fate = Fate::default();
        let Some(own) = own() else {
            return fate;
        };
        for rule in &mut self.rules {
            let is_its = (rule.port == 0 || rule.port == port) && rule.peer.is_met;
            if !is_its || !is_possible(rule.fault, medium, self.direction) {
                continue;
            }
            rule.count += 1;
            if !own.is_met(rule.number, self.object, rule.count) {
                continue;
            }
            own.note(rule.number, self.object, rule.count);
            match rule.fault {
                None => {}
                Some(LinkFault::Loss) => fate.is_lost = true,
                Some(LinkFault::Corruption) => (fate.is_lost, fate.is_damaged) = (true, true),
                Some(LinkFault::Duplicate) => fate.is_doubled = true,
                Some(LinkFault::Reorder) => fate.is_late = true,
                Some(LinkFault::Delay(time)) => fate.delay += time.as_nanos() as u64,
                Some(LinkFault::Jitter(time)) => {
                    let draw = own.draw(rule.number, self.object, rule.count);
                    fate.delay += (draw * time.as_nanos() as f64) as u64;
                }
                // The slowest counts.
                Some(LinkFault::Rate(bits)) if fate.rate.is_none_or(|(_, least)| bits < least) => {
                    fate.rate = Some((rule.number, bits));
                }
                Some(LinkFault::Rate(_)) => {}
            }
        }
        fate
    }

    /// Returns when a message of `bytes` that is sent now arrives, behind those before it.
    pub fn arrival(&mut self, fate: &Fate, now: u64, bytes: u64) -> u64 {
        let sent = match fate.rate {
            None => now,
            Some((rule, rate)) => {
                let time = (u128::from(bytes) * 8_000_000_000 / u128::from(rate)) as u64;
                let word = free_at(rule, self.direction);
                let end = |free: u64| Some(free.max(now).saturating_add(time));
                // Rust 1.99 renames it to `try_update`, which the oldest supported version lacks.
                #[allow(deprecated)]
                let before = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end);
                before.unwrap_or(0).max(now).saturating_add(time)
            }
        };
        self.last = self.last.max(sent.saturating_add(fate.delay));
        self.last
    }
}

/// Returns whether such a message can have a fault. Reliable connections in shared memory have no
/// packets that could be repeated or reordered, and packets that arrive are not held.
fn is_possible(fault: Option<LinkFault>, medium: Medium, direction: Direction) -> bool {
    let comes_in = direction == Direction::In;
    match fault {
        None | Some(LinkFault::Loss | LinkFault::Corruption) => true,
        Some(LinkFault::Duplicate) => medium != Medium::Request,
        Some(LinkFault::Reorder) => {
            matches!(medium, Medium::Datagram | Medium::Packet) && !comes_in
        }
        Some(LinkFault::Delay(_) | LinkFault::Jitter(_) | LinkFault::Rate(_)) => {
            medium == Medium::Request || !comes_in
        }
    }
}

/// Returns the word with the time at which the link of a rule is free again, which all queue pairs
/// of the process share.
fn free_at(rule: usize, direction: Direction) -> &'static AtomicU64 {
    static WORDS: OnceLock<Vec<[AtomicU64; 2]>> = OnceLock::new();
    static NONE: AtomicU64 = AtomicU64::new(0);
    let words = WORDS.get_or_init(|| {
        let last = own().and_then(|own| own.rules().map(|(number, _)| number).max());
        (0..=last.unwrap_or(0))
            .map(|_| Default::default())
            .collect()
    });
    words
        .get(rule)
        .map_or(&NONE, |both| &both[usize::from(direction == Direction::In)])
}

/// The link of a queue pair that rules are about.
pub struct QpLink {
    /// Whether there are rules.
    pub has_rules: bool,
    out: Mutex<DirectionRules>,
    back: Mutex<DirectionRules>,
    /// Packets that are held for a time. Those behind them are held, too.
    held: AtomicU32,
    /// The message that the next one overtakes.
    overtaken: Mutex<Overtaken>,
}

/// A message that the next one overtakes.
#[derive(Default)]
struct Overtaken {
    /// The number of such messages so far.
    number: u64,
    /// Sends it; none if there is no such message now.
    send: Option<Box<dyn FnOnce() + Send>>,
}

/// A packet that is held, until this is dropped.
pub struct Held(Arc<QpLink>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Release);
    }
}

impl QpLink {
    /// Returns the link of a queue pair; none if there are no rules about it, and no adapter is
    /// emulated.
    pub fn of(object: u32) -> Option<Arc<QpLink>> {
        let with_rules = QpLink::with_rules(object);
        with_rules.or_else(|| emulation::own().map(|_| QpLink::without_rules()))
    }

    fn with_rules(object: u32) -> Option<Arc<QpLink>> {
        let own = own()?;
        let is_meant = |(_, rule): (usize, &Rule)| match rule.site {
            Site::Link(link) => link.objects.include(object),
            _ => false,
        };
        own.rules().any(is_meant).then(|| {
            Arc::new(QpLink {
                has_rules: true,
                out: Mutex::new(DirectionRules::of(own, object, Direction::Out)),
                back: Mutex::new(DirectionRules::of(own, object, Direction::In)),
                held: AtomicU32::new(0),
                overtaken: Mutex::default(),
            })
        })
    }

    /// Returns a link without rules.
    pub fn without_rules() -> Arc<QpLink> {
        let rules = |direction| DirectionRules {
            direction,
            object: 0,
            rules: Vec::new(),
            last: 0,
        };
        Arc::new(QpLink {
            has_rules: false,
            out: Mutex::new(rules(Direction::Out)),
            back: Mutex::new(rules(Direction::In)),
            held: AtomicU32::new(0),
            overtaken: Mutex::default(),
        })
    }

    /// Returns the rules of a direction.
    pub fn rules(&self, direction: Direction) -> MutexGuard<'_, DirectionRules> {
        let rules = match direction {
            Direction::Out => &self.out,
            Direction::In => &self.back,
        };
        rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether rules name peers.
    pub fn names_peers(&self) -> bool {
        let both = [Direction::Out, Direction::In];
        both.into_iter().any(|direction| {
            let rules = self.rules(direction);
            rules.rules.iter().any(|rule| rule.peer.is_named())
        })
    }

    /// Notes the peer of the messages that follow.
    pub fn meet(&self, address: &PeerAddress) {
        for direction in [Direction::Out, Direction::In] {
            let mut rules = self.rules(direction);
            let rules = rules.rules.iter_mut();
            rules.for_each(|rule| rule.peer.meet(address));
        }
    }

    /// Begins anew, for another connection.
    pub fn restart(&self) {
        self.rules(Direction::Out).last = 0;
        self.rules(Direction::In).last = 0;
    }

    fn overtaken(&self) -> MutexGuard<'_, Overtaken> {
        let overtaken = self.overtaken.lock();
        overtaken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message until the next one is sent ([`QpLink::sent_another`]), but not for long.
    pub fn keep_back(self: &Arc<QpLink>, send: impl FnOnce() + Send + 'static) {
        self.sent_another();
        let mut overtaken = self.overtaken();
        overtaken.number += 1;
        overtaken.send = Some(Box::new(send));
        let number = overtaken.number;
        drop(overtaken);
        let link = self.clone();
        let end = move || {
            let mut overtaken = link.overtaken();
            let is_it = overtaken.number == number;
            let send = overtaken.send.take_if(|_| is_it);
            drop(overtaken);
            if let Some(send) = send {
                send();
            }
        };
        if !delay_line::send_at(clock::now() + LONGEST_OVERTAKEN, end) {
            self.sent_another();
        }
    }

    /// Returns whether a message is kept until the next one is sent.
    pub fn keeps_one(&self) -> bool {
        self.overtaken().send.is_some()
    }

    /// Sends the message that another one was to overtake, which is sent now.
    pub fn sent_another(&self) {
        let send = self.overtaken().send.take();
        if let Some(send) = send {
            send();
        }
    }

    /// Returns whether a packet is held.
    pub fn holds_some(&self) -> bool {
        self.held.load(Ordering::Acquire) > 0
    }

    /// Counts a packet that is held.
    pub fn hold(self: &Arc<QpLink>) -> Held {
        self.held.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }
}

/// The number of rules that cut each port now, port 0 standing for all.
static CUT: [AtomicU32; 256] = [const { AtomicU32::new(0) }; 256];

/// Returns whether a port's link is cut.
pub fn is_cut(port: u8) -> bool {
    let is = |port: u8| CUT[usize::from(port)].load(Ordering::Relaxed) > 0;
    is(0) || is(port)
}

/// Cuts a port's link, or ends a cut.
pub fn cut(port: u8, begins: bool) {
    let word = &CUT[usize::from(port)];
    match begins {
        true => word.fetch_add(1, Ordering::Relaxed),
        false => word.fetch_sub(1, Ordering::Relaxed),
    };
}

/// Ends all cuts, for a child of fork(2), whose rules begin anew.
pub fn forget_cuts() {
    for word in &CUT {
        word.store(0, Ordering::Relaxed);
    }
}
