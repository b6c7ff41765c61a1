//! Steps of an algorithm: messages with the parts of the data that they contain.

use super::Round;

/// Peer, and parts.
pub(super) type Parts = (usize, Vec<usize>);

/// A round with the parts that are sent and received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub send: Option<Parts>,
    pub receive: Option<Parts>,
    /// Whether it starts together with the previous step.
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

    /// Returns the step with the whole data in each message.
    pub fn whole(self) -> Step {
        let all = |parts: Option<Parts>| parts.map(|(peer, _)| (peer, vec![0]));
        Step {
            send: all(self.send),
            receive: all(self.receive),
            ..self
        }
    }

    /// Has all steps start together.
    pub fn at_once(steps: Vec<Step>) -> Vec<Step> {
        let all = steps.len();
        Step::in_batches(steps, all)
    }

    /// Has steps start together in batches of `most`.
    pub fn in_batches(steps: Vec<Step>, most: usize) -> Vec<Step> {
        let first = |(number, step)| Step {
            beside: number % most.max(1) > 0,
            ..step
        };
        steps.into_iter().enumerate().map(first).collect()
    }

    /// Returns the reverse operation: sends and receives exchanged, and the steps in reverse order.
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

    /// Converts steps to rounds, given the sizes of the parts.
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
