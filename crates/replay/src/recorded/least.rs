//! The least time of a recorded program on any machine with the same links.

use crate::least::{Instant, Instants};
use crate::program::{Act, Program, Step};
use std::collections::HashMap;
use verbena_model::kernel::Time;

/// A message: sender, receiver, mark; in a collective operation the number of the operation among
/// those with the same mark, and of its round among those with the same sender and receiver.
type Message = (usize, usize, u32, (usize, usize));

/// The number of collective operations of a rank so far, by mark and by size and ends of the group.
type Performed = HashMap<(u32, usize, Option<usize>, Option<usize>), usize>;

/// A receive: until when, of what, how many bytes.
type Awaited = (Instant, Message, u64);

#[derive(Default)]
struct Builder {
    instants: Instants,
    sent: HashMap<Message, Instant>,
    awaited: Vec<Awaited>,
}

/// The instants at which an operation has ended, apart from its messages, and the messages.
#[derive(Default)]
struct Begun {
    instants: Vec<Instant>,
    messages: Vec<(Message, u64)>,
}

/// Returns the least time of programs with rank `i` on node `nodes[i]` and recorded computing times
/// multiplied by `scale`; `wire` has the time of a message of so many bytes on a node's link.
pub fn least(
    programs: &[Program],
    nodes: &[usize],
    scale: f64,
    wire: impl Fn(u64) -> Time,
) -> Time {
    let mut builder = Builder::default();
    for (rank, program) in programs.iter().enumerate() {
        builder.add(rank, program, scale);
    }
    let Builder {
        mut instants,
        sent,
        awaited,
    } = builder;
    for (at, message, bytes) in awaited {
        let (from, to, ..) = message;
        if let Some(&sent) = sent.get(&message) {
            let time = match nodes.get(from) == nodes.get(to) {
                true => Time::ZERO,
                false => wire(bytes),
            };
            instants.arrives(at, sent, time);
        }
    }
    instants.last()
}

impl Builder {
    fn add(&mut self, rank: usize, program: &Program, scale: f64) {
        let mut now = self.instants.add(&[]);
        let mut slots: HashMap<usize, Vec<Begun>> = HashMap::new();
        let mut performed = Performed::new();
        for step in &program.steps {
            match step {
                Step::Compute(nanos) => {
                    now = self.instants.add(&[now]);
                    let time = Time::from_nanos(*nanos as f64 * scale);
                    self.instants.computes(now, time);
                }
                Step::Begin { slot, act } => {
                    let begun = self.begin(rank, now, act, &mut performed);
                    slots.entry(*slot).or_default().push(begun);
                }
                Step::Wait { slot, .. } => {
                    now = self.instants.add(&[now]);
                    for begun in slots.remove(slot).unwrap_or_default() {
                        for earlier in begun.instants {
                            self.instants.follows(now, earlier);
                        }
                        let messages = begun.messages.into_iter();
                        let awaited = messages.map(|(message, bytes)| (now, message, bytes));
                        self.awaited.extend(awaited);
                    }
                }
                Step::Forget { slot } => {
                    slots.remove(slot);
                }
            }
        }
    }

    /// Notes a message; of several alike the first one counts.
    fn sends(&mut self, message: Message, at: Instant) {
        self.sent.entry(message).or_insert(at);
    }

    fn begin(&mut self, rank: usize, now: Instant, act: &Act, performed: &mut Performed) -> Begun {
        let mut begun = Begun::default();
        match act {
            Act::Send { to, mark, .. } => {
                self.sends((rank, *to, *mark, (0, 0)), now);
            }
            Act::Receive { from, bytes, mark } => {
                begun.messages.push(((*from, rank, *mark, (0, 0)), *bytes));
            }
            // One-sided: the target does not wait for them.
            Act::Access { .. } => {}
            Act::Rounds {
                rounds,
                members,
                mark,
            } => {
                let ends = (members.first().copied(), members.last().copied());
                let key = (*mark, members.len(), ends.0, ends.1);
                let operation = next(performed.entry(key).or_default());
                let mut counts: HashMap<(usize, usize), usize> = HashMap::new();
                let mut number = |from: usize, to: usize| {
                    (operation, next(counts.entry((from, to)).or_default()))
                };
                let (mut start, mut at) = (now, now);
                for round in rounds.iter() {
                    if !round.beside {
                        start = at;
                        at = self.instants.add(&[start]);
                    }
                    if let Some((to, _)) = round.send {
                        let to = members[to];
                        let message = (rank, to, *mark, number(rank, to));
                        self.sends(message, start);
                    }
                    if let Some((from, bytes)) = round.receive {
                        let from = members[from];
                        let message = (from, rank, *mark, number(from, rank));
                        self.awaited.push((at, message, bytes));
                    }
                }
                begun.instants.push(at);
            }
        }
        begun
    }
}

/// Counts up and returns the number before.
fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::mpi::Round;

    fn program(steps: Vec<Step>) -> Program {
        Program { steps }
    }

    fn begin(act: Act) -> Step {
        Step::Begin { slot: 0, act }
    }

    const WAIT: Step = Step::Wait { slot: 0, call: 0 };

    #[test]
    fn computing_and_the_bytes_of_a_link_add_up() {
        let send = |mark| {
            begin(Act::Send {
                to: 2,
                bytes: 400,
                mark,
                blocking: true,
            })
        };
        let receive = |from| {
            begin(Act::Receive {
                from,
                bytes: 400,
                mark: 1,
            })
        };
        let programs = [
            program(vec![Step::Compute(1), send(1), WAIT]),
            program(vec![Step::Compute(2), send(1), WAIT]),
            program(vec![receive(0), receive(1), WAIT, Step::Compute(5)]),
        ];
        let least = |nodes: &[usize], scale| least(&programs, nodes, scale, Time).0;
        assert_eq!(least(&[0, 1, 2], 1.0), 7400);
        assert_eq!(least(&[0, 1, 2], 0.0), 800);
        assert_eq!(least(&[0, 1, 1], 1.0), 7000);
    }

    #[test]
    fn rounds_of_a_collective_follow_each_other() {
        let rounds = |peer: usize| {
            let exchange = Round {
                send: Some((peer, 100)),
                receive: Some((peer, 100)),
                beside: false,
            };
            begin(Act::Rounds {
                rounds: [exchange, exchange].into(),
                members: [0, 1].into(),
                mark: 9,
            })
        };
        let programs = [
            program(vec![Step::Compute(1), rounds(1), WAIT]),
            program(vec![rounds(0), WAIT]),
        ];
        assert_eq!(least(&programs, &[0, 1], 1.0, Time).0, 1200);
    }
}
