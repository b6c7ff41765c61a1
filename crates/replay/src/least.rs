//! The least time of a program on any machine with the same links: its computing, and the bytes of
//! its messages at the rate of a node's link, in the order of its dependencies.
//!
//! An instant comes no earlier than any instant before it, and no earlier than the messages that
//! arrive until then have passed the receiver's link: of those sent from some instant on, all of
//! them one after another. Everything else takes no time.

use std::cmp::Reverse;
use std::collections::VecDeque;
use verbena_model::kernel::Time;

/// The number of an instant.
pub(crate) type Instant = usize;

/// The instants of all ranks of a program, and their dependencies.
#[derive(Debug, Default)]
pub(crate) struct Instants {
    all: Vec<Dependencies>,
}

#[derive(Debug, Default)]
struct Dependencies {
    /// Earlier instants.
    after: Vec<Instant>,
    /// Messages that have arrived by now: when they were sent, and their time on the link.
    arrivals: Vec<(Instant, Time)>,
    /// Computing between all these and this instant.
    computing: Time,
}

impl Instants {
    /// Adds an instant after others.
    pub fn add(&mut self, after: &[Instant]) -> Instant {
        self.all.push(Dependencies {
            after: after.to_vec(),
            ..Dependencies::default()
        });
        self.all.len() - 1
    }

    /// Delays an instant until another one.
    pub fn follows(&mut self, at: Instant, earlier: Instant) {
        self.all[at].after.push(earlier);
    }

    /// Delays an instant until a message has arrived that was sent at `sent` and takes `time` on
    /// the receiver's link.
    pub fn arrives(&mut self, at: Instant, sent: Instant, time: Time) {
        self.all[at].arrivals.push((sent, time));
    }

    /// Delays an instant by computing after all else.
    pub fn computes(&mut self, at: Instant, time: Time) {
        self.all[at].computing += time;
    }

    /// Returns the least time until the last instant. Instants that wait for each other count as
    /// if they did not.
    pub fn last(&self) -> Time {
        let mut waits = vec![0_usize; self.all.len()];
        let mut next = vec![Vec::new(); self.all.len()];
        for (at, one) in self.all.iter().enumerate() {
            let sent = one.arrivals.iter().map(|(sent, _)| sent);
            for &earlier in one.after.iter().chain(sent) {
                waits[at] += 1;
                next[earlier].push(at as u32);
            }
        }
        let mut least = vec![Time::ZERO; self.all.len()];
        let ready = waits.iter().enumerate().filter(|(_, count)| **count == 0);
        let mut ready: VecDeque<Instant> = ready.map(|(at, _)| at).collect();
        while let Some(at) = ready.pop_front() {
            least[at] = self.all[at].least(&least);
            for &later in &next[at] {
                let later = later as usize;
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.push_back(later);
                }
            }
        }
        least.into_iter().max().unwrap_or_default()
    }
}

impl Dependencies {
    fn least(&self, least: &[Time]) -> Time {
        let after = self.after.iter().map(|&earlier| least[earlier]);
        let after = after.max().unwrap_or_default();
        let arrivals = self.arrivals.iter();
        let mut arrivals: Vec<(Time, Time)> =
            arrivals.map(|&(sent, time)| (least[sent], time)).collect();
        // The last ones first: each sum is of all messages sent from then on.
        arrivals.sort_by_key(|(sent, _)| Reverse(*sent));
        let mut together = Time::ZERO;
        let arrived = arrivals.into_iter().map(|(sent, time)| {
            together += time;
            sent + together
        });
        after.max(arrived.max().unwrap_or_default()) + self.computing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_a_link_one_after_another() {
        let mut instants = Instants::default();
        let early = instants.add(&[]);
        let late = instants.add(&[]);
        instants.computes(late, Time(100));
        let all = instants.add(&[]);
        // The early ones have passed before the late one is sent.
        for sent in [early, early, late] {
            instants.arrives(all, sent, Time(40));
        }
        assert_eq!(instants.last(), Time(140));
        let next = instants.add(&[]);
        for sent in [early, early, early, late] {
            instants.arrives(next, sent, Time(40));
        }
        instants.follows(next, all);
        instants.computes(next, Time(5));
        assert_eq!(instants.last(), Time(165));
    }

    #[test]
    fn circles_end() {
        let mut instants = Instants::default();
        let one = instants.add(&[]);
        let other = instants.add(&[one]);
        instants.follows(one, other);
        let free = instants.add(&[]);
        instants.computes(free, Time(7));
        assert_eq!(instants.last(), Time(7));
    }
}
