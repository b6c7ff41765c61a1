//! What of a tree is copied, and what becomes of files that are there already.

use super::pattern::Pattern;
use super::pipeline::Facts;

/// What happens to a file whose name is taken at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays, whatever it is.
    Keep,
    /// It is replaced if its source was changed later, or at the same time and has another length.
    KeepNewer,
}

impl Existing {
    /// Whether a file that is there stays as it is.
    pub fn stays(self, there: &Facts, source: &Facts) -> bool {
        match self {
            Self::Replace => false,
            Self::Keep => true,
            Self::KeepNewer => {
                there.modified > source.modified
                    || (there.modified == source.modified && there.size == source.size)
            }
        }
    }
}

/// Whether what a pattern fits is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Include,
    /// It is not, nor what is below it.
    Exclude,
}

/// What becomes of the paths that a pattern fits.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What becomes of them.
    pub verdict: Verdict,
    /// Which.
    pub pattern: Pattern,
}

/// The rules of a copy, in order. The first that fits decides; what none fits is copied.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    rules: Vec<Rule>,
}

impl Choice {
    /// The choice by these rules.
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Whether a path, relative to the root of the tree, is copied. What is above it was asked for before.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        self.rules
            .iter()
            .find(|rule| rule.pattern.fits(path, is_directory))
            .is_none_or(|rule| rule.verdict == Verdict::Include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fits_decides() {
        let rule = |verdict, text| Rule {
            verdict,
            pattern: Pattern::new(text).unwrap(),
        };
        let choice = Choice::of(vec![
            rule(Verdict::Include, "keep.o"),
            rule(Verdict::Exclude, "*.o"),
        ]);
        assert!(choice.takes(b"a/keep.o", false));
        assert!(!choice.takes(b"a/other.o", false));
        assert!(choice.takes(b"a/other.c", false));
    }

    #[test]
    fn newer_files_stay() {
        let at = |modified, size| Facts {
            size,
            mode: 0,
            modified,
            allocated: size,
            extended: Vec::new(),
        };
        let newer = Existing::KeepNewer;
        assert!(newer.stays(&at(2, 1), &at(1, 1)));
        assert!(newer.stays(&at(1, 1), &at(1, 1)));
        assert!(!newer.stays(&at(1, 2), &at(1, 1)));
        assert!(!newer.stays(&at(1, 1), &at(2, 1)));
    }
}
