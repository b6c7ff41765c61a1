//! Exports programs as a schedule in GOAL's text format.
//!
//! GOAL has no remote memory access. An access becomes a message that the target rank receives on a
//! second core, and an answer from there if bytes come back.

use crate::program::{Act, Program, Step};
use std::collections::HashMap;
use std::fmt::{self, Write};
use verbena_model::mpi::Round;

/// Additional bit in the tags of answers to accesses.
const ANSWER: u32 = 1 << 29;

/// Writes the schedule of all ranks; computing takes `scale` times the recorded time.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn goal(programs: &[Program], scale: f64, to: &mut impl Write) -> fmt::Result {
    let mut served: Vec<Vec<Served>> = programs.iter().map(|_| Vec::new()).collect();
    for (origin, program) in programs.iter().enumerate() {
        for step in &program.steps {
            if let &Step::Begin {
                act:
                    Act::Access {
                        peer,
                        out,
                        back,
                        mark,
                    },
                ..
            } = step
            {
                served[peer].push(Served {
                    origin,
                    out,
                    back,
                    mark,
                });
            }
        }
    }
    writeln!(to, "num_ranks {}", programs.len())?;
    for (rank, (program, served)) in programs.iter().zip(served).enumerate() {
        writeln!(to, "rank {rank} {{")?;
        let mut schedule = Schedule {
            to,
            scale,
            count: 0,
            before: Vec::new(),
            under_way: HashMap::new(),
        };
        program
            .steps
            .iter()
            .try_for_each(|step| schedule.step(step))?;
        served.iter().try_for_each(|one| schedule.serve(one))?;
        writeln!(to, "}}")?;
    }
    Ok(())
}

/// Another rank's access to this rank's memory.
struct Served {
    origin: usize,
    out: u64,
    back: u64,
    mark: u32,
}

/// An operation, by its number, and the state it must have reached.
#[derive(Clone, Copy)]
enum Before {
    Begun(usize),
    Ended(usize),
}

/// A rank's operations during the export.
struct Schedule<'a, W> {
    to: &'a mut W,
    scale: f64,
    count: usize,
    /// Requirements of the next operation.
    before: Vec<Before>,
    /// Last operations of each active slot.
    under_way: HashMap<usize, Vec<usize>>,
}

impl<W: Write> Schedule<'_, W> {
    fn step(&mut self, step: &Step) -> fmt::Result {
        match step {
            &Step::Compute(nanos) => {
                let nanos = (nanos as f64 * self.scale).round();
                let before = std::mem::take(&mut self.before);
                let computed = self.operation(format_args!("calc {nanos}"), &before)?;
                self.before = vec![Before::Ended(computed)];
            }
            Step::Begin { slot, act } => self.begin(*slot, act)?,
            Step::Wait { slot, .. } => {
                let ended = self.under_way.remove(slot).unwrap_or_default();
                self.before.extend(ended.into_iter().map(Before::Ended));
            }
            Step::Forget { slot } => {
                self.under_way.remove(slot);
            }
        }
        Ok(())
    }

    /// Writes an operation with its requirements; returns its number.
    fn operation(
        &mut self,
        what: fmt::Arguments<'_>,
        before: &[Before],
    ) -> Result<usize, fmt::Error> {
        let number = self.count;
        self.count += 1;
        writeln!(self.to, "l{number}: {what}")?;
        for before in before {
            match before {
                Before::Begun(other) => writeln!(self.to, "l{number} irequires l{other}")?,
                Before::Ended(other) => writeln!(self.to, "l{number} requires l{other}")?,
            }
        }
        Ok(number)
    }

    fn begin(&mut self, slot: usize, act: &Act) -> fmt::Result {
        let before = std::mem::take(&mut self.before);
        let (first, last) = match act {
            &Act::Send {
                to, bytes, mark, ..
            } => self.alone(format_args!("send {bytes}b to {to} tag {mark}"), &before)?,
            &Act::Receive { from, bytes, mark } => self.alone(
                format_args!("recv {bytes}b from {from} tag {mark}"),
                &before,
            )?,
            Act::Rounds {
                rounds,
                members,
                mark,
            } => self.rounds(rounds, members, *mark, &before)?,
            &Act::Access {
                peer,
                out,
                back,
                mark,
            } => self.access(peer, out, back, mark, &before)?,
        };
        // A rank without an action in an operation keeps its requirements.
        self.before = match first.is_empty() {
            true => before,
            false => first.into_iter().map(Before::Begun).collect(),
        };
        self.under_way.entry(slot).or_default().extend(last);
        Ok(())
    }

    fn alone(
        &mut self,
        what: fmt::Arguments<'_>,
        before: &[Before],
    ) -> Result<(Vec<usize>, Vec<usize>), fmt::Error> {
        let number = self.operation(what, before)?;
        Ok((vec![number], vec![number]))
    }

    /// Writes the rounds; returns the operations of the first and of the last one.
    fn rounds(
        &mut self,
        rounds: &[Round],
        members: &[usize],
        mark: u32,
        before: &[Before],
    ) -> Result<(Vec<usize>, Vec<usize>), fmt::Error> {
        let (mut first, mut last) = (None, Vec::new());
        let mut before = before.to_vec();
        for together in Round::together(rounds) {
            last = Vec::new();
            for round in together {
                if let Some((to, bytes)) = round.send {
                    let to = members[to];
                    let number =
                        self.operation(format_args!("send {bytes}b to {to} tag {mark}"), &before)?;
                    last.push(number);
                }
                if let Some((from, bytes)) = round.receive {
                    let from = members[from];
                    let number = self.operation(
                        format_args!("recv {bytes}b from {from} tag {mark}"),
                        &before,
                    )?;
                    last.push(number);
                }
            }
            before = last.iter().copied().map(Before::Ended).collect();
            first.get_or_insert_with(|| last.clone());
        }
        Ok((first.unwrap_or_default(), last))
    }

    fn access(
        &mut self,
        peer: usize,
        out: u64,
        back: u64,
        mark: u32,
        before: &[Before],
    ) -> Result<(Vec<usize>, Vec<usize>), fmt::Error> {
        let asked = self.operation(format_args!("send {out}b to {peer} tag {mark}"), before)?;
        if back == 0 {
            return Ok((vec![asked], vec![asked]));
        }
        let answer = mark | ANSWER;
        let answered = self.operation(
            format_args!("recv {back}b from {peer} tag {answer}"),
            &[Before::Begun(asked)],
        )?;
        Ok((vec![asked], vec![asked, answered]))
    }

    fn serve(&mut self, one: &Served) -> fmt::Result {
        let &Served {
            origin,
            out,
            back,
            mark,
        } = one;
        let asked = self.operation(
            format_args!("recv {out}b from {origin} tag {mark} cpu 1"),
            &[],
        )?;
        if back > 0 {
            let answer = mark | ANSWER;
            self.operation(
                format_args!("send {back}b to {origin} tag {answer} cpu 1"),
                &[Before::Ended(asked)],
            )?;
        }
        Ok(())
    }
}
