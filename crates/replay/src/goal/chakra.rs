//! Converts Chakra execution traces to schedules.
//!
//! A node becomes an operation that requires those of the nodes on which it depends; a collective
//! operation becomes the sends and receives of its rounds. Nodes of the host, of the accelerator
//! and of the network run beside each other, each kind on another core.

use super::joint::Joints;
use super::schedule::{Action, Operation, Schedule, refuse_circles};
use super::text::{MOST_BYTES, MOST_NANOS};
use std::collections::{BTreeMap, HashMap};
use verbena_model::mpi::Round;
use verbena_mpi_trace::chakra::{self, Collective, Error, Node, Rank, Trace};

/// Maximum number of operations: a schedule is kept in memory, and its text has a limit.
const MOST_OPERATIONS: u64 = 1 << 23;

/// Cores of a rank.
const HOST: u8 = 0;
const ACCELERATOR: u8 = 1;
const NETWORK: u8 = 2;
/// Operations without duration, which wait for no core.
const NOTHING: u8 = 3;

/// Bit in the tags of collective operations' messages; the rest is the operation's number.
const COLLECTIVE: u32 = 1 << 31;

/// A converted trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    /// The schedule.
    pub schedule: Schedule,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of messages that are nodes, and their bytes.
    pub messages: (u64, u64),
    /// Number of collective operations of each kind, each counted once, and the sum of its
    /// members' bytes.
    pub collectives: BTreeMap<Collective, (u64, u64)>,
    /// Number of each kind of item that the schedule lacks.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Converts a trace. A computation without duration takes the time of its operations by
/// `flops_per_second`.
///
/// # Errors
///
/// Returns [`Error`] with file and node if a node depends on one that the file lacks or on itself,
/// a peer or process group is unknown, the members of a group disagree, or the schedule exceeds the
/// models' limits.
pub fn convert(trace: &Trace, flops_per_second: Option<f64>) -> Result<Converted, Error> {
    let joints = Joints::of(trace)?;
    check_size(trace, &joints)?;
    let mut conversion = Conversion {
        trace,
        flops_per_second,
        joints,
        bytes: 0,
        nanos: 0,
        done: Converted::default(),
    };
    conversion.done.schedule.ranks = trace.ranks.len();
    for joint in &conversion.joints.all {
        let all = conversion.done.collectives.entry(joint.kind).or_default();
        *all = (all.0 + 1, all.1.saturating_add(joint.total()));
    }
    for rank in 0..trace.ranks.len() {
        let operations = conversion.rank(rank)?;
        if !operations.is_empty() {
            conversion.done.schedule.operations.insert(rank, operations);
        }
    }
    Ok(conversion.done)
}

/// Refuses a trace whose schedule has too many operations.
fn check_size(trace: &Trace, joints: &Joints) -> Result<(), Error> {
    let nodes: usize = trace.ranks.iter().map(|rank| rank.nodes.len()).sum();
    // Each message is a send and a receive.
    let messages: u64 = joints.all.iter().map(|joint| 2 * joint.messages()).sum();
    let size = nodes as u64 + messages;
    match size <= MOST_OPERATIONS {
        true => Ok(()),
        false => Err(Error::Lacking(format!(
            "the nodes and the messages of their collective operations are {size} operations of \
             a schedule, and at most {MOST_OPERATIONS} are possible; choose fewer ranks or a part \
             of the program"
        ))),
    }
}

struct Conversion<'a> {
    trace: &'a Trace,
    flops_per_second: Option<f64>,
    joints: Joints,
    /// Bytes of the messages so far, and time of the computing.
    bytes: u64,
    nanos: u64,
    done: Converted,
}

/// A rank's operations during the conversion.
#[derive(Default)]
struct Operations {
    all: Vec<Operation>,
    /// The first operations of each node, and its last one.
    ends: Vec<(Vec<usize>, usize)>,
}

impl Operations {
    /// Appends an operation of the node that is converted.
    fn push(&mut self, action: Action, cpu: u8, requires: Vec<usize>) -> usize {
        self.all.push(Operation {
            line: self.ends.len() + 1,
            action,
            cpu,
            requires,
            requires_begun: Vec::new(),
        });
        self.all.len() - 1
    }
}

impl Conversion<'_> {
    fn rank(&mut self, rank: usize) -> Result<Vec<Operation>, Error> {
        let trace = self.trace;
        let of = &trace.ranks[rank];
        let mut operations = Operations::default();
        for (index, node) in of.nodes.iter().enumerate() {
            let ends = self
                .node(rank, index, node, &mut operations)
                .map_err(|reason| of.fault(node, reason))?;
            operations.ends.push(ends);
            self.done.nodes += 1;
        }
        self.require(of, &mut operations)?;
        refuse_circles(&operations.all).map_err(|fault| {
            let node = &of.nodes[fault.line - 1];
            of.fault(node, "it depends on itself, by way of other nodes")
        })?;
        Ok(operations.all)
    }

    /// Adds the dependencies of all nodes.
    fn require(&mut self, of: &Rank, operations: &mut Operations) -> Result<(), Error> {
        let numbers: HashMap<u64, usize> = of.nodes.iter().map(|node| node.id).zip(0..).collect();
        for (index, node) in of.nodes.iter().enumerate() {
            let mut before = Vec::with_capacity(node.data.len() + node.control.len());
            for id in &node.data {
                let Some(&other) = numbers.get(id) else {
                    let reason = format!("it depends on node {id}, which the file lacks");
                    return Err(of.fault(node, reason));
                };
                before.push(operations.ends[other].1);
            }
            for id in &node.control {
                match numbers.get(id) {
                    Some(&other) => before.push(operations.ends[other].1),
                    // The converter of PyTorch's traces removes callers without data.
                    None => self.leave_out("control dependency on a node that the file lacks"),
                }
            }
            before.sort_unstable();
            before.dedup();
            for &first in &operations.ends[index].0 {
                operations.all[first].requires.extend(&before);
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, what: &'static str) {
        *self.done.left_out.entry(what).or_default() += 1;
    }

    /// Appends the operations of a node; returns the first ones and the last one.
    fn node(
        &mut self,
        rank: usize,
        index: usize,
        node: &Node,
        operations: &mut Operations,
    ) -> Result<(Vec<usize>, usize), String> {
        let (action, cpu) = match node.action {
            chakra::Action::Nothing => (Action::Calculate { nanos: 0 }, NOTHING),
            chakra::Action::Compute { on_host, .. } => {
                let nanos = self.nanos_of(&node.action)?;
                let cpu = match (nanos, on_host) {
                    (0, _) => NOTHING,
                    (_, true) => HOST,
                    (_, false) => ACCELERATOR,
                };
                (Action::Calculate { nanos }, cpu)
            }
            chakra::Action::Send { to, bytes, tag } => {
                self.check_peer(to, tag)?;
                self.count_bytes(bytes)?;
                let (count, sum) = self.done.messages;
                self.done.messages = (count + 1, sum + bytes);
                (Action::Send { to, bytes, tag }, NETWORK)
            }
            chakra::Action::Receive { from, bytes, tag } => {
                self.check_peer(from, tag)?;
                let (from, tag) = (Some(from), Some(tag));
                (Action::Receive { from, bytes, tag }, NETWORK)
            }
            chakra::Action::Collective { .. } => {
                return self.collective(rank, index, operations);
            }
        };
        let number = operations.push(action, cpu, Vec::new());
        Ok((vec![number], number))
    }

    fn nanos_of(&mut self, action: &chakra::Action) -> Result<u64, String> {
        let &chakra::Action::Compute {
            micros,
            operations,
            is_memory,
            ..
        } = action
        else {
            return Ok(0);
        };
        let nanos = match (micros, operations, self.flops_per_second) {
            (0, 1.., Some(rate)) => (operations as f64 / rate * 1e9).round() as u64,
            (0, 1.., None) => {
                self.leave_out(
                    "duration of a computation, which has only its operations (num_ops): give \
                     --flops-per-second",
                );
                0
            }
            (0, 0, _) if is_memory => {
                self.leave_out("duration of a memory access, which the trace lacks");
                0
            }
            (micros, ..) => micros.saturating_mul(1000),
        };
        self.nanos = self.nanos.saturating_add(nanos);
        match self.nanos <= MOST_NANOS {
            true => Ok(nanos),
            false => Err(format!(
                "more than {MOST_NANOS} ns of computing up to here, the models' limit"
            )),
        }
    }

    fn collective(
        &mut self,
        rank: usize,
        index: usize,
        operations: &mut Operations,
    ) -> Result<(Vec<usize>, usize), String> {
        let number = self.joints.number(rank, index).expect("it was matched");
        let joint = &self.joints.all[number];
        let tag = u32::try_from(number).ok().filter(|tag| *tag < COLLECTIVE);
        let tag = COLLECTIVE | tag.ok_or("the trace has too many collective operations")?;
        let (rounds, members) = (joint.rounds(rank), joint.members.clone());
        if matches!(joint.kind, Collective::Broadcast | Collective::Reduce) && rank == members[0] {
            self.leave_out("root of a collective operation, which is taken to be its first rank");
        }
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for together in Round::together(&rounds) {
            let mut these = Vec::new();
            for round in together {
                if let Some((to, bytes)) = round.send {
                    self.count_bytes(bytes)?;
                    let to = members[to];
                    let send = Action::Send { to, bytes, tag };
                    these.push(operations.push(send, NETWORK, last.clone()));
                }
                if let Some((from, bytes)) = round.receive {
                    let (from, tag) = (Some(members[from]), Some(tag));
                    let receive = Action::Receive { from, bytes, tag };
                    these.push(operations.push(receive, NETWORK, last.clone()));
                }
            }
            if last.is_empty() {
                first.clone_from(&these);
            }
            last = these;
        }
        let end = operations.push(Action::Calculate { nanos: 0 }, NOTHING, last);
        match first.is_empty() {
            true => Ok((vec![end], end)),
            false => Ok((first, end)),
        }
    }

    fn check_peer(&self, peer: usize, tag: u32) -> Result<(), String> {
        if peer >= self.trace.ranks.len() {
            return Err(format!("there is no file of rank {peer}, its peer"));
        }
        match tag < COLLECTIVE {
            true => Ok(()),
            false => Err(format!("its tag {tag} is not below {COLLECTIVE}")),
        }
    }

    fn count_bytes(&mut self, more: u64) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(more);
        match self.bytes <= MOST_BYTES {
            true => Ok(()),
            false => Err(format!(
                "more than {MOST_BYTES} bytes of messages up to here, the models' limit"
            )),
        }
    }
}
