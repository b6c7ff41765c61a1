//! A node of a trace.

use super::attribute::{Attribute, Attributes};
use super::message::Fields;

/// Maximum length of a name that is kept, in characters.
const LONGEST_NAME: usize = 80;

/// A collective operation (`CollectiveCommType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Combines all contributions on all members.
    AllReduce,
    /// Combines all contributions on the root.
    Reduce,
    /// Collects all contributions on all members.
    AllGather,
    /// Collects all contributions on the root.
    Gather,
    /// Distributes parts of the root's data.
    Scatter,
    /// Sends the root's data to all members.
    Broadcast,
    /// Sends a part of each member's data to each member.
    AllToAll,
    /// Combines all contributions; each member gets a part.
    ReduceScatter,
    /// Waits for all members.
    Barrier,
}

impl Collective {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::Reduce => "reduce",
            Collective::AllGather => "all-gather",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Broadcast => "broadcast",
            Collective::AllToAll => "all-to-all",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::Barrier => "barrier",
        }
    }

    fn of(number: u64) -> Result<Collective, String> {
        Ok(match number {
            0 => Collective::AllReduce,
            1 => Collective::Reduce,
            2 => Collective::AllGather,
            3 => Collective::Gather,
            4 => Collective::Scatter,
            5 => Collective::Broadcast,
            6 => Collective::AllToAll,
            7 | 8 => Collective::ReduceScatter,
            9 => Collective::Barrier,
            other => return Err(format!("its comm_type {other} is unknown")),
        })
    }
}

/// Action of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// None: metadata, or an invalid node.
    Nothing,
    /// Computes, or accesses memory.
    Compute {
        /// Duration in microseconds; 0 if the trace has none.
        micros: u64,
        /// Number of operations, of nodes without a duration.
        operations: u64,
        /// Whether it runs on the host's processor rather than on the accelerator.
        on_host: bool,
        /// Whether it is an access to memory.
        is_memory: bool,
    },
    /// Sends a message.
    Send {
        /// Destination rank.
        to: usize,
        /// Length in bytes.
        bytes: u64,
        /// Message tag.
        tag: u32,
    },
    /// Receives a message.
    Receive {
        /// Source rank.
        from: usize,
        /// Length in bytes.
        bytes: u64,
        /// Message tag.
        tag: u32,
    },
    /// Takes part in a collective operation.
    Collective {
        /// The operation.
        kind: Collective,
        /// Length of this rank's data in bytes (`comm_size`): its whole input.
        bytes: u64,
        /// Name of the process group; empty for all ranks.
        group: String,
    },
}

/// A node of a rank's graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u64,
    /// Its name, or the beginning of it.
    pub name: String,
    /// Its action.
    pub action: Action,
    /// Numbers of the nodes whose data it needs.
    pub data: Vec<u64>,
    /// Numbers of the nodes that precede it in the program's control flow, such as its callers.
    pub control: Vec<u64>,
}

/// A node's fields, and its type by number.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub id: u64,
    pub name: String,
    pub kind: u64,
    pub control: Vec<u64>,
    pub data: Vec<u64>,
    pub micros: u64,
    /// Values of the inputs, as text.
    pub inputs: String,
    pub attributes: Attributes,
}

/// Type of a node without action, which can define process groups.
pub(super) const METADATA: u64 = 1;

impl Raw {
    /// Parses a message.
    pub fn parse(message: &[u8]) -> Result<Raw, String> {
        let mut raw = Raw::default();
        for field in Fields(message) {
            match field? {
                (1, value) => raw.id = value.varint()?,
                (2, value) => raw.name = short(&value.text()?),
                (3, value) => raw.kind = value.varint()?,
                (4, value) => value.append_to(&mut raw.control)?,
                (5, value) => value.append_to(&mut raw.data)?,
                (7, value) => raw.micros = value.varint()?,
                (8, value) if raw.kind <= METADATA => {
                    for field in Fields(value.bytes()?) {
                        if let (1, value) = field? {
                            raw.inputs = value.text()?;
                        }
                    }
                }
                (10, value) => raw.attributes.add(value.bytes()?)?,
                _ => (),
            }
        }
        Ok(raw)
    }

    /// Returns the node with its action.
    pub fn node(self, action: Action) -> Node {
        Node {
            id: self.id,
            name: self.name,
            action,
            data: distinct(self.data),
            control: distinct(self.control),
        }
    }

    /// Returns the action of a node of a rank.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot be replayed.
    pub fn action(&self, rank: usize) -> Result<Action, String> {
        let attributes = &self.attributes;
        Ok(match self.kind {
            0 | METADATA => Action::Nothing,
            2..=4 => Action::Compute {
                micros: self.micros,
                operations: attributes.integer("num_ops")?.unwrap_or(0),
                on_host: attributes.bool("is_cpu_op")?.unwrap_or(true),
                is_memory: self.kind < 4,
            },
            5 => {
                self.own_rank("comm_src", rank)?;
                Action::Send {
                    to: self.peer("comm_dst")?,
                    bytes: attributes.required("comm_size")?,
                    tag: self.tag()?,
                }
            }
            6 => {
                self.own_rank("comm_dst", rank)?;
                Action::Receive {
                    from: self.peer("comm_src")?,
                    bytes: attributes.required("comm_size")?,
                    tag: self.tag()?,
                }
            }
            7 => self.collective()?,
            other => {
                let kind = match other {
                    8 => "STORAGE_NODE",
                    9 => "BATCH_NODE",
                    10 => "CHECKPOINT_NODE",
                    _ => return Err(format!("its type {other} is unknown")),
                };
                return Err(format!("nodes of type {kind} are not replayed"));
            }
        })
    }

    fn collective(&self) -> Result<Action, String> {
        let attributes = &self.attributes;
        if let Some(Attribute::Bools(dimensions)) = attributes.0.get("involved_dim")
            && dimensions.contains(&false)
        {
            let reason = "its involved_dim selects dimensions of a simulated network, and not \
                          ranks; give it a process group (pg_name)";
            return Err(reason.to_owned());
        }
        let kind = Collective::of(attributes.required("comm_type")?)?;
        let bytes = match kind {
            Collective::Barrier => 0,
            _ => attributes.required("comm_size")?,
        };
        let group = attributes.text("pg_name")?.unwrap_or_default();
        Ok(Action::Collective { kind, bytes, group })
    }

    fn peer(&self, name: &str) -> Result<usize, String> {
        let peer = self.attributes.required(name)?;
        usize::try_from(peer).map_err(|_| format!("its {name} is {peer}"))
    }

    fn own_rank(&self, name: &str, rank: usize) -> Result<(), String> {
        match self.attributes.integer(name)? {
            Some(other) if other != rank as u64 => {
                Err(format!("its {name} is {other}, in the file of rank {rank}"))
            }
            _ => Ok(()),
        }
    }

    fn tag(&self) -> Result<u32, String> {
        let tag = self.attributes.integer("comm_tag")?.unwrap_or(0);
        u32::try_from(tag).map_err(|_| format!("its comm_tag is {tag}"))
    }
}

/// Returns the beginning of a name, without characters that move the cursor.
pub(super) fn short(name: &str) -> String {
    let printed = name.chars().filter(|letter| !letter.is_control());
    printed.take(LONGEST_NAME).collect()
}

fn distinct(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids.dedup();
    ids.shrink_to_fit();
    ids
}
