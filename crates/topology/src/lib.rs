//! Reads topologies of InfiniBand fabrics (nodes, links, rates) from the output of other tools, and
//! surveys them.
//!
//! [`read`] recognises these formats by their content:
//!
//! | format | written by |
//! |---|---|
//! | node blocks | `ibnetdiscover`, also with `-g` |
//! | a line per port | `ibnetdiscover -p` |
//! | `opensm-subnet.lst` | OpenSM, and ibdiagnet's `.lst` |
//! | `ibdiagnet2.db_csv` | ibdiagnet 2 |
//! | net files | `ibsim` |
//! | `topology.conf` | Slurm's plugin topology/tree |
//!
//! The formats are described by their writers' sources (infiniband-diags/ibnetdiscover.c,
//! opensm/osm_dump.c, ibsim/sim_net.c) and by topology.conf(5). Files from the wild have blanks for
//! tabs, redacted GUIDs, missing blocks and one-sided links; a reader keeps everything that it
//! understands, and a [`Remark`] names each contradiction and omission.

mod blocks;
mod build;
mod csv;
mod description;
mod hostlist;
mod line;
mod network;
mod paths;
mod ports;
mod rate;
mod routes;
mod slurm;
mod subnet_list;
mod survey;
#[cfg(test)]
mod tests;

pub use build::{Address, Hardware, Link, LinkEnd, Node, NodeKind, Remark, Topology};
pub use description::{DescribedPaths, Description, Section};
pub use hostlist::expand;
pub use network::{Network, NetworkError};
pub use paths::{Broken, Forwarding, Onward, PathSurvey, RoutesError};
pub use rate::{Rate, Speed};
pub use routes::{Entry, ForwardingTable, Routes, read_routes};
pub use survey::{Bisection, Level, OddLink, Oversubscription, Survey};

use build::Builder;

/// Maximum size of a file in bytes: ten times that of the largest fabrics that are known.
pub const MOST_BYTES: usize = 1 << 30;
/// Maximum number of nodes.
pub const MOST_NODES: usize = 1 << 20;
/// Maximum number of ends of links that a file states: several for each node of the largest fabric.
pub const MOST_STATEMENTS: usize = 1 << 22;
/// Maximum number of characters of a line in an error.
const QUOTED: usize = 120;

/// Bytes that editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reason why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The format is none of those that are read.
    #[error(
        "no known format: expected the output of ibnetdiscover (with -p or without), \
         opensm-subnet.lst, ibdiagnet2.db_csv, a net file of ibsim or Slurm's topology.conf with \
         switches"
    )]
    Unknown,
    /// A line is invalid.
    #[error("line {line}: {reason}: {text}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        reason: String,
        /// The line, or its beginning.
        text: String,
    },
    /// The file is too large.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The file has no forwarding tables.
    #[error(
        "no forwarding tables: expected the output of dump_fts, dump_lfts.sh or ibroute, \
         opensm-lfts.dump or opensm.fdbs"
    )]
    NoRoutes,
    /// The file has no nodes.
    #[error("no nodes in this file of {0}")]
    Empty(&'static str),
}

impl Error {
    fn line(line: usize, text: &str, reason: impl Into<String>) -> Error {
        Error::Line {
            line,
            reason: reason.into(),
            text: text.trim().chars().take(QUOTED).collect(),
        }
    }
}

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Blocks,
    Ports,
    SubnetList,
    Csv,
    Slurm,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Blocks => "ibnetdiscover or ibsim",
            Format::Ports => "ibnetdiscover -p",
            Format::SubnetList => "opensm-subnet.lst",
            Format::Csv => "ibdiagnet2.db_csv",
            Format::Slurm => "Slurm's topology.conf",
        }
    }

    /// Recognises a format by the first line that only this format has.
    fn of(text: &str) -> Option<Format> {
        text.lines().find_map(|line| {
            let line = line.trim();
            if line.starts_with('{') && line.contains("PN:") {
                Some(Format::SubnetList)
            } else if line.starts_with("START_") {
                Some(Format::Csv)
            } else if slurm::begins(line) {
                Some(Format::Slurm)
            } else if blocks::begins(line) {
                Some(Format::Blocks)
            } else if ports::begins(line) {
                Some(Format::Ports)
            } else {
                None
            }
        })
    }
}

/// Reads a topology from the content of a file.
///
/// # Errors
///
/// Returns [`Error`] if the format is unknown, a line is invalid, there are no nodes, or the file
/// has more than [`MOST_BYTES`] bytes or [`MOST_NODES`] nodes.
pub fn read(content: &[u8]) -> Result<Topology, Error> {
    if content.len() > MOST_BYTES {
        return Err(Error::TooLarge(format!(
            "{} bytes, at most {MOST_BYTES} are read",
            content.len()
        )));
    }
    // Descriptions are bytes that an administrator chose, in any encoding.
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let text = String::from_utf8_lossy(content);
    let format = Format::of(&text).ok_or(Error::Unknown)?;
    let mut builder = Builder::default();
    match format {
        Format::Blocks => blocks::read(&text, &mut builder)?,
        Format::Ports => ports::read(&text, &mut builder)?,
        Format::SubnetList => subnet_list::read(&text, &mut builder)?,
        Format::Csv => csv::read(&text, &mut builder)?,
        Format::Slurm => slurm::read(&text, &mut builder)?,
    }
    let topology = builder.finish();
    match topology.nodes.is_empty() {
        true => Err(Error::Empty(format.name())),
        false => Ok(topology),
    }
}
