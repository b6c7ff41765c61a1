//! Definitions that the events of an archive refer to: the clock, regions, the locations of ranks,
//! communicators.

use super::error::Error;
use super::records::{Record, Records, begins_with_kind, leading, reference};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

/// The definitions of an archive.
#[derive(Debug, Default)]
pub struct Definitions {
    pub(super) ticks_per_second: u64,
    /// Names of the regions that are MPI calls.
    pub(super) calls: HashMap<u64, String>,
    /// The locations of the ranks, in rank order.
    pub(super) ranks: Vec<u64>,
    /// Number of other locations.
    pub(super) others: u64,
    /// Members of the communicators by world rank; `None` for a communicator of the rank alone
    /// (MPI_COMM_SELF).
    pub(super) communicators: BTreeMap<u64, Option<Vec<usize>>>,
}

#[derive(Default)]
struct Groups {
    locations: Option<Vec<u64>>,
    /// Indices into the list of locations; `None` for a group of the rank alone.
    members: HashMap<u64, Option<Vec<u64>>>,
    all_locations: u64,
    /// Communicators and the groups that they refer to.
    referred: Vec<(u64, u64)>,
}

impl Definitions {
    /// Parses the output of `otf2-print --show-global-defs`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if the text cannot be read, a definition is not understood, or a
    /// definition is missing.
    pub fn read(text: impl BufRead) -> Result<Definitions, Error> {
        let mut records = Records::new(text, begins_with_kind);
        let mut all = Definitions::default();
        let mut groups = Groups::default();
        while let Some(record) = records.next()? {
            all.take(&record, &mut groups)
                .map_err(|reason| record.fault(reason))?;
        }
        for &(communicator, group) in &groups.referred {
            // Groups of other paradigms are ignored, and so are their communicators.
            let members = match groups.members.get(&group) {
                None => continue,
                Some(None) => None,
                Some(Some(members)) => Some(groups.in_world(members).map_err(|reason| {
                    Error::Lacking(format!("communicator {communicator} is invalid, {reason}"))
                })?),
            };
            all.communicators.insert(communicator, members);
        }
        let Some(ranks) = groups.locations.filter(|ranks| !ranks.is_empty()) else {
            return Err(Error::Lacking(
                "the archive has no ranks of MPI (no group COMM_LOCATIONS of paradigm MPI): \
                 trace the program with MPI's wrappers (Score-P: scorep --mpp=mpi)"
                    .to_owned(),
            ));
        };
        if all.ticks_per_second == 0 {
            return Err(Error::Lacking(
                "the archive has no clock (CLOCK_PROPERTIES)".to_owned(),
            ));
        }
        all.others = groups.all_locations.saturating_sub(ranks.len() as u64);
        all.ranks = ranks;
        Ok(all)
    }

    fn take(&mut self, record: &Record, groups: &mut Groups) -> Result<(), String> {
        let (kind, rest) = record.split();
        if kind == "CLOCK_PROPERTIES" {
            let key = "Ticks per Seconds: ";
            let told = after(rest, key);
            self.ticks_per_second = told.ok_or_else(|| format!("as it lacks {key:?}"))?;
            return Ok(());
        }
        if !matches!(kind, "REGION" | "LOCATION" | "GROUP" | "COMM") {
            return Ok(());
        }
        let number = leading(rest).ok_or("as it has no number")?;
        match kind {
            "REGION" => self.region(number, rest),
            "LOCATION" => {
                groups.all_locations += 1;
                Ok(())
            }
            "GROUP" => groups.take(number, rest),
            _ => Definitions::communicator(number, rest, groups),
        }
    }

    fn region(&mut self, number: u64, rest: &str) -> Result<(), String> {
        let name = rest.split_once("Name: \"").map(|(_, behind)| behind);
        let name = name.ok_or("as it lacks a name")?;
        if name.starts_with("MPI_") || name.starts_with("PMPI_") {
            let end = name.find('"').ok_or("as its name has no end")?;
            let name = name[..end].trim_start_matches('P');
            self.calls.insert(number, name.to_owned());
        }
        Ok(())
    }

    /// Records the group of a communicator; groups are resolved when all are known.
    fn communicator(number: u64, rest: &str, groups: &mut Groups) -> Result<(), String> {
        let (before, _) = rest
            .rsplit_once(", Parent: ")
            .ok_or("as it lacks a parent")?;
        let (_, group) = before
            .rsplit_once(", Group: ")
            .ok_or("as it lacks a group")?;
        let group = reference(group).ok_or("as its group has no number")?;
        groups.referred.push((number, group));
        Ok(())
    }
}

/// `OTF2_PARADIGM_MPI`, the number that is printed behind the name of the paradigm.
const MPI: u64 = 4;

/// Returns whether a group's attributes begin with the paradigm MPI. `otf2-print` prints the name
/// and number from the archive's PARADIGM definition, as Score-P writes it, and `MPI` without one.
fn is_of_mpi(attributes: &str) -> bool {
    let Some(paradigm) = attributes.strip_prefix("Paradigm: ") else {
        return false;
    };
    let end = paradigm.find(", Flags: ").unwrap_or(paradigm.len());
    let paradigm = &paradigm[..end];
    paradigm == "MPI" || reference(paradigm) == Some(MPI)
}

impl Groups {
    fn take(&mut self, number: u64, rest: &str) -> Result<(), String> {
        let (_, behind) = rest.split_once(">, Type: ").ok_or("as it lacks a type")?;
        let (kind, behind) = behind.split_once(", ").ok_or("as it lacks a paradigm")?;
        if !is_of_mpi(behind) {
            return Ok(());
        }
        let (head, list) = behind
            .split_once(" Members")
            .ok_or("as it lacks its members")?;
        let count = head
            .rsplit_once(' ')
            .and_then(|(_, count)| count.parse().ok());
        let count: usize = count.ok_or("as it lacks the number of its members")?;
        let list = list.strip_prefix(": ").unwrap_or(list);
        match kind {
            "COMM_LOCATIONS" => {
                let all = references(list);
                self.locations = Some(as_many(all, count)?);
            }
            "COMM_GROUP" => {
                let all = list
                    .split(">), ")
                    .map(leading)
                    .collect::<Option<Vec<u64>>>();
                let all = if count == 0 { Some(Vec::new()) } else { all };
                self.members.insert(number, Some(as_many(all, count)?));
            }
            "COMM_SELF" => {
                self.members.insert(number, None);
            }
            _ => (),
        }
        Ok(())
    }

    fn in_world(&self, members: &[u64]) -> Result<Vec<usize>, String> {
        let ranks = self.locations.as_ref().map_or(0, Vec::len);
        let member = |&member: &u64| match usize::try_from(member) {
            Ok(member) if member < ranks => Ok(member),
            _ => Err(format!("as member {member} is not one of {ranks} ranks")),
        };
        members.iter().map(member).collect()
    }
}

fn references(list: &str) -> Option<Vec<u64>> {
    list.split(">, ")
        .map(|item| {
            let (_, number) = item.trim_end_matches('>').rsplit_once('<')?;
            number.parse().ok()
        })
        .collect()
}

fn as_many(members: Option<Vec<u64>>, count: usize) -> Result<Vec<u64>, String> {
    let members = members.ok_or("as a member has no number")?;
    match members.len() == count {
        true => Ok(members),
        false => Err(format!("as it has {} members of {count}", members.len())),
    }
}

fn after(text: &str, key: &str) -> Option<u64> {
    leading(text.split_once(key)?.1)
}
