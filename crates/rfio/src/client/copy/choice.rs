//! What of a tree is copied, and what becomes of files that are there already.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use thiserror::Error;

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

/// A pattern that is none.
#[derive(Debug, Error)]
#[error("'{pattern}' is not a pattern: {why}")]
pub struct BadPattern {
    pattern: String,
    why: String,
}

/// A pattern with its verdict, as rsync(1) has them: `*` and `?` stop at slashes, `**` between slashes stands for any
/// directories; a pattern that begins with a slash begins at the tree's root, another one fits the end of the path; one
/// that ends with a slash fits directories only.
#[derive(Debug, Clone)]
pub struct Rule {
    verdict: Verdict,
    pattern: GlobMatcher,
    directories_only: bool,
}

impl Rule {
    /// Reads a pattern.
    pub fn new(verdict: Verdict, text: &str) -> Result<Self, BadPattern> {
        let bad = |why: String| BadPattern {
            pattern: text.into(),
            why,
        };
        let (body, directories_only) = match text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let (body, anywhere) = match body.strip_prefix('/') {
            Some(body) => (body, ""),
            None => (body, "**/"),
        };
        if body.is_empty() {
            return Err(bad("it names nothing".into()));
        }
        let pattern = GlobBuilder::new(&format!("{anywhere}{body}"))
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| bad(error.kind().to_string()))?;
        Ok(Self {
            verdict,
            pattern: pattern.compile_matcher(),
            directories_only,
        })
    }

    fn fits(&self, path: &[u8], is_directory: bool) -> bool {
        (is_directory || !self.directories_only)
            && self.pattern.is_match(Path::new(OsStr::from_bytes(path)))
    }
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
            .find(|rule| rule.fits(path, is_directory))
            .is_none_or(|rule| rule.verdict == Verdict::Include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str, is_directory: bool) -> bool {
        let rule = Rule::new(Verdict::Exclude, pattern).unwrap();
        !Choice::of(vec![rule]).takes(path.as_bytes(), is_directory)
    }

    #[test]
    fn patterns_fit_as_those_of_rsync() {
        for (pattern, path) in [
            ("*.o", "a.o"),
            ("*.o", "b/a.o"),
            ("/*.o", "a.o"),
            ("b/*.o", "c/b/a.o"),
            ("/b/**/x", "b/x"),
            ("/b/**/x", "b/c/d/x"),
            ("[a-c]?", "bz"),
            ("\\*", "*"),
        ] {
            assert!(fits(pattern, path, false), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/*.o", "b/a.o"),
            ("b*", "a/cb"),
            ("b/*.o", "b/c/a.o"),
            ("\\*", "a"),
            ("a", "aa"),
            ("a/", "a"),
        ] {
            assert!(!fits(pattern, path, false), "{pattern} {path}");
        }
        assert!(fits("a/", "b/a", true));
    }

    #[test]
    fn names_need_not_be_text() {
        let rule = Rule::new(Verdict::Exclude, "*.o").unwrap();
        assert!(!Choice::of(vec![rule]).takes(b"\xff.o", false));
    }

    #[test]
    fn the_first_that_fits_decides() {
        let rule = |verdict, text| Rule::new(verdict, text).unwrap();
        let choice = Choice::of(vec![
            rule(Verdict::Include, "keep.o"),
            rule(Verdict::Exclude, "*.o"),
        ]);
        assert!(choice.takes(b"a/keep.o", false));
        assert!(!choice.takes(b"a/other.o", false));
        assert!(choice.takes(b"a/other.c", false));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "/", "[a", "{a"] {
            assert!(Rule::new(Verdict::Include, text).is_err(), "{text}");
        }
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
