//! One rule: where it acts, when, and its effect: `ibv_reg_mr 2: ENOMEM`,
//! `qp1.write 3: remote-access`, `port1 after 5s: down`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use verbena_coverage::errno;

use crate::cm::CmEvent;
use crate::event::{self, Event};
use crate::firing::Firing;
use crate::limit::{self, Limit};
use crate::link::{self, LinkFault};
use crate::peer::{self, Peer};
use crate::queue::{Queue, QueueFault};
use crate::site::{Objects, Site, operation_names};
use crate::status::Status;

/// Which of the calls of a process, or requests of an object, a rule is about, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trigger {
    /// From the first to the last of these; `u64::MAX` has no end.
    Range(u64, u64),
    /// Each whose number is a multiple.
    Every(u64),
    /// Each with this probability.
    Chance(f64),
    /// Once, when so many requests of the process have begun.
    AfterRequests(u64),
    /// Once, so long after the process opened the device.
    AfterTime(Duration),
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Refuses the call with this error number.
    Refuse(i32),
    /// Plants a cause by which the request ends with this status.
    End(Status),
    /// Has the port or the adapter raise an event.
    Raise(Event),
    /// Lets the call succeed, and has this event in place of its success.
    Deliver(CmEvent),
    /// Has the link fail.
    Disturb(LinkFault),
    /// Lowers a limit of the adapter.
    Limit(Limit),
    /// Has a completion queue fail.
    Spoil(QueueFault),
    /// Records the call or request, and lets it pass.
    Pass,
}

/// A rule of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The calls or requests that it counts.
    pub site: Site,
    /// Which ones of these.
    pub trigger: Trigger,
    /// The effect.
    pub action: Action,
    /// The peers of the queue pairs; none for all.
    pub peer: Option<Peer>,
}

/// The fault in a rule's text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadRule {
    /// No colon.
    #[error(
        "expected CALL [WHEN]: ERROR or qpN.OPERATION [WHEN]: STATUS, as in \
         \"ibv_reg_mr 2: ENOMEM\" or \"qp1.write 3: remote-access\""
    )]
    Form,
    /// The call is unknown.
    #[error("{0:?} is not a call that can fail{1}")]
    Call(String, String),
    /// The object or its operation is unknown.
    #[error(
        "{0:?} is not qpN.OPERATION (N from 1, or *), with one of these as OPERATION: {names}; \
         nor qpN.link, cqN.poll, cqN.event, cqN.completion",
        names = operation_names()
    )]
    Operation(String),
    /// The call's number cannot be read.
    #[error(
        "{0:?} is not N, N..M, N.., every N, p PROBABILITY, after N requests, after N ms or \
         after N s (N is a number from 1, PROBABILITY one from 0 to 1)"
    )]
    Trigger(String),
    /// The error is unknown.
    #[error("{0:?} is not the name of an error, as ENOMEM{1}")]
    Error(String, String),
    /// The event is unknown.
    #[error(
        "{0:?} is not an event of a port: down, down for N ms, lid-change, pkey-change, \
         sm-change, gid-change, client-reregister"
    )]
    Event(String),
    /// The adapter has one event.
    #[error(
        "{0:?} is not an event of the adapter, fatal, and no limit, as max_qp 16; limits are \
         {names}",
        names = limit::NAMES.join(", ")
    )]
    Adapter(String),
    /// The fault of a completion queue is unknown.
    #[error("{0:?} is not a fault of {1}: {names}", names = QueueFault::names(.1.part))]
    Queue(String, Queue),
    /// Limits are not counted.
    #[error("a limit, as {0:?}, holds from the beginning, so WHEN must be empty")]
    Limit(String),
    /// The fault of a link is unknown.
    #[error("{0:?} is not a fault of a link: {names}", names = link::NAMES)]
    Link(String),
    /// A cut concerns both directions of all queue pairs.
    #[error("{0} cannot be cut, only link, link1, ...; in one direction use \"loss\"")]
    Cut(Site),
    /// A fault has a probability twice.
    #[error("{0:?} has a percentage, so WHEN must be empty")]
    Twice(String),
    /// Events are not counted, and others are.
    #[error(
        "{0} [WHEN]: events begin \"after N requests\" or \"after N ms\" (s), and only \
         these do"
    )]
    After(Site),
    /// The peer cannot be read.
    #[error(
        "{0:?} is not a peer: \"lid 4\", \"gid 10.0.0.2\", \"qpn 0x111\", \"pid 4242\", or a part \
         of its command line"
    )]
    Peer(String),
    /// A schedule names the peer in the place and beside it.
    #[error("{0:?} names a peer, so there must be no other in \"peer\"")]
    TwoPeers(String),
    /// Only queue pairs have peers.
    #[error("{0} has no peer, only requests and receives of queue pairs and links have")]
    NoPeer(Site),
    /// The status is unknown, or impossible there.
    #[error("{1} cannot end with {0:?}, only with {names}", names = statuses(*.1))]
    Status(String, Site),
}

impl Trigger {
    /// Returns whether call `count` (from 1) is meant; `draw` is uniform in 0 to 1.
    pub fn is_met(self, count: u64, draw: impl FnOnce() -> f64) -> bool {
        match self {
            Trigger::Range(first, last) => (first..=last).contains(&count),
            Trigger::Every(step) => count.is_multiple_of(step),
            Trigger::Chance(probability) => draw() < probability,
            Trigger::AfterRequests(_) | Trigger::AfterTime(_) => false,
        }
    }
}

impl FromStr for Trigger {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = || BadRule::Trigger(text.to_owned());
        let number = |text: &str| match text.parse() {
            Ok(0) | Err(_) => Err(bad()),
            Ok(number) => Ok(number),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [] => Ok(Trigger::Range(1, u64::MAX)),
            ["after", count, "requests"] => Ok(Trigger::AfterRequests(number(count)?)),
            ["after", time, unit] => event::time(time, unit)
                .map(Trigger::AfterTime)
                .ok_or_else(bad),
            ["every", step] => Ok(Trigger::Every(number(step)?)),
            ["p", probability] => match probability.parse() {
                Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(Trigger::Chance(chance)),
                _ => Err(bad()),
            },
            [range] => match range.split_once("..") {
                None => number(range).map(|one| Trigger::Range(one, one)),
                Some((first, "")) => Ok(Trigger::Range(number(first)?, u64::MAX)),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    match first <= last {
                        true => Ok(Trigger::Range(first, last)),
                        false => Err(bad()),
                    }
                }
            },
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Trigger::Range(1, u64::MAX) => Ok(()),
            Trigger::Range(first, u64::MAX) => write!(to, " {first}.."),
            Trigger::Range(first, last) if first == last => write!(to, " {first}"),
            Trigger::Range(first, last) => write!(to, " {first}..{last}"),
            Trigger::Every(step) => write!(to, " every {step}"),
            Trigger::Chance(probability) => write!(to, " p {probability}"),
            Trigger::AfterRequests(count) => write!(to, " after {count} requests"),
            Trigger::AfterTime(time) => write!(to, " after {} ms", time.as_millis()),
        }
    }
}

impl Rule {
    /// Reads the two halves of a rule: `ibv_reg_mr 2` and `ENOMEM`.
    ///
    /// # Errors
    /// Names the wrong part.
    pub fn new(at: &str, action: &str) -> Result<Rule, BadRule> {
        let at = at.trim_start();
        let (at, peer) = match at.split_once(peer::WORD) {
            None => (at, None),
            Some((at, peer)) => {
                let bad = || BadRule::Peer(peer.trim().to_owned());
                (at, Some(Peer::read(peer).ok_or_else(bad)?))
            }
        };
        let at = at.trim_end();
        let (name, trigger) = at.split_once(char::is_whitespace).unwrap_or((at, ""));
        let site = Site::read(name)?;
        let mut trigger: Trigger = trigger.parse()?;
        let action = match (action.trim(), site) {
            ("pass", _) => Action::Pass,
            (word, Site::Call(call)) => match CmEvent::read(call, word) {
                Some(event) => Action::Deliver(event),
                None => Action::Refuse(errno::number(word).ok_or_else(|| bad_error(call, word))?),
            },
            (word, Site::Port(_)) => match Event::read(word) {
                None | Some(Event::Fatal | Event::Cut(_)) => {
                    return Err(BadRule::Event(word.to_owned()));
                }
                Some(event) => Action::Raise(event),
            },
            (word, Site::Adapter) => match Event::read(word) {
                Some(Event::Fatal) => Action::Raise(Event::Fatal),
                _ => match (Limit::read(word), trigger) {
                    (None, _) => return Err(BadRule::Adapter(word.to_owned())),
                    (Some(limit), Trigger::Range(1, u64::MAX)) => Action::Limit(limit),
                    (Some(_), _) => return Err(BadRule::Limit(word.to_owned())),
                },
            },
            (word, Site::Queue(queue)) => Action::Spoil(
                QueueFault::read(queue.part, word)
                    .ok_or_else(|| BadRule::Queue(word.to_owned(), queue))?,
            ),
            (word, Site::Link(_)) => read_link(word, site, &mut trigger)?,
            (word, _) => {
                let status = Status::possible(site).find(|one| one.to_string() == word);
                Action::End(status.ok_or_else(|| BadRule::Status(word.to_owned(), site))?)
            }
        };
        let is_after = matches!(trigger, Trigger::AfterRequests(_) | Trigger::AfterTime(_));
        let is_event = match action {
            Action::Raise(_) => true,
            Action::Pass => site.has_events(),
            _ => false,
        };
        if is_after != is_event {
            return Err(BadRule::After(site));
        }
        let has_peer = match site {
            Site::Requests(_, operation) => !operation.is_local(),
            Site::Receives(_) => true,
            Site::Link(_) => !is_event,
            _ => false,
        };
        if peer.is_some() && !has_peer {
            return Err(BadRule::NoPeer(site));
        }
        Ok(Rule {
            site,
            trigger,
            action,
            peer,
        })
    }

    /// Returns where and when it acts, as [`Rule::new`] reads it.
    pub fn at(&self) -> String {
        format!("{}{}{}", self.site, self.trigger, self.peer_in_words())
    }

    fn peer_in_words(&self) -> String {
        let words = |peer: &Peer| format!("{}{peer}", peer::WORD);
        self.peer.as_ref().map(words).unwrap_or_default()
    }

    /// Returns the place of a firing, as a rule without chance names it.
    pub fn place(&self, firing: &Firing) -> String {
        match self.site {
            _ if self.fires_once() => self.at(),
            site => {
                let peer = self.peer_in_words();
                format!("{} {}{peer}", site.at(firing.object), firing.count)
            }
        }
    }

    /// Returns whether it fires once in a process, rather than at each call or request: it is about
    /// an event, a limit, or a property of a link or queue.
    pub fn fires_once(&self) -> bool {
        match self.action {
            Action::Raise(_) | Action::Limit(_) => true,
            Action::Disturb(fault) => {
                fault.is_property() && matches!(self.trigger, Trigger::Range(_, u64::MAX))
            }
            Action::Spoil(fault) => {
                fault.is_property() && matches!(self.trigger, Trigger::Range(_, u64::MAX))
            }
            _ => self.site.has_events(),
        }
    }
}

/// Reads a fault of a link. Its probability is a trigger.
fn read_link(word: &str, site: Site, trigger: &mut Trigger) -> Result<Action, BadRule> {
    if let Some(event @ Event::Cut(_)) = Event::read(word) {
        let is_whole = matches!(site, Site::Link(link)
            if link.direction.is_none() && link.objects == Objects::Each);
        return match is_whole {
            true => Ok(Action::Raise(event)),
            false => Err(BadRule::Cut(site)),
        };
    }
    let (fault, chance) = LinkFault::read(word).ok_or_else(|| BadRule::Link(word.to_owned()))?;
    if let Some(chance) = chance {
        match trigger {
            Trigger::Range(1, u64::MAX) => *trigger = Trigger::Chance(chance),
            _ => return Err(BadRule::Twice(word.to_owned())),
        }
    }
    Ok(Action::Disturb(fault))
}

/// Returns the message for a word that is no failure of a call.
fn bad_error(call: &str, word: &str) -> BadRule {
    let events: Vec<String> = CmEvent::of(call).map(|event| event.to_string()).collect();
    let hint = match events.is_empty() {
        true => String::new(),
        false => format!(", or an event of {call}: {}", events.join(", ")),
    };
    BadRule::Error(word.to_owned(), hint)
}

/// Returns the statuses that are possible at a place, for messages.
fn statuses(site: Site) -> String {
    let names: Vec<String> = Status::possible(site).map(|one| one.to_string()).collect();
    names.join(", ")
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        // The GID of a peer has colons, too.
        let (at, action) = text.rsplit_once(':').ok_or(BadRule::Form)?;
        Rule::new(at, action)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.at(), self.action)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::End(status) => write!(to, "{status}"),
            Action::Raise(event) => write!(to, "{event}"),
            Action::Deliver(event) => write!(to, "{event}"),
            Action::Disturb(fault) => write!(to, "{fault}"),
            Action::Limit(limit) => write!(to, "{limit}"),
            Action::Spoil(fault) => write!(to, "{fault}"),
            Action::Refuse(number) => to.write_str(&errno::name(*number)),
            Action::Pass => to.write_str("pass"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_read_and_printed() {
        for text in [
            "ibv_reg_mr: ENOMEM",
            "ibv_reg_mr 2: ENOMEM",
            "ibv_reg_mr 2..5: EAGAIN",
            "ibv_create_qp 3..: EINVAL",
            "ibv_post_send every 100: ENOMEM",
            "rdma_connect p 0.25: ETIMEDOUT",
            "ibv_open_device 1: pass",
            "qp1.write 3: remote-access",
            "qp*.send every 3: rnr-retry-exceeded",
            "qp12.any p 0.01: retry-exceeded",
            "qp2.recv: local-length",
            "qp*.bind 1: window-bind",
            "qp1.read 1..4: pass",
            "port1 after 100 requests: down for 50 ms",
            "port2 after 1500 ms: down",
            "port1 after 0 ms: client-reregister",
            "adapter after 100 requests: fatal",
            "rdma_resolve_addr 2: addr-error",
            "rdma_connect: rejected",
            "rdma_connect 3..: ETIMEDOUT",
            "cq1.poll 3: empty",
            "cq*.poll: single",
            "cq2.event every 2: spurious",
            "cq*.event 2..: delay 5 ms",
            "cq1.completion 10: overrun",
            "adapter: max_qp 16",
            "adapter: max_mr_size 18446744073709551615",
            "link p 0.01: loss",
            "link2.out 3: corruption",
            "qp1.link.in 3..5: loss",
            "link.out every 7: duplicate",
            "qp2.link.out 1: reorder",
            "link: delay 5 us",
            "link1.in: jitter 250 us",
            "link: rate 10 Gb/s",
            "link.in: delay 3 s",
            "link.out: rate 1500 Mb/s",
            "link after 100 requests: cut",
            "link1 after 20 ms: cut for 50 ms",
            "qp*.send 3 peer ./server -p 1: flush",
            "qp1.recv peer pid 42: local-length",
            "link.out p 0.01 peer gid fe80::2: loss",
            "link peer lid 4: delay 5 us",
            "qp*.any every 2 peer qpn 0x111: retry-exceeded",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn percentages_are_probabilities_and_units_need_no_space() {
        for (text, same) in [
            ("link: loss 1%", "link p 0.01: loss"),
            ("link.in: corruption 2.5 %", "link.in p 0.025: corruption"),
            ("link: delay 2ms", "link: delay 2 ms"),
            ("link: jitter 250ns", "link: jitter 250 ns"),
            ("link: delay 3000 ns", "link: delay 3 us"),
            ("link: rate 10Gb/s", "link: rate 10 Gb/s"),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), same);
        }
    }

    #[test]
    fn firings_of_links_name_queue_pair_and_direction() {
        use crate::link::Direction;
        let firing = |object| Firing {
            rule: 0,
            process: 1,
            object,
            count: 7,
            command: String::new(),
        };
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let back = firing(Direction::In.object(3));
        assert_eq!(rule("link2: loss 1%").place(&back), "qp3.link2.in 7");
        let there = firing(Direction::Out.object(3));
        assert_eq!(rule("link: loss 1%").place(&there), "qp3.link.out 7");
        assert_eq!(rule("link 3..: delay 1 us").place(&there), "link 3..");
        assert_eq!(rule("link 3: delay 1 us").place(&there), "qp3.link.out 7");
    }

    #[test]
    fn wrong_rules_are_named() {
        let error = |text: &str| text.parse::<Rule>().unwrap_err().to_string();
        assert!(error("ibv_reg_mr 2").starts_with("expected CALL"));
        assert!(error("ibv_reg: ENOMEM").contains("did you mean ibv_reg_mr,"));
        assert!(error("ibv_dereg_mr: EBUSY").contains("not a call that can fail"));
        assert!(error(": ENOMEM").contains("verbena faults calls"));
        for when in [
            "0", "5..2", "every 0", "every", "p 2", "p NaN", "2 3", "-1", "x", "..", "1...2",
        ] {
            let found = error(&format!("ibv_reg_mr {when}: ENOMEM"));
            assert!(found.contains("is not N"), "{when}: {found}");
        }
        for site in ["ibv_reg_mr 2", "qp*.bind", "cq1.poll", "port1 after 1 s"] {
            let action = match site {
                "ibv_reg_mr 2" => "ENOMEM",
                "qp*.bind" => "flush",
                "cq1.poll" => "empty",
                _ => "down",
            };
            let found = error(&format!("{site} peer lid 4: {action}"));
            assert!(found.contains("has no peer"), "{found}");
        }
        assert!(error("qp1.send peer lid x: flush").contains("\"lid x\" is not a peer"));
        assert!(error("ibv_reg_mr: ENOMEMORY").contains("not the name of an error"));
        for object in [
            "qp0.write",
            "qp.write",
            "cq1.write",
            "qp1.",
            "qp1.writes",
            "qp-1.send",
            ".",
        ] {
            let found = error(&format!("{object}: flush"));
            assert!(found.contains("is not qpN.OPERATION"), "{object}: {found}");
        }
        for event in [
            "",
            "up",
            "down for 5",
            "down for x ms",
            "down for 86401 s",
            "ENOMEM",
        ] {
            let found = error(&format!("port1 after 1 s: {event}"));
            assert!(
                found.contains("is not an event of a port"),
                "{event}: {found}"
            );
        }
        for rule in [
            "port1: down",
            "port1 3: down",
            "qp1.send after 3 requests: flush",
        ] {
            assert!(error(rule).contains("and only these do"), "{rule}");
        }
        assert!(error("adapter: fatal").contains("and only these do"));
        assert!(error("adapter after 1 s: down").contains("of the adapter, fatal"));
        assert!(error("port1 after 1 s: fatal").contains("is not an event of a port"));
        assert!(error("rdma_connect: addr-error").ends_with("rdma_connect: rejected, unreachable"));
        assert!(error("port0 after 1 s: down").contains("is not a call"));
        assert!(error("port1 after 1 h: down").contains("is not N"));
        for text in [
            "link: lose",
            "link: loss 101%",
            "link: delay 5",
            "link: delay 61 s",
            "link: rate 0 Gb/s",
            "link: rate 5",
            "link: duplicate x",
            "link: down",
        ] {
            assert!(error(text).contains("is not a fault of a link"), "{text}");
        }
        assert!(error("link.out after 1 s: cut").contains("link.out cannot be cut"));
        assert!(error("link 3: cut").contains("and only these do"));
        assert!(error("link after 1 s: loss").contains("and only these do"));
        assert!(error("link 3: loss 1%").contains("WHEN must be empty"));
        assert!(error("cq1.poll: overrun").ends_with("is not a fault of cq1.poll: empty, single"));
        assert!(error("cq1.event: delay").contains("spurious, delay 5 ms"));
        assert!(error("cq1.completion: empty").ends_with(": overrun"));
        assert!(error("cq0.poll: empty").contains("is not qpN.OPERATION"));
        assert!(error("adapter: max_qps 1").contains("no limit, as max_qp 16"));
        assert!(error("adapter: max_qp").contains("no limit, as max_qp 16"));
        assert!(error("adapter: max_qp -1").contains("no limit, as max_qp 16"));
        assert!(error("adapter after 1 s: max_qp 3").contains("WHEN must be empty"));
        assert!(error("link0: loss").contains("link.out, link.in"));
        // Statuses that such a request never has.
        for rule in [
            "qp1.send: remote-access",
            "qp1.read: rnr-retry-exceeded",
            "qp1.bind: retry-exceeded",
            "qp1.write: window-bind",
            "qp1.recv: remote-access",
            "qp1.send: ENOMEM",
            "qp1.send: ",
        ] {
            assert!(error(rule).contains("cannot end with"), "{rule}");
        }
        assert_eq!(
            error("qp3.recv 2: flush"),
            "qp3.recv cannot end with \"flush\", only with local-length, local-protection"
        );
    }

    #[test]
    fn triggers_are_met() {
        let met = |text: &str| {
            let trigger: Trigger = text.parse().unwrap();
            (1..=10)
                .filter(|n| trigger.is_met(*n, || 0.5))
                .collect::<Vec<_>>()
        };
        assert_eq!(met("2"), [2]);
        assert_eq!(met("2..4"), [2, 3, 4]);
        assert_eq!(met("9.."), [9, 10]);
        assert_eq!(met("every 4"), [4, 8]);
        assert_eq!(met("p 0.5"), [] as [u64; 0]);
        assert_eq!(met("p 0.6").len(), 10);
        assert_eq!(met("").len(), 10);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            if let Ok(rule) = text.parse::<Rule>() {
                prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
            }
        }
    }
}
