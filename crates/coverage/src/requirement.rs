//! Demands on a test run: the options `--require` and `--fail-under`.

use crate::possible::{self, GROUPS, Group};
use crate::seen::Seen;
use crate::{errno, label};

/// Something that must have been seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// All items of a group.
    Group(Group),
    /// A completion status, with any operation or this one.
    Status(i32, Option<i32>),
    /// A failure of a call, with any `errno` or this one.
    Failure(String, Option<i32>),
    /// An asynchronous event.
    Event(i32),
    /// An event of the connection manager, with any status or this one.
    CmEvent(i32, Option<i32>),
}

/// The lowest allowed share of seen items, in percent: of a group, or of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The group, or none for all.
    pub group: Option<Group>,
    /// The share, from 0 to 100.
    pub percent: f64,
}

/// Returns the number below 256 with this name.
fn number(name: &str, of: fn(i32) -> String) -> Option<i32> {
    (0..256).find(|number| of(*number) == name)
}

/// Parses a requirement: `statuses`, `RETRY_EXC`, `RETRY_EXC:RDMA_WRITE`, `ibv_reg_mr`,
/// `ibv_reg_mr:ENOMEM`, `PORT_ERR`, `REJECTED`, `REJECTED:28`.
///
/// # Errors
///
/// Returns a message if the name is unknown.
pub fn parse(text: &str) -> Result<Requirement, String> {
    let (name, detail) = match text.split_once(':') {
        Some((name, detail)) => (name, Some(detail)),
        None => (text, None),
    };
    let group = GROUPS.into_iter().find(|group| group.name() == text);
    if let Some(group) = group {
        return Ok(Requirement::Group(group));
    }
    let without = |prefix: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    let status = without("IBV_WC_");
    let status = number(&status, label::status)
        .or_else(|| number(&format!("{status}_ERR"), label::status))
        .filter(|_| name.parse::<i32>().is_err());
    if let Some(status) = status {
        let operation = detail.map(operation).transpose()?;
        return Ok(Requirement::Status(status, operation));
    }
    if name.starts_with("ibv_") || name.starts_with("rdma_") {
        let unknown = |word: &str| format!("{word:?} is no error number's name, such as ENOMEM");
        let failure = detail.map(|word| errno::number(word).ok_or_else(|| unknown(word)));
        return Ok(Requirement::Failure(name.to_owned(), failure.transpose()?));
    }
    let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
    if let Some(event) = number(&without("IBV_EVENT_"), label::event).filter(|_| is_name) {
        return match detail {
            None => Ok(Requirement::Event(event)),
            Some(_) => Err(format!("{text:?}: asynchronous events have no details")),
        };
    }
    if let Some(event) = number(&without("RDMA_CM_EVENT_"), label::cm_event).filter(|_| is_name) {
        let unknown = |word: &str| {
            format!("{word:?} is no status of a connection event: a number, or an error's name")
        };
        let status = detail.map(|word| {
            let error = errno::number(word).map(|number| -number);
            word.parse().ok().or(error).ok_or_else(|| unknown(word))
        });
        return Ok(Requirement::CmEvent(event, status.transpose()?));
    }
    let groups = GROUPS.map(Group::name).join(", ");
    Err(format!(
        "{text:?} is no completion status (RETRY_EXC), call (ibv_reg_mr), event (PORT_ERR) or \
         group ({groups})"
    ))
}

fn operation(word: &str) -> Result<i32, String> {
    let numbers = (0..256).flat_map(|opcode| [0, 1, 2].map(|flag| opcode | flag << 16));
    let mut named = numbers.filter(|number| label::operation(*number) == word);
    let is_name = word.starts_with(|letter: char| letter.is_ascii_uppercase());
    let found = named.next().filter(|_| is_name);
    found.ok_or_else(|| format!("{word:?} is no operation of a completion, such as RDMA_WRITE"))
}

impl Requirement {
    /// Returns the required items that were not seen.
    pub fn missing(&self, seen: &Seen) -> Vec<String> {
        let any = |count: bool, name: String| if count { Vec::new() } else { vec![name] };
        match self {
            Requirement::Group(group) => {
                let items = group.items(seen).into_iter();
                let missing = items.filter(|item| item.count == 0).map(|item| item.name);
                let missing: Vec<String> = missing.collect();
                match (group, group.covered(seen)) {
                    (_, (_, 0)) => vec![group.title().to_owned()],
                    (Group::Calls, _) => missing.iter().map(|name| failure(name, None)).collect(),
                    _ => missing,
                }
            }
            Requirement::Status(status, operation) => {
                let mut found = seen.completions.keys();
                let name = label::status(*status);
                match operation {
                    None => any(found.any(|(of, _)| of == status), name),
                    Some(operation) => any(
                        found.any(|found| *found == (*status, *operation)),
                        format!("{name}:{}", label::operation(*operation)),
                    ),
                }
            }
            Requirement::Failure(name, errno) => {
                let mut found = seen.calls.get(name).into_iter().flatten();
                let is = |of: i32| errno.map_or(of != 0, |errno| of == errno);
                any(found.any(|(of, _)| is(*of)), failure(name, *errno))
            }
            Requirement::Event(event) => any(seen.events.contains_key(event), label::event(*event)),
            Requirement::CmEvent(event, status) => {
                let mut found = seen.cm_events.keys();
                let is = |of: &(i32, i32)| of.0 == *event && status.is_none_or(|one| one == of.1);
                let detail = status.map_or(String::new(), |status| format!(":{status}"));
                any(
                    found.any(is),
                    format!("{}{detail}", label::cm_event(*event)),
                )
            }
        }
    }
}

fn failure(name: &str, errno: Option<i32>) -> String {
    match errno {
        None => format!("a failure of {name}"),
        Some(errno) => format!("{name}:{}", errno::name(errno)),
    }
}

/// Parses a threshold: `40`, or `statuses=40`.
///
/// # Errors
///
/// Returns a message if the group is unknown or the number is no share.
pub fn parse_threshold(text: &str) -> Result<Threshold, String> {
    let (group, number) = match text.split_once('=') {
        None => (None, text),
        Some((name, number)) => {
            let group = GROUPS.into_iter().find(|group| group.name() == name);
            let groups = GROUPS.map(Group::name).join(", ");
            let unknown = || format!("{name:?} is no group of outcomes ({groups})");
            (Some(group.ok_or_else(unknown)?), number)
        }
    };
    let percent = number
        .parse()
        .ok()
        .filter(|share| (0.0..=100.0).contains(share));
    let percent = percent.ok_or_else(|| format!("{number:?} is no number from 0 to 100"))?;
    Ok(Threshold { group, percent })
}

impl Threshold {
    /// Returns the reason why the counts do not reach it.
    pub fn missed(&self, seen: &Seen) -> Option<String> {
        let covered = match self.group {
            Some(group) => group.covered(seen),
            None => possible::covered(seen),
        };
        let share = possible::percent(covered);
        let of = self.group.map_or("outcomes", Group::title);
        (share < self.percent).then(|| {
            format!(
                "{} of {} {of} seen, {share:.1} %, below {} %",
                covered.0, covered.1, self.percent
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Outcome, WITH_IMM};

    fn some() -> Seen {
        let mut seen = Seen::default();
        seen.add(Outcome::Completion(12, 1), 2);
        seen.add(Outcome::Completion(0, 128 | WITH_IMM), 2);
        seen.add(Outcome::Call("ibv_reg_mr", libc::ENOMEM), 1);
        seen.add(Outcome::Call("ibv_alloc_pd", 0), 1);
        seen.add(Outcome::Event(10), 1);
        seen.add(Outcome::CmEvent(8, 28), 1);
        seen.add(Outcome::CmEvent(1, -libc::ENODEV), 1);
        seen
    }

    #[test]
    fn seen_outcomes_satisfy_requirements() {
        for text in [
            "RETRY_EXC",
            "RETRY_EXC_ERR",
            "IBV_WC_RETRY_EXC_ERR",
            "RETRY_EXC:RDMA_WRITE",
            "SUCCESS:RECV+IMM",
            "ibv_reg_mr",
            "ibv_reg_mr:ENOMEM",
            "PORT_ERR",
            "IBV_EVENT_PORT_ERR",
            "REJECTED",
            "REJECTED:28",
            "ADDR_ERROR:ENODEV",
            "RDMA_CM_EVENT_ADDR_ERROR",
        ] {
            assert_eq!(parse(text).unwrap().missing(&some()), [""; 0], "{text}");
        }
    }

    #[test]
    fn missing_outcomes_are_named() {
        for (text, missing) in [
            ("RNR_RETRY_EXC", "RNR_RETRY_EXC_ERR"),
            ("RETRY_EXC:SEND", "RETRY_EXC_ERR:SEND"),
            ("ibv_alloc_pd", "a failure of ibv_alloc_pd"),
            ("ibv_reg_mr:EINVAL", "ibv_reg_mr:EINVAL"),
            ("calls", "a failure of ibv_alloc_pd"),
            ("DEVICE_FATAL", "DEVICE_FATAL"),
            ("REJECTED:8", "REJECTED:8"),
        ] {
            assert_eq!(parse(text).unwrap().missing(&some()), [missing], "{text}");
        }
        assert_eq!(parse("statuses").unwrap().missing(&some()).len(), 15);
        let without = Seen::default();
        assert_eq!(
            parse("cm-events").unwrap().missing(&without),
            ["connection manager events"]
        );
    }

    #[test]
    fn unknown_names_are_refused() {
        for text in [
            "",
            "12",
            "RETRY",
            "retry_exc",
            "status",
            "PORT_ERR:1",
            "RETRY_EXC:12",
            "ibv_reg_mr:ENOPE",
            "REJECTED:x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn thresholds_compare_shares() {
        let missed = |text: &str| parse_threshold(text).unwrap().missed(&some());
        assert_eq!(missed("calls=50"), None);
        assert_eq!(missed("0"), None);
        assert_eq!(
            missed("statuses=12.5").unwrap(),
            "2 of 17 completion statuses seen, 11.8 %, below 12.5 %"
        );
        assert!(missed("100").unwrap().contains("outcomes seen"));
        for text in ["", "101", "-1", "NaN", "x=1", "statuses="] {
            assert!(parse_threshold(text).is_err(), "{text}");
        }
    }
}
