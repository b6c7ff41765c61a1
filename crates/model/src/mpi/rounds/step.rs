//! What an algorithm says of a message: which parts of the data are in it.

use super::Round;

/// To or from whom, and which parts.
pub(super) type Parts = (usize, Vec<usize>);

/// A round, with the parts that are sent and received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub send: Option<Parts>,
    pub receive: Option<Parts>,
    /// It begins together with the step before.
    pub beside: bool,
}

impl Step {
    pub fn send(to: usize, parts: Vec<usize>) -> Step {
        Step {
            send: Some((to, parts)),
            receive: None,
            beside: false,
        }
    }

    pub fn receive(from: usize, parts: Vec<usize>) -> Step {
        Step {
            send: None,
            receive: Some((from, parts)),
            beside: false,
        }
    }

    pub fn exchange(send: Parts, receive: Parts) -> Step {
        Step {
            send: Some(send),
            receive: Some(receive),
            beside: false,
        }
    }

    /// The same, with all of the data in each message.
    pub fn whole(self) -> Step {
        let all = |parts: Option<Parts>| parts.map(|(peer, _)| (peer, vec![0]));
        Step {
            send: all(self.send),
            receive: all(self.receive),
            ..self
        }
    }

    /// Steps that begin together.
    pub fn at_once(steps: Vec<Step>) -> Vec<Step> {
        let all = steps.len();
        Step::in_batches(steps, all)
    }

    /// Steps of which so many begin together, then as many more.
    pub fn in_batches(steps: Vec<Step>, most: usize) -> Vec<Step> {
        let first = |(number, step)| Step {
            beside: number % most.max(1) > 0,
            ..step
        };
        steps.into_iter().enumerate().map(first).collect()
    }

    /// The same operation the other way round: what was sent is received, and what was last is first.
    pub fn backwards(steps: Vec<Step>) -> Vec<Step> {
        let groups: Vec<_> = steps.chunk_by(|_, next| next.beside).collect();
        let turned = |group: &&[Step]| {
            let turned = group.iter().cloned().map(|step| Step {
                send: step.receive,
                receive: step.send,
                ..step
            });
            turned.collect::<Vec<_>>()
        };
        groups.iter().rev().flat_map(turned).collect()
    }

    /// Rounds, when the sizes of the parts are known.
    pub fn rounds(steps: &[Step], bytes_of: impl Fn(usize) -> u64) -> Vec<Round> {
        let sized = |parts: &Option<Parts>| {
            let parts = parts.as_ref();
            parts.map(|(peer, parts)| (*peer, parts.iter().map(|&part| bytes_of(part)).sum()))
        };
        let round = |step: &Step| Round {
            send: sized(&step.send),
            receive: sized(&step.receive),
            beside: step.beside,
        };
        steps.iter().map(round).collect()
    }
}
