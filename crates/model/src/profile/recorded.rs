//! The values of profiles as they are given, with tag and source.

use super::kind::{Name, ProfileKind};

/// Origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// From the documents of a product or a standard.
    Datasheet,
    /// From a published measurement, other than the claims that the models are tested against.
    Published,
    /// Chosen by judgement: neither published nor fitted.
    Assumed,
    /// Chosen so that the models match measurements.
    Fitted,
}

impl Tag {
    pub(super) fn from_word(word: &str) -> Option<Tag> {
        match word {
            "datasheet" => Some(Tag::Datasheet),
            "published" => Some(Tag::Published),
            "assumed" => Some(Tag::Assumed),
            "fitted" => Some(Tag::Fitted),
            _ => None,
        }
    }

    /// Returns the word for this tag in profiles.
    pub fn word(self) -> &'static str {
        match self {
            Tag::Datasheet => "datasheet",
            Tag::Published => "published",
            Tag::Assumed => "assumed",
            Tag::Fitted => "fitted",
        }
    }
}

/// A value as given in a profile, for reports, sweeps and calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Kind of its profile.
    pub kind: ProfileKind,
    /// Name of its profile.
    pub profile: String,
    /// `section.key`.
    pub key: String,
    /// `profile.section.key`, prefixed by the kind if profiles of two kinds have this path.
    pub path: String,
    /// Value in `unit`.
    pub value: f64,
    /// Unit as in the profile.
    pub unit: String,
    /// Origin of the value.
    pub tag: Tag,
    /// Description of the source.
    pub source: String,
    /// Physical bounds, in `unit`; always present for fitted values.
    pub bounds: Option<(f64, f64)>,
}

impl Recorded {
    /// Returns its path with the kind.
    pub(super) fn whole_path(&self) -> String {
        format!("{}/{}.{}", self.kind.word(), self.profile, self.key)
    }

    /// Returns the unit of inheritance that it belongs to: its key, or for a value in an array of
    /// tables the key of the array's section.
    pub(super) fn said_with(&self) -> &str {
        let mut ends = self.key.rmatch_indices('.').map(|(at, _)| at);
        let numbered = ends.next().zip(ends.next());
        let is_number =
            |(last, before): &(usize, usize)| self.key[before + 1..*last].parse::<usize>().is_ok();
        let tables = numbered.filter(is_number);
        tables.map_or(&self.key, |(_, before)| &self.key[..before])
    }

    /// Returns whether `path` refers to this value.
    pub(super) fn answers_to(&self, path: &str) -> bool {
        path == self.path
            || path == self.whole_path()
            || path == format!("{}.{}", self.profile, self.key)
    }

    pub(super) fn is_of(&self, (kind, name): &Name) -> bool {
        self.kind == *kind && self.profile == *name
    }
}

/// Common origin of the numbers of several tables.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub tag: Tag,
    pub source: String,
}
