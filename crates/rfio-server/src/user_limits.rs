//! Caps and reserves of single users, read from a file, in addition to those for all users.

use std::collections::HashMap;

use super::caps::{Caps, Resource};
use super::config_lines::{BadLine, Field, lines};

/// Maximum number of users with a reserve: all reserves are checked whenever a resource is taken.
const MOST_RESERVES: usize = 1000;

/// A user's own cap of a resource, and the reserve that is kept free for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserLimit {
    /// The cap; `None` for the general one.
    pub most: Option<usize>,
    /// Units kept free for this user.
    pub reserve: usize,
}

/// All users with their own terms.
#[derive(Debug, Default)]
pub struct UserLimits {
    terms: HashMap<String, HashMap<Resource, UserLimit>>,
    /// The users with a reserve, and its size.
    reserves: HashMap<Resource, Vec<(String, usize)>>,
}

/// The names of resources in the file.
const RESOURCES: [(&str, Resource); 3] = [
    ("sessions", Resource::Session),
    ("files", Resource::OpenFile),
    ("queue-pairs", Resource::QueuePair),
];

impl UserLimits {
    /// Parses lines `USER [sessions=N] [files=N] [queue-pairs=N]`, each word also with the prefix
    /// `reserve-`.
    ///
    /// # Errors
    /// The first line that is invalid, or with which the reserves exceed half of a resource.
    pub fn parse(text: &[u8], caps: &Caps) -> Result<Self, BadLine> {
        let mut limits = Self::default();
        for line in lines(text) {
            let (line, fields) = line?;
            let bad = |what| BadLine { line, what };
            let [user, words @ ..] = &fields[..] else {
                continue;
            };
            if user.is_every_user() {
                let what = "'*' cannot have a line; set limits for all users with the daemon's \
                            options";
                return Err(bad(what.into()));
            }
            let name = user.user().map_err(bad)?;
            let terms = terms(words).map_err(bad)?;
            for (&resource, term) in terms.iter().filter(|(_, term)| term.reserve > 0) {
                let reserves = limits.reserves.entry(resource).or_default();
                reserves.push((name.clone(), term.reserve));
                let most = caps.of(resource).1 / 2;
                let sum = reserves
                    .iter()
                    .fold(0usize, |sum, (_, one)| sum.saturating_add(*one));
                if sum > most {
                    let what = format!(
                        "the reserves are {sum} in total, more than {most}, half of the limit"
                    );
                    return Err(bad(what));
                }
                if reserves.len() > MOST_RESERVES {
                    return Err(bad(format!(
                        "at most {MOST_RESERVES} users may have a reserve"
                    )));
                }
            }
            if limits.terms.insert(name, terms).is_some() {
                return Err(bad("this user already has a line".into()));
            }
        }
        Ok(limits)
    }

    /// Returns a user's terms.
    pub(super) fn of(&self, user: &str, resource: Resource) -> UserLimit {
        let terms = self.terms.get(user).and_then(|terms| terms.get(&resource));
        terms.copied().unwrap_or_default()
    }

    /// Returns the users with a reserve of a resource.
    pub(super) fn reserves(&self, resource: Resource) -> &[(String, usize)] {
        self.reserves.get(&resource).map_or(&[], Vec::as_slice)
    }
}

fn terms(words: &[Field]) -> Result<HashMap<Resource, UserLimit>, String> {
    let mut terms: HashMap<Resource, UserLimit> = HashMap::new();
    for word in words {
        let shown = word.raw.escape_ascii().to_string();
        let unknown = || {
            format!(
                "'{shown}' is unknown; expected sessions=N, files=N or queue-pairs=N, optionally \
                 with the prefix reserve-"
            )
        };
        let (name, value) = shown.split_once('=').ok_or_else(unknown)?;
        let number = value.parse::<usize>().ok().filter(|&number| number > 0);
        let number = number.ok_or_else(|| format!("'{shown}' lacks a number of at least 1"))?;
        let is_reserve = name.starts_with("reserve-");
        let name = name.strip_prefix("reserve-").unwrap_or(name);
        let found = RESOURCES.iter().find(|(known, _)| *known == name);
        let (_, resource) = found.ok_or_else(unknown)?;
        let term = terms.entry(*resource).or_default();
        match is_reserve {
            true => term.reserve = number,
            false => term.most = Some(number),
        }
    }
    match terms
        .values()
        .find(|term| term.most.is_some_and(|most| most < term.reserve))
    {
        Some(term) => Err(format!(
            "the reserve of {} exceeds the user's limit",
            term.reserve
        )),
        None if terms.is_empty() => Err("this user has no limit".into()),
        None => Ok(terms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Limits;

    #[test]
    fn valid_lines_are_parsed_and_invalid_ones_named() {
        let caps = Limits::default().caps;
        let parse = |text: &str| UserLimits::parse(text.as_bytes(), &caps);
        let limits = parse("ann sessions=3 reserve-sessions=2\nb\\040b files=7\n").unwrap();
        let expected = UserLimit {
            most: Some(3),
            reserve: 2,
        };
        assert_eq!(limits.of("ann", Resource::Session), expected);
        assert_eq!(limits.of("ann", Resource::OpenFile), UserLimit::default());
        assert_eq!(limits.of("b b", Resource::OpenFile).most, Some(7));
        for (text, line, words) in [
            ("ann", 1, "no limit"),
            ("# x\nann sesions=1", 2, "'sesions=1' is unknown"),
            ("ann sessions=0", 1, "lacks a number"),
            (
                "ann sessions=1 reserve-sessions=2",
                1,
                "exceeds the user's limit",
            ),
            (
                "ann reserve-sessions=2048\nbob reserve-sessions=1",
                2,
                "2049 in total",
            ),
            ("ann files=1\nann files=2", 2, "already"),
            ("* files=1", 1, "'*'"),
        ] {
            let bad = parse(text).unwrap_err();
            assert!(
                bad.line == line && bad.what.contains(words),
                "{text}: {bad}"
            );
        }
    }
}
