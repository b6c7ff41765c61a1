//! Reads sections of a profile and rejects unknown keys.

use super::error::Error;
use super::kind::ProfileKind;
use super::overrides::Overrides;
use super::quantity::Quantity;
use super::recorded::{Recorded, Tag};
use std::cell::RefCell;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

mod tables;

/// Context of reading a file, and the values collected from it.
pub(crate) struct Reading<'a> {
    pub file: &'a str,
    pub text: &'a str,
    pub kind: ProfileKind,
    pub profile: &'a str,
    pub overrides: &'a Overrides,
    pub recorded: RefCell<Vec<Recorded>>,
}

pub(crate) struct Section<'a> {
    reading: &'a Reading<'a>,
    path: String,
    at: usize,
    table: &'a DeTable<'a>,
    used: RefCell<BTreeSet<String>>,
    /// The same section of the base profile.
    base: Option<Box<Section<'a>>>,
}

/// A field of a section: a quantity, an optional one, or a word.
pub(crate) trait Field: Sized {
    fn take(section: &Section<'_>, key: &str) -> Result<Self, Error>;
}

impl<Q: Quantity> Field for Q {
    fn take(section: &Section<'_>, key: &str) -> Result<Q, Error> {
        match section.quantity(key)? {
            Some(quantity) => Ok(quantity),
            None => Err(section.fault(key, section.at, "is missing")),
        }
    }
}

impl<Q: Quantity> Field for Option<Q> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Q>, Error> {
        section.quantity(key)
    }
}

impl Field for String {
    fn take(section: &Section<'_>, key: &str) -> Result<String, Error> {
        section.word(key)
    }
}

impl Field for Option<String> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<String>, Error> {
        match section.has(key) {
            true => section.word(key).map(Some),
            false => Ok(None),
        }
    }
}

impl<'a> Section<'a> {
    pub fn root(
        reading: &'a Reading<'a>,
        table: &'a DeTable<'a>,
        base: Option<Section<'a>>,
    ) -> Section<'a> {
        // `Sources` reads these keys before.
        let used = ["base", "generation", "inherits", "kind"].map(str::to_owned);
        let used = RefCell::new(BTreeSet::from(used));
        Section {
            reading,
            path: String::new(),
            at: 0,
            table,
            used,
            base: base.map(Box::new),
        }
    }

    /// Returns whether a key is here or in the bases.
    pub fn has(&self, key: &str) -> bool {
        self.own(key) || self.base.as_ref().is_some_and(|base| base.has(key))
    }

    /// Returns the distance in the chain of bases at which the key first occurs; 0 is this profile.
    pub fn depth(&self, key: &str) -> Option<usize> {
        match (self.own(key), &self.base) {
            (true, _) => Some(0),
            (false, Some(base)) => base.depth(key).map(|depth| depth + 1),
            (false, None) => None,
        }
    }

    fn own(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns a subsection, if it exists.
    pub fn section(&self, key: &str) -> Result<Option<Section<'a>>, Error> {
        let base = match &self.base {
            Some(base) => base.section(key)?,
            None => None,
        };
        let Some(value) = self.table.get(key) else {
            return Ok(base);
        };
        self.used.borrow_mut().insert(key.to_owned());
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.fault(key, value.span().start, "expected a section"));
        };
        Ok(Some(Section {
            reading: self.reading,
            path: self.path_of(key),
            at: value.span().start,
            table,
            used: RefCell::new(BTreeSet::new()),
            base: base.map(Box::new),
        }))
    }

    /// Returns a subsection that must exist.
    pub fn expect(&self, key: &str) -> Result<Section<'a>, Error> {
        self.section(key)?
            .ok_or_else(|| self.fault(key, self.at, "the section is missing"))
    }

    /// Reads an array of whole numbers.
    pub fn numbers(&self, key: &str) -> Result<Vec<i64>, Error> {
        if let (false, Some(base)) = (self.own(key), &self.base) {
            return base.numbers(key);
        }
        let value = self.entry(key)?;
        whole_numbers(value)
            .ok_or_else(|| self.about(key, "expected an array of whole numbers".to_owned()))
    }

    /// Reads an array of arrays of whole numbers.
    pub fn rows(&self, key: &str) -> Result<Vec<Vec<i64>>, Error> {
        if let (false, Some(base)) = (self.own(key), &self.base) {
            return base.rows(key);
        }
        let rows = match self.entry(key)?.get_ref() {
            DeValue::Array(rows) => rows.iter().map(whole_numbers).collect(),
            _ => None,
        };
        rows.ok_or_else(|| {
            self.about(
                key,
                "expected an array of arrays of whole numbers".to_owned(),
            )
        })
    }

    /// Like [`Section::rows`], for a key that may be absent here and in the bases.
    pub fn rows_if_there(&self, key: &str) -> Result<Option<Vec<Vec<i64>>>, Error> {
        match self.has(key) {
            true => self.rows(key).map(Some),
            false => Ok(None),
        }
    }

    fn entry(&self, key: &str) -> Result<&'a Spanned<DeValue<'a>>, Error> {
        self.used.borrow_mut().insert(key.to_owned());
        let missing = || self.fault(key, self.at, "is missing");
        self.table.get(key).ok_or_else(missing)
    }

    pub fn word(&self, key: &str) -> Result<String, Error> {
        if let (false, Some(base)) = (self.own(key), &self.base) {
            return base.word(key);
        }
        let value = self
            .table
            .get(key)
            .ok_or_else(|| self.fault(key, self.at, "is missing"))?;
        self.used.borrow_mut().insert(key.to_owned());
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.fault(key, value.span().start, "expected a string")),
        }
    }

    /// Reads a whole number, zero or more.
    pub fn whole(&self, key: &str) -> Result<u64, Error> {
        if let (false, Some(base)) = (self.own(key), &self.base) {
            return base.whole(key);
        }
        let value = self.entry(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            _ => None,
        };
        number.ok_or_else(|| self.about(key, "expected a whole number".to_owned()))
    }

    /// Reads one of the words in `choices`.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, Error> {
        let word = self.word(key)?;
        let at = self.table.get(key).map_or(self.at, |v| v.span().start);
        choices
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                self.fault(
                    key,
                    at,
                    format!("expected one of {}, found \"{word}\"", names.join(", ")),
                )
            })
    }

    /// Like [`Section::choice`], for a key that may be absent here and in the bases.
    pub fn choice_if_there<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        match self.has(key) {
            true => self.choice(key, choices).map(Some),
            false => Ok(None),
        }
    }

    fn quantity<Q: Quantity>(&self, key: &str) -> Result<Option<Q>, Error> {
        let (kind, own) = (self.reading.kind, self.path_of(key));
        let path = format!("{}.{own}", self.reading.profile);
        let overrides = self.reading.overrides;
        let forced = overrides.get(&format!("{}/{path}", kind.word()));
        let forced = forced.or_else(|| overrides.get(&path));
        let Some(spanned) = self.table.get(key) else {
            if let Some(base) = &self.base {
                return base.quantity(key);
            }
            if forced.is_some() {
                return Err(self.fault(
                    key,
                    self.at,
                    "cannot be set: the profile has no such value",
                ));
            }
            return Ok(None);
        };
        self.used.borrow_mut().insert(key.to_owned());
        let at = spanned.span().start;
        let DeValue::Table(table) = spanned.get_ref() else {
            return Err(self.fault(key, at, "expected a table { value, unit, tag, source }"));
        };
        let mut recorded = self.record(key, at, table)?;
        recorded.path = path;
        recorded.key = own;
        if let Some(forced) = forced {
            recorded.value = forced;
        }
        let units = Q::DIMENSION.units();
        let Some((_, factor)) = units.iter().find(|(name, _)| *name == recorded.unit) else {
            let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
            return Err(self.fault(
                key,
                at,
                format!(
                    "unit \"{}\" does not fit; expected one of {}",
                    recorded.unit,
                    names.join(", ")
                ),
            ));
        };
        let quantity =
            Q::from_base(recorded.value * factor).map_err(|reason| self.fault(key, at, reason))?;
        if let (Some((low, high)), None) = (recorded.bounds, forced)
            && !(low..=high).contains(&recorded.value)
        {
            return Err(self.fault(
                key,
                at,
                format!("{} is outside its bounds {low} to {high}", recorded.value),
            ));
        }
        let mut all = self.reading.recorded.borrow_mut();
        if !all.iter().any(|r| r.path == recorded.path) {
            all.push(recorded);
        }
        Ok(Some(quantity))
    }

    fn record(&self, key: &str, at: usize, table: &DeTable<'_>) -> Result<Recorded, Error> {
        const KEYS: [&str; 6] = ["value", "unit", "tag", "source", "low", "high"];
        for (name, _) in table.iter() {
            if !KEYS.contains(&name.get_ref().as_ref()) {
                return Err(self.fault(
                    &format!("{key}.{}", name.get_ref()),
                    name.span().start,
                    format!("unknown key; expected {}", KEYS.join(", ")),
                ));
            }
        }
        let number = |name: &str| -> Result<Option<f64>, Error> {
            let Some(value) = table.get(name) else {
                return Ok(None);
            };
            number_of(value).map(Some).ok_or_else(|| {
                self.fault(
                    &format!("{key}.{name}"),
                    value.span().start,
                    "expected a number",
                )
            })
        };
        let text = |name: &str, hint: &str| -> Result<String, Error> {
            match table.get(name).map(|v| v.get_ref()) {
                Some(DeValue::String(text)) => Ok(text.to_string()),
                _ => Err(self.fault(&format!("{key}.{name}"), at, format!("is missing; {hint}"))),
            }
        };
        let value = number("value")?
            .ok_or_else(|| self.fault(&format!("{key}.value"), at, "is missing; give a number"))?;
        let unit = text("unit", "give the unit, for instance \"ns\"")?;
        let word = text("tag", "give datasheet, published, assumed or fitted")?;
        let tag = Tag::from_word(&word).ok_or_else(|| {
            self.fault(
                &format!("{key}.tag"),
                at,
                format!("expected datasheet, published, assumed or fitted, found \"{word}\""),
            )
        })?;
        let source = text("source", "say where the value comes from")?;
        let bounds = match (number("low")?, number("high")?) {
            (Some(low), Some(high)) if low <= high => Some((low, high)),
            (None, None) if tag != Tag::Fitted => None,
            _ => {
                return Err(self.fault(
                    key,
                    at,
                    "a fitted value needs its physical bounds, low and high with low <= high",
                ));
            }
        };
        Ok(Recorded {
            kind: self.reading.kind,
            profile: self.reading.profile.to_owned(),
            key: String::new(),
            path: String::new(),
            value,
            unit,
            tag,
            source,
            bounds,
        })
    }

    /// Rejects keys that were not read.
    pub fn finish(&self) -> Result<(), Error> {
        let used = self.used.borrow();
        for (name, _) in self.table.iter() {
            if !used.contains(name.get_ref().as_ref()) {
                let key = self.path_of(name.get_ref());
                let reason = match ProfileKind::with_key(&key) {
                    Some(kind) if kind != self.reading.kind => format!(
                        "unknown key; it belongs in a file of kind \"{}\"",
                        kind.word()
                    ),
                    _ => "unknown key".to_owned(),
                };
                return Err(self.fault(name.get_ref(), name.span().start, reason));
            }
        }
        Ok(())
    }

    /// Creates an error about a key of this section, at byte offset `at`.
    pub fn fault(&self, key: &str, at: usize, reason: impl Into<String>) -> Error {
        Error {
            file: self.reading.file.to_owned(),
            line: line_of(self.reading.text, at),
            key: self.path_of(key),
            reason: reason.into(),
        }
    }

    /// Creates an error about a key, at the position of its value.
    pub fn about(&self, key: &str, reason: String) -> Error {
        let at = self.table.get(key).map_or(self.at, |v| v.span().start);
        self.fault(key, at, reason)
    }

    /// Creates an error about the whole section.
    pub fn about_itself(&self, reason: String) -> Error {
        Error {
            key: self.path.clone(),
            ..self.fault("", self.at, reason)
        }
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }
}

fn number_of(value: &Spanned<DeValue<'_>>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .map(|n| n as f64),
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    }
}

fn whole_numbers(value: &Spanned<DeValue<'_>>) -> Option<Vec<i64>> {
    let DeValue::Array(entries) = value.get_ref() else {
        return None;
    };
    let whole = |entry: &Spanned<DeValue<'_>>| match entry.get_ref() {
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    };
    entries.iter().map(whole).collect()
}

/// Returns the line of a byte offset, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
        + 1
}
