//! Arrays of tables whose numbers share one tag and source, given in the section that holds the
//! array.

use super::{Section, number_of};
use crate::profile::error::Error;
use crate::profile::quantity::Quantity;
use crate::profile::recorded::{Origin, Recorded, Tag};
use std::cell::RefCell;
use std::collections::BTreeSet;
use toml::de::DeValue;

impl<'a> Section<'a> {
    /// Returns the tables of an array, numbered from 1, and their origin; inherited as a whole from
    /// the base if this profile has no such array.
    pub fn tables(&self, key: &str) -> Result<(Origin, Vec<Section<'a>>), Error> {
        if let (false, Some(base)) = (self.own(key), &self.base) {
            return base.tables(key);
        }
        let value = self.entry(key)?;
        let expected = || self.about(key, "expected an array of tables, at least one".to_owned());
        let DeValue::Array(entries) = value.get_ref() else {
            return Err(expected());
        };
        let mut tables = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let DeValue::Table(table) = entry.get_ref() else {
                return Err(self.fault(key, entry.span().start, "expected a table"));
            };
            tables.push(Section {
                reading: self.reading,
                // The key is omitted: the array is the only content of its section.
                path: format!("{}.{}", self.path, number + 1),
                at: entry.span().start,
                table,
                used: RefCell::new(BTreeSet::new()),
                base: None,
            });
        }
        match tables.is_empty() {
            true => Err(expected()),
            false => Ok((self.origin()?, tables)),
        }
    }

    /// Reads the tag and source of this section.
    fn origin(&self) -> Result<Origin, Error> {
        let own = |key: &str, hint: &str| -> Result<String, Error> {
            self.used.borrow_mut().insert(key.to_owned());
            match self.table.get(key).map(|value| value.get_ref()) {
                Some(DeValue::String(text)) => Ok(text.to_string()),
                _ => Err(self.fault(key, self.at, format!("is missing; {hint}"))),
            }
        };
        let word = own("tag", "give datasheet, published or assumed")?;
        let tag = Tag::from_word(&word).filter(|tag| *tag != Tag::Fitted);
        let tag = tag.ok_or_else(|| {
            self.about(
                "tag",
                format!("expected datasheet, published or assumed, found \"{word}\""),
            )
        })?;
        let source = own("source", "say where the values come from")?;
        Ok(Origin { tag, source })
    }

    /// Reads a number in the implied unit `unit`, if present.
    pub fn bare<Q: Quantity>(
        &self,
        key: &str,
        unit: &str,
        origin: &Origin,
    ) -> Result<Option<Q>, Error> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        self.used.borrow_mut().insert(key.to_owned());
        let at = value.span().start;
        let number = number_of(value).ok_or_else(|| self.fault(key, at, "expected a number"))?;
        let (kind, profile) = (self.reading.kind, self.reading.profile);
        let own = self.path_of(key);
        let mut recorded = Recorded {
            kind,
            profile: profile.to_owned(),
            path: format!("{profile}.{own}"),
            key: own,
            value: number,
            unit: unit.to_owned(),
            tag: origin.tag,
            source: origin.source.clone(),
            bounds: None,
        };
        let overrides = self.reading.overrides;
        let forced = overrides.get(&recorded.whole_path());
        if let Some(forced) = forced.or_else(|| overrides.get(&recorded.path)) {
            recorded.value = forced;
        }
        let quantity =
            Q::from_base(recorded.value).map_err(|reason| self.fault(key, at, reason))?;
        self.reading.recorded.borrow_mut().push(recorded);
        Ok(Some(quantity))
    }
}
