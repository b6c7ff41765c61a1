//! All rules of a run, as the text of an environment variable.
//!
//! ```text
//! seed 7
//! ibv_reg_mr 2: ENOMEM
//! ibv_create_qp: EAGAIN<TAB>./client
//! qp1.write 3: remote-access
//! ```
//! A rule is followed by a tab and a text that the command line of its processes contains, if it is
//! not about all processes. Rules too long for a variable are in a file, which `@PATH` names.

use std::fmt;

use crate::event::Event;
use crate::rule::{Action, BadRule, Rule};
use crate::site::Site;

/// The variable with the rules.
pub const VARIABLE: &str = "VERBENA_FAULTS";

/// Longest text of the variable, in bytes; the kernel takes no longer one than 128 KiB.
pub const LONGEST_VARIABLE: usize = 120_000;

/// Longest text, in bytes.
pub const LONGEST: usize = 16 << 20;

/// Begins a variable that names a file with the rules.
pub const FILE: char = '@';

/// A rule and its processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The rule.
    pub rule: Rule,
    /// A part of the command line of the processes that it is about; empty for all.
    pub process: String,
}

/// The rules of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// Decides the draws.
    pub seed: u64,
    /// In order; the first that is met refuses a call.
    pub entries: Vec<Entry>,
}

/// The reason why rules are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadRules {
    /// A rule cannot be read.
    #[error("{0:?}: {1}")]
    Rule(String, BadRule),
    /// The text does not begin with the seed.
    #[error("expected \"seed N\" in the first line")]
    Seed,
    /// A process's text has a tab, a line end or a zero.
    #[error("{0:?}: a process is named by a text without tabs and line ends")]
    Process(String),
    /// Too many rules.
    #[error("all rules together are longer than {} MiB", LONGEST >> 20)]
    Length,
    /// The file for long rules cannot be written.
    #[error("cannot write the rules to {0}: {1}")]
    File(String, String),
}

impl Rules {
    /// Returns the text of the variable, or of the file that it names if the text is longer than
    /// [`LONGEST_VARIABLE`].
    ///
    /// # Errors
    /// Fails if a process's text cannot be written, or the text is longer than [`LONGEST`].
    pub fn encode(&self) -> Result<String, BadRules> {
        for Entry { process, .. } in &self.entries {
            if process.contains(['\t', '\n', '\0']) {
                return Err(BadRules::Process(process.clone()));
            }
        }
        match self.to_string() {
            text if text.len() > LONGEST => Err(BadRules::Length),
            text => Ok(text),
        }
    }

    /// Reads the text.
    ///
    /// # Errors
    /// Names the line that cannot be read.
    pub fn decode(text: &str) -> Result<Rules, BadRules> {
        let mut lines = text.lines();
        let seed = lines
            .next()
            .and_then(|line| line.strip_prefix("seed "))
            .and_then(|number| number.parse().ok())
            .ok_or(BadRules::Seed)?;
        let entry = |line: &str| {
            let (rule, process) = line.split_once('\t').unwrap_or((line, ""));
            let read = rule.parse();
            Ok(Entry {
                rule: read.map_err(|error| BadRules::Rule(rule.to_owned(), error))?,
                process: process.to_owned(),
            })
        };
        let entries = lines.map(entry).collect::<Result<_, _>>()?;
        Ok(Rules { seed, entries })
    }

    /// Returns whether a rule needs the tracer: it refuses calls, also those of an adapter that has
    /// failed.
    pub fn need_the_tracer(&self) -> bool {
        let refuses = |entry: &Entry| {
            matches!(entry.rule.site, Site::Call(_))
                || entry.rule.action == Action::Raise(Event::Fatal)
        };
        self.entries.iter().any(refuses)
    }

    /// Returns a number from 0 to 1 for rule `number` in a process with this command line: for call
    /// `count`, where `object` is 0, or request `count` of an object.
    pub fn draw(&self, number: usize, process: &str, object: u32, count: u64) -> f64 {
        let words = [number as u64, hash(process.as_bytes()), count];
        let object = (object != 0).then_some(object.into());
        let mixed = words
            .into_iter()
            .chain(object)
            .fold(mix(self.seed), |all, word| mix(all ^ word));
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "seed {}", self.seed)?;
        for Entry { rule, process } in &self.entries {
            match process.is_empty() {
                true => write!(to, "\n{rule}")?,
                false => write!(to, "\n{rule}\t{process}")?,
            }
        }
        Ok(())
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(seed: u64, lines: &[(&str, &str)]) -> Rules {
        let entry = |(rule, process): &(&str, &str)| Entry {
            rule: rule.parse().unwrap(),
            process: (*process).into(),
        };
        Rules {
            seed,
            entries: lines.iter().map(entry).collect(),
        }
    }

    #[test]
    fn rules_survive_their_text() {
        let all = rules(
            7,
            &[
                ("ibv_reg_mr 2: ENOMEM", ""),
                ("ibv_create_qp: EAGAIN", "./a b"),
            ],
        );
        assert_eq!(Rules::decode(&all.encode().unwrap()), Ok(all));
        let none = rules(0, &[]);
        assert_eq!(Rules::decode(&none.encode().unwrap()), Ok(none));
    }

    #[test]
    fn wrong_texts_are_refused() {
        assert_eq!(Rules::decode(""), Err(BadRules::Seed));
        assert_eq!(Rules::decode("seed x"), Err(BadRules::Seed));
        let found = Rules::decode("seed 1\nibv_reg_mr").unwrap_err();
        assert!(matches!(found, BadRules::Rule(_, BadRule::Form)));
        let tab = rules(1, &[("ibv_reg_mr: ENOMEM", "a\tb")]);
        assert!(matches!(tab.encode(), Err(BadRules::Process(_))));
        let words = "x".repeat(LONGEST / 2);
        let long = rules(1, &[("ibv_reg_mr: ENOMEM", words.as_str()); 2]);
        assert_eq!(long.encode(), Err(BadRules::Length));
    }

    #[test]
    fn draws_are_even_and_depend_on_each_part() {
        let all = rules(7, &[]);
        let mean = (0..10_000).map(|n| all.draw(1, "a", 0, n)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let one = all.draw(1, "a", 0, 1);
        assert_eq!(one, all.draw(1, "a", 0, 1));
        for other in [
            all.draw(2, "a", 0, 1),
            all.draw(1, "b", 0, 1),
            all.draw(1, "a", 1, 1),
            all.draw(1, "a", 0, 2),
            rules(8, &[]).draw(1, "a", 0, 1),
        ] {
            assert_ne!(one, other);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
            let _ = Rules::decode(&text);
        }
    }
}
