//! Reads the files of the ranks.

use super::error::Error;
use super::groups::{self, Groups};
use super::json;
use super::message::Fields;
use super::node::{METADATA, Node, Raw};
use std::collections::HashMap;
use std::io::{BufRead, Read};

/// Maximum number of ranks.
const MOST_RANKS: usize = 1 << 13;
/// Maximum number of nodes of all ranks, which are kept in memory.
const MOST_NODES: usize = 1 << 24;
/// Maximum length of a message in bytes; nodes of PyTorch list their inputs.
const LONGEST: u64 = 1 << 28;

/// A rank's graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rank {
    /// Name of its file.
    pub file: String,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Process groups that its metadata define; an empty list means all ranks.
    groups: Groups,
}

/// The graphs of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The ranks.
    pub ranks: Vec<Rank>,
    /// Process groups from a file, which precede those of the ranks.
    groups: Groups,
}

/// Reader of a trace, one file after another.
#[derive(Debug, Default)]
pub struct Reader {
    trace: Trace,
    nodes: usize,
}

impl Reader {
    /// Reads the file of the next rank, beginning with rank 0. It is JSON if its name ends in
    /// `.json`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] with the place if the file cannot be read or is of another format, a node
    /// cannot be replayed, or two nodes have one number.
    pub fn read(&mut self, name: &str, mut bytes: impl BufRead) -> Result<(), Error> {
        let rank = self.trace.ranks.len();
        if rank == MOST_RANKS {
            let reason = format!("the trace has more than {MOST_RANKS} ranks");
            return Err(Error::Lacking(reason));
        }
        self.trace.ranks.push(Rank {
            file: name.to_owned(),
            ..Rank::default()
        });
        if name.ends_with(".json") {
            return self.read_json(rank, bytes);
        }
        let beginning = bytes.fill_buf().map_err(|error| unreadable(name, error))?;
        if beginning.starts_with(&[0x1f, 0x8b]) {
            let reason = "the file is compressed; unpack it with gunzip";
            return Err(message(name, 0, reason.to_owned()));
        }
        let mut messages = Messages { name, bytes, at: 0 };
        match messages.next()? {
            Some(metadata) => check_metadata(&metadata),
            None => Err("the file is empty".to_owned()),
        }
        .map_err(|reason| message(name, 0, reason))?;
        loop {
            let at = messages.at;
            let Some(bytes) = messages.next()? else {
                break;
            };
            let raw = Raw::parse(&bytes).map_err(|reason| message(name, at, reason))?;
            self.add(rank, raw)?;
        }
        self.check_numbers(rank)
    }

    fn read_json(&mut self, rank: usize, bytes: impl BufRead) -> Result<(), Error> {
        let nodes = json::nodes(bytes).map_err(|error| {
            let reason = format!("no nodes in JSON (\"workload_graph\"): {error}");
            message(&self.trace.ranks[rank].file, 0, reason)
        })?;
        nodes.into_iter().try_for_each(|raw| self.add(rank, raw))?;
        self.check_numbers(rank)
    }

    fn add(&mut self, rank: usize, raw: Raw) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            let reason = format!("the trace has more than {MOST_NODES} nodes");
            return Err(Error::Lacking(reason));
        }
        let of = &mut self.trace.ranks[rank];
        if raw.kind == METADATA {
            of.groups.extend(groups::described(&raw.inputs));
        }
        let action = raw.action(rank).map_err(|reason| Error::Node {
            file: of.file.clone(),
            id: raw.id,
            name: raw.name.clone(),
            reason,
        })?;
        of.nodes.push(raw.node(action));
        Ok(())
    }

    fn check_numbers(&self, rank: usize) -> Result<(), Error> {
        let of = &self.trace.ranks[rank];
        let mut known = HashMap::new();
        for node in &of.nodes {
            if known.insert(node.id, ()).is_some() {
                return Err(of.fault(node, "another node has this number"));
            }
        }
        Ok(())
    }

    /// Adds process groups from a file in JSON, which precede those in the trace: ranks by name.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if the text is not of this form.
    pub fn read_groups(&mut self, name: &str, json: &[u8]) -> Result<(), Error> {
        let listed = groups::listed(json).map_err(|reason| {
            let reason = format!("no process groups such as {{\"1\": [0, 1]}}: {reason}");
            message(name, 0, reason)
        })?;
        self.trace.groups.extend(listed);
        Ok(())
    }

    /// Returns the trace.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if there are no ranks.
    pub fn finish(self) -> Result<Trace, Error> {
        match self.trace.ranks.is_empty() {
            true => Err(Error::Lacking("the trace has no ranks".to_owned())),
            false => Ok(self.trace),
        }
    }
}

impl Rank {
    /// Returns an error about a node.
    pub fn fault(&self, node: &Node, reason: impl Into<String>) -> Error {
        Error::Node {
            file: self.file.clone(),
            id: node.id,
            name: node.name.clone(),
            reason: reason.into(),
        }
    }
}

impl Trace {
    /// Returns the members of a rank's process group; `None` if the trace does not define it.
    /// Without definition, the groups `0` and without name are all ranks.
    pub fn members(&self, rank: usize, group: &str) -> Option<Vec<usize>> {
        let defined = self.groups.get(group);
        let all = || (0..self.ranks.len()).collect();
        match defined.or_else(|| self.ranks[rank].groups.get(group)) {
            Some(ranks) if ranks.is_empty() => Some(all()),
            Some(ranks) => Some(ranks.clone()),
            None if group.is_empty() || group == "0" => Some(all()),
            None => None,
        }
    }
}

/// Checks that the first message is a `GlobalMetadata`: a version (2023 and later), or attributes.
fn check_metadata(metadata: &[u8]) -> Result<(), String> {
    for field in Fields(metadata) {
        let (number, value) = field?;
        if number > 2 || value.bytes().is_err() {
            let reason = "the first message is not the metadata of a Chakra trace";
            return Err(reason.to_owned());
        }
    }
    Ok(())
}

/// The messages of a file.
struct Messages<'a, R> {
    name: &'a str,
    bytes: R,
    /// Position in the file.
    at: u64,
}

impl<R: BufRead> Messages<'_, R> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let begin = self.at;
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let read = self.bytes.by_ref().take(length).read_to_end(&mut bytes);
        let read = read.map_err(|error| unreadable(self.name, error))? as u64;
        self.at += read;
        if read < length {
            let reason = format!(
                "the file ends {} bytes before this message does",
                length - read
            );
            return Err(message(self.name, begin, reason));
        }
        Ok(Some(bytes))
    }

    /// Reads the length of the next message; `None` at the end of the file.
    fn length(&mut self) -> Result<Option<u64>, Error> {
        let begin = self.at;
        let mut length = 0;
        for shift in (0..35).step_by(7) {
            let byte = match self.bytes.by_ref().bytes().next() {
                Some(byte) => byte.map_err(|error| unreadable(self.name, error))?,
                None if shift == 0 => return Ok(None),
                None => {
                    let reason = "the file ends within the length of a message";
                    return Err(message(self.name, begin, reason.to_owned()));
                }
            };
            self.at += 1;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                if length <= LONGEST {
                    return Ok(Some(length));
                }
                break;
            }
        }
        let reason = format!("a message is longer than {LONGEST} bytes; is this a Chakra trace?");
        Err(message(self.name, begin, reason))
    }
}

fn message(file: &str, at: u64, reason: String) -> Error {
    Error::Message {
        file: file.to_owned(),
        at,
        reason,
    }
}

fn unreadable(file: &str, source: std::io::Error) -> Error {
    Error::Unreadable {
        file: file.to_owned(),
        source,
    }
}
