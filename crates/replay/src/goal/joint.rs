//! Matches the collective operations of ranks: the k-th of a process group on one member is the
//! k-th on all.

use std::collections::HashMap;
use std::sync::Arc;
use verbena_model::mpi::{Member, Round};
use verbena_mpi_trace::chakra::{Action, Collective, Error, Node, Trace};

/// A collective operation of several ranks.
pub(super) struct Joint {
    pub kind: Collective,
    pub members: Arc<[usize]>,
    /// Length of each member's data in bytes, as far as its node was seen.
    sizes: Vec<Option<u64>>,
    /// Rank and index of the first node.
    first: (usize, usize),
}

/// The collective operations of a trace.
#[derive(Default)]
pub(super) struct Joints {
    pub all: Vec<Joint>,
    /// The operation of each node, by rank and index of the node.
    of: HashMap<(usize, usize), usize>,
}

/// A process group, and its operations in order.
struct Group {
    members: Arc<[usize]>,
    joints: Vec<usize>,
}

impl Joints {
    /// Matches the operations of a trace.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] with the node if a group is unknown or names ranks that the trace lacks,
    /// or if the operations of its members differ.
    pub fn of(trace: &Trace) -> Result<Joints, Error> {
        let mut joints = Joints::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<(String, Vec<usize>), usize> = HashMap::new();
        for (rank, of) in trace.ranks.iter().enumerate() {
            // Number of the group, and of its operations so far, by name.
            let mut begun: HashMap<&str, (usize, usize)> = HashMap::new();
            for (index, node) in of.nodes.iter().enumerate() {
                let Action::Collective { kind, bytes, group } = &node.action else {
                    continue;
                };
                if !begun.contains_key(group.as_str()) {
                    let members = members(trace, rank, node, group)?;
                    let key = (group.clone(), members);
                    let number = *known.entry(key).or_insert_with_key(|(_, members)| {
                        groups.push(Group {
                            members: members.as_slice().into(),
                            joints: Vec::new(),
                        });
                        groups.len() - 1
                    });
                    begun.insert(group, (number, 0));
                }
                let (number, count) = begun.get_mut(group.as_str()).expect("it was inserted");
                let group = &mut groups[*number];
                if group.joints.len() == *count {
                    group.joints.push(joints.all.len());
                    joints.all.push(Joint {
                        kind: *kind,
                        members: group.members.clone(),
                        sizes: vec![None; group.members.len()],
                        first: (rank, index),
                    });
                }
                let joint = group.joints[*count];
                *count += 1;
                joints.of.insert((rank, index), joint);
                joints.all[joint].join(trace, rank, node, *kind, *bytes)?;
            }
        }
        joints.check(trace)?;
        Ok(joints)
    }

    /// Returns the number of a node's operation.
    pub fn number(&self, rank: usize, index: usize) -> Option<usize> {
        self.of.get(&(rank, index)).copied()
    }

    fn check(&self, trace: &Trace) -> Result<(), Error> {
        for joint in &self.all {
            let (rank, index) = joint.first;
            let fault = |reason: String| {
                let of = &trace.ranks[rank];
                Err(of.fault(&of.nodes[index], reason))
            };
            if let Some(place) = joint.sizes.iter().position(Option::is_none) {
                let missing = joint.members[place];
                return fault(format!(
                    "rank {missing} of its process group takes no part in this {}",
                    joint.kind.name()
                ));
            }
            if !joint.may_differ()
                && let Some(place) = joint.sizes.iter().position(|size| *size != joint.sizes[0])
            {
                let bytes = |place: usize| joint.bytes(place);
                return fault(format!(
                    "its {} has {} bytes on rank {} and {} on rank {}",
                    joint.kind.name(),
                    bytes(0),
                    joint.members[0],
                    bytes(place),
                    joint.members[place]
                ));
            }
        }
        Ok(())
    }
}

impl Joint {
    fn join(
        &mut self,
        trace: &Trace,
        rank: usize,
        node: &Node,
        kind: Collective,
        bytes: u64,
    ) -> Result<(), Error> {
        if kind != self.kind {
            let (first, index) = self.first;
            let first = &trace.ranks[first];
            let reason = format!(
                "its operation is {}, and the one with the same place in the order of its process \
                 group is {} in {}, node {}",
                kind.name(),
                self.kind.name(),
                first.file,
                first.nodes[index].id
            );
            return Err(trace.ranks[rank].fault(node, reason));
        }
        let place = self.members.iter().position(|&member| member == rank);
        let place = place.expect("a rank is a member of its groups");
        self.sizes[place] = Some(bytes);
        Ok(())
    }

    /// Returns whether lengths may differ by member: those of a root's operations, of which only
    /// the root's counts, and those of variants with lengths per member.
    fn may_differ(&self) -> bool {
        matches!(
            self.kind,
            Collective::Broadcast
                | Collective::Scatter
                | Collective::AllGather
                | Collective::AllToAll
        )
    }

    /// Returns the sum of the members' bytes.
    pub fn total(&self) -> u64 {
        let sizes = self.sizes.iter().flatten();
        sizes.fold(0, |sum, size| sum.saturating_add(*size))
    }

    /// Returns the number of messages of all members together.
    pub fn messages(&self) -> u64 {
        let all = self.members.len() as u64;
        match self.kind {
            Collective::AllReduce => 2 * all * (all - 1),
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
                all * (all - 1)
            }
            Collective::Broadcast
            | Collective::Reduce
            | Collective::Gather
            | Collective::Scatter => all - 1,
            Collective::Barrier => all * u64::from(all.next_power_of_two().ilog2()),
        }
    }

    fn bytes(&self, place: usize) -> u64 {
        self.sizes[place].unwrap_or_default()
    }

    /// Returns the rounds of a rank, which must be a member.
    ///
    /// NCCL's algorithms for long messages: rings for all-reduce, all-gather and reduce-scatter,
    /// pairs for all-to-all; trees for the others. The format has no root: the group's first
    /// member.
    pub fn rounds(&self, rank: usize) -> Vec<Round> {
        let place = self.members.iter().position(|&member| member == rank);
        let member = Member {
            place: place.unwrap_or_default(),
            size: self.members.len(),
        };
        if member.size == 1 {
            return Vec::new();
        }
        let all = member.size as u64;
        let own = self.bytes(member.place);
        let most = || self.sizes.iter().flatten().copied().max().unwrap_or(0);
        match self.kind {
            Collective::AllReduce => member.all_reduce_round_a_ring(own),
            Collective::AllGather => member.gather_round_a_ring(|place| self.bytes(place)),
            Collective::ReduceScatter => member.reduce_scatter_round_a_ring(own),
            Collective::AllToAll => {
                member.pairwise(|_| own.div_ceil(all), |from| self.bytes(from).div_ceil(all))
            }
            Collective::Broadcast => member.broadcast_whole(0, most()),
            Collective::Reduce => member.reduce(0, own),
            Collective::Gather => member.gather(0, own),
            Collective::Scatter => member.scatter(0, most().div_ceil(all)),
            Collective::Barrier => member.barrier(),
        }
    }
}

/// Returns the members of a node's process group.
fn members(trace: &Trace, rank: usize, node: &Node, group: &str) -> Result<Vec<usize>, Error> {
    let fault = |reason: String| trace.ranks[rank].fault(node, reason);
    let members = trace.members(rank, group).ok_or_else(|| {
        fault(format!(
            "its process group {group:?} is not defined by the file's metadata; give a file with \
             --groups"
        ))
    })?;
    let mut sorted = members.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if let Some(member) = sorted.last().filter(|&&member| member >= trace.ranks.len()) {
        return Err(fault(format!(
            "its process group {group:?} has rank {member}, of which there is no file"
        )));
    }
    if sorted.len() < members.len() || !members.contains(&rank) {
        let ranks = members.len();
        return Err(fault(format!(
            "its process group {group:?} has {ranks} ranks, not each once, or not its own"
        )));
    }
    Ok(members)
}
