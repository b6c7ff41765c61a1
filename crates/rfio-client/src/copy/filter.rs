//! Selects the part of a tree to copy, and the treatment of existing files.

use super::facts::FileFacts;
use super::pattern::Pattern;

/// How to treat an existing file at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExistingFiles {
    /// Replace it.
    #[default]
    Replace,
    /// Keep it unconditionally.
    Keep,
    /// Replace it if its source was changed later, or at the same time but differs in size.
    KeepNewer,
}

impl ExistingFiles {
    /// Returns whether an existing file is left as it is.
    pub fn stays(self, there: &FileFacts, source: &FileFacts) -> bool {
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

/// Whether paths that match a pattern are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// Copied.
    Include,
    /// Not copied, nor is anything below.
    Exclude,
}

/// A pattern, and the verdict on paths that match it.
#[derive(Debug, Clone)]
pub struct FilterRule {
    /// The verdict.
    pub verdict: FilterAction,
    /// The pattern.
    pub pattern: Pattern,
}

/// The rules of a copy. The first match decides; a path without a match is copied.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Vec<FilterRule>,
}

impl Filter {
    /// Makes a choice from rules in order.
    pub fn of(rules: Vec<FilterRule>) -> Self {
        Self { rules }
    }

    /// Returns whether a path, relative to the root of the tree, is copied. The caller has checked
    /// the directories above it.
    pub fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        self.rules
            .iter()
            .find(|rule| rule.pattern.fits(path, is_directory))
            .is_none_or(|rule| rule.verdict == FilterAction::Include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fits_decides() {
        let rule = |verdict, text| FilterRule {
            verdict,
            pattern: Pattern::new(text).unwrap(),
        };
        let filter = Filter::of(vec![
            rule(FilterAction::Include, "keep.o"),
            rule(FilterAction::Exclude, "*.o"),
        ]);
        assert!(filter.takes(b"a/keep.o", false));
        assert!(!filter.takes(b"a/other.o", false));
        assert!(filter.takes(b"a/other.c", false));
    }

    #[test]
    fn newer_files_stay() {
        let at = |modified, size| FileFacts {
            size,
            mode: 0,
            modified,
            allocated: size,
            extended: Vec::new(),
        };
        let newer = ExistingFiles::KeepNewer;
        assert!(newer.stays(&at(2, 1), &at(1, 1)));
        assert!(newer.stays(&at(1, 1), &at(1, 1)));
        assert!(!newer.stays(&at(1, 2), &at(1, 1)));
        assert!(!newer.stays(&at(1, 1), &at(2, 1)));
    }
}
