//! Attributes waiting to ranks, and finds the critical path to the end.
//!
//! An idle rank resumes because another rank acted: until that action it waits for the other rank,
//! from then on for data in transit. The path is followed from the end
//! backwards: while the processor was busy it follows the processor; before an arrival it follows
//! the wire, and before that the sender. It thus covers all of the time exactly once.

use super::timeline::{Activity, Span};
use std::collections::BTreeMap;
use verbena_model::kernel::Time;

/// Waiting time of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waited {
    /// Time waiting for other ranks' actions, by rank.
    pub others: BTreeMap<usize, Time>,
    /// Time waiting for data in transit: adapters, buses, links, and contention for them.
    pub wire: Time,
}

impl Waited {
    /// Computes a rank's waiting time from its whole timeline.
    pub(super) fn of(rank: usize, timeline: &[Span]) -> Waited {
        let mut waited = Waited::default();
        for span in timeline {
            let Activity::Nothing(cause) = span.activity else {
                continue;
            };
            let whole = span.end.since(span.start);
            let late = match cause {
                Some(cause) if cause.rank != rank => {
                    let late = cause.at.min(span.end).since(span.start);
                    if late > Time::ZERO {
                        let sum = waited.others.entry(cause.rank).or_default();
                        *sum += late;
                    }
                    late
                }
                _ => Time::ZERO,
            };
            waited.wire += whole.since(late);
        }
        waited
    }
}

/// Kind of a segment of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A rank's computing.
    Computing,
    /// Processor time of a rank for messages.
    Overhead,
    /// Data in transit to a rank, possibly from itself: its own adapter's work.
    Wire {
        /// The source rank.
        from: usize,
    },
}

/// A segment of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The rank.
    pub rank: usize,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Kind.
    pub link: Link,
}

/// The critical path to the end, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Its segments, without gaps.
    pub stretches: Vec<Stretch>,
}

impl Chain {
    /// Finds the path in the timelines of all ranks.
    pub(super) fn of(timelines: &[Vec<Span>]) -> Chain {
        let end = |rank: &usize| timelines[*rank].last().map_or(Time::ZERO, |span| span.end);
        // Of ranks that end together the first, for a deterministic result.
        let Some(last) = (0..timelines.len()).rev().max_by_key(end) else {
            return Chain::default();
        };
        let (mut rank, mut now) = (last, end(&last));
        let mut stretches = Vec::new();
        // Number of ranks visited without going back in time.
        let mut aside = 0;
        while now > Time::ZERO {
            let (start, link, next) = match span_before(&timelines[rank], now) {
                // After its end, a rank has only its adapter's remaining work.
                Some(span) if span.end < now => (span.end, Link::Wire { from: rank }, rank),
                Some(span) => match span.activity {
                    Activity::Computing => (span.start, Link::Computing, rank),
                    Activity::Overhead => (span.start, Link::Overhead, rank),
                    Activity::Nothing(Some(cause))
                        if cause.at <= now && aside < timelines.len() =>
                    {
                        let from = cause.rank;
                        (cause.at, Link::Wire { from }, from)
                    }
                    Activity::Nothing(_) => (span.start, Link::Wire { from: rank }, rank),
                },
                None => (Time::ZERO, Link::Wire { from: rank }, rank),
            };
            aside = match start < now {
                true => 0,
                false => aside + 1,
            };
            if start < now {
                stretches.push(Stretch {
                    rank,
                    start,
                    end: now,
                    link,
                });
            }
            (rank, now) = (next, start);
        }
        stretches.reverse();
        Chain { stretches }
    }

    /// Returns its computing, overhead and wire time.
    pub fn shares(&self) -> [Time; 3] {
        let mut shares = [Time::ZERO; 3];
        for stretch in &self.stretches {
            let share = match stretch.link {
                Link::Computing => &mut shares[0],
                Link::Overhead => &mut shares[1],
                Link::Wire { .. } => &mut shares[2],
            };
            *share += stretch.end.since(stretch.start);
        }
        shares
    }

    /// Returns the number of moves from one rank to another.
    pub fn crossings(&self) -> usize {
        let crosses = |stretch: &&Stretch| {
            matches!(stretch.link,
            Link::Wire { from } if from != stretch.rank)
        };
        self.stretches.iter().filter(crosses).count()
    }
}

fn span_before(timeline: &[Span], now: Time) -> Option<Span> {
    let later = timeline.partition_point(|span| span.start < now);
    timeline[..later].last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::mpi::Cause;

    fn span(start: u64, end: u64, activity: Activity) -> Span {
        Span {
            start: Time(start),
            end: Time(end),
            activity,
        }
    }

    fn by(rank: usize, at: u64) -> Activity {
        let at = Time(at);
        Activity::Nothing(Some(Cause { rank, at }))
    }

    /// Rank 1 computes until 60 and posts until 70; rank 0 waits from 20, goes on at 90, ends at
    /// 100.
    fn late_sender() -> Vec<Vec<Span>> {
        let waits = vec![
            span(0, 20, Activity::Computing),
            span(20, 90, by(1, 70)),
            span(90, 100, Activity::Overhead),
        ];
        let sends = vec![
            span(0, 60, Activity::Computing),
            span(60, 70, Activity::Overhead),
        ];
        vec![waits, sends]
    }

    #[test]
    fn waiting_is_split_between_late_sender_and_wire() {
        let timelines = late_sender();
        let waited = Waited::of(0, &timelines[0]);
        assert_eq!(waited.others, BTreeMap::from([(1, Time(50))]));
        assert_eq!(waited.wire, Time(20));
        assert_eq!(Waited::of(1, &timelines[1]), Waited::default());
    }

    #[test]
    fn the_critical_path_passes_through_the_late_rank() {
        let chain = Chain::of(&late_sender());
        let stretch = |rank, start, end, link| Stretch {
            rank,
            start: Time(start),
            end: Time(end),
            link,
        };
        assert_eq!(
            chain.stretches,
            [
                stretch(1, 0, 60, Link::Computing),
                stretch(1, 60, 70, Link::Overhead),
                stretch(0, 70, 90, Link::Wire { from: 1 }),
                stretch(0, 90, 100, Link::Overhead),
            ]
        );
        assert_eq!(chain.shares(), [Time(60), Time(20), Time(20)]);
        assert_eq!(chain.crossings(), 1);
    }

    /// Waiting for data that were sent before counts as wire, and so does waiting for the own
    /// adapter.
    #[test]
    fn waiting_for_data_already_sent_counts_as_wire() {
        let timeline = vec![span(0, 50, Activity::Computing), span(50, 80, by(1, 10))];
        let waited = Waited::of(0, &timeline);
        assert_eq!((waited.others.len(), waited.wire), (0, Time(30)));
        let own = vec![span(0, 50, Activity::Overhead), span(50, 80, by(0, 40))];
        assert_eq!(Waited::of(0, &own).wire, Time(30));
        let chain = Chain::of(&[own]);
        assert_eq!(chain.shares(), [Time(0), Time(40), Time(40)]);
        assert_eq!(chain.crossings(), 0);
    }

    /// Two ranks that name each other at the same instant, which no replay does: the search ends
    /// nevertheless.
    #[test]
    fn circular_causes_terminate() {
        let timeline = |other| vec![span(0, 10, by(other, 10))];
        let chain = Chain::of(&[timeline(1), timeline(0)]);
        assert_eq!(chain.shares().iter().map(|share| share.0).sum::<u64>(), 10);
    }
}
