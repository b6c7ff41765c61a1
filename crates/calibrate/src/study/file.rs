//! Parses a study's file: unknown keys are refused, and every error has its line.

use std::ops::RangeInclusive;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use verbena_model::profile::Error;

/// A value with its position in the text.
pub(super) struct Placed<T> {
    pub value: T,
    pub at: usize,
}

/// The file's name and contents, for errors.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    pub fn parse(self) -> Result<DeTable<'a>, Error> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            // The parser's message may have several lines.
            let reason: Vec<&str> = error.message().lines().collect();
            self.fault(at, "-", reason.join(", "))
        })?;
        Ok(table.into_inner())
    }

    /// Returns an error about the key at a byte of the text.
    pub fn fault(self, at: usize, key: &str, reason: impl Into<String>) -> Error {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        Error {
            file: self.file.to_owned(),
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            key: key.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns a required string.
    pub fn word(self, table: &DeTable<'_>, key: &str) -> Result<Placed<String>, Error> {
        let value = self.present(table, key)?;
        self.word_of(key, value)
    }

    /// Returns one or several required strings.
    pub fn words(self, table: &DeTable<'_>, key: &str) -> Result<Vec<Placed<String>>, Error> {
        let value = self.present(table, key)?;
        self.words_of(key, value)
    }

    /// Converts one or several strings.
    pub fn words_of(
        self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<Placed<String>>, Error> {
        self.items(key, value)?
            .into_iter()
            .map(|item| self.word_of(key, item))
            .collect()
    }

    /// Converts one or several whole numbers within `range`.
    pub fn counts(
        self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        range: RangeInclusive<u64>,
    ) -> Result<Vec<u64>, Error> {
        let count = |item: &Spanned<DeValue<'_>>| {
            let number = match item.get_ref() {
                DeValue::Integer(integer) => {
                    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
                }
                _ => None,
            };
            number.filter(|n| range.contains(n)).ok_or_else(|| {
                let reason = format!(
                    "expected whole numbers from {} to {}",
                    range.start(),
                    range.end()
                );
                self.fault(item.span().start, key, reason)
            })
        };
        self.items(key, value)?.into_iter().map(count).collect()
    }

    /// Converts one or several numbers.
    pub fn numbers(
        self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<Placed<f64>>, Error> {
        let number = |item: &Spanned<DeValue<'_>>| {
            let at = item.span().start;
            let number = match item.get_ref() {
                DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                    .ok()
                    .map(|number| number as f64),
                DeValue::Float(float) => f64::from_str(float.as_str()).ok(),
                _ => None,
            };
            match number.filter(|number| number.is_finite()) {
                Some(value) => Ok(Placed { value, at }),
                None => Err(self.fault(at, key, "expected numbers, in the unit of the profile")),
            }
        };
        self.items(key, value)?.into_iter().map(number).collect()
    }

    fn present<'t, 'd>(
        self,
        table: &'t DeTable<'d>,
        key: &str,
    ) -> Result<&'t Spanned<DeValue<'d>>, Error> {
        table
            .get(key)
            .ok_or_else(|| self.fault(0, key, "is missing"))
    }

    pub fn word_of(self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Placed<String>, Error> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => Ok(Placed {
                value: text.to_string(),
                at,
            }),
            _ => Err(self.fault(at, key, "expected a string")),
        }
    }

    /// Returns the values of a list, or a single value.
    fn items<'t, 'd>(
        self,
        key: &str,
        value: &'t Spanned<DeValue<'d>>,
    ) -> Result<Vec<&'t Spanned<DeValue<'d>>>, Error> {
        let items = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        match items.is_empty() {
            true => Err(self.fault(value.span().start, key, "an empty list leaves no point")),
            false => Ok(items),
        }
    }
}
