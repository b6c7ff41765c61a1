//! Attributes of nodes (`AttributeProto`).

use super::message::{Fields, Value};
use std::collections::HashMap;

/// The value of an attribute, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attribute {
    Integer(i128),
    Bool(bool),
    Text(String),
    Bools(Vec<bool>),
    Other,
}

/// Attributes by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes(pub HashMap<String, Attribute>);

impl Attributes {
    /// Parses an attribute and adds it. Of several with one name the last counts, as in the feeder.
    pub fn add(&mut self, message: &[u8]) -> Result<(), String> {
        let mut name = String::new();
        let mut found = Attribute::Other;
        for field in Fields(message) {
            match field? {
                (1, value) => name = value.text()?,
                (2, _) => (),
                (number, value) => found = parse(number, value)?,
            }
        }
        self.0.insert(name, found);
        Ok(())
    }

    /// Returns an integer that is not negative; integers of all widths are accepted, as by the
    /// feeder.
    pub fn integer(&self, name: &str) -> Result<Option<u64>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(&Attribute::Integer(number)) => u64::try_from(number)
                .map(Some)
                .map_err(|_| format!("its {name} is {number}")),
            Some(_) => Err(format!("its {name} is not an integer")),
        }
    }

    /// Returns a required integer.
    pub fn required(&self, name: &str) -> Result<u64, String> {
        self.integer(name)?
            .ok_or_else(|| format!("it has no {name}"))
    }

    /// Returns a text; an integer is taken for its digits.
    pub fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Attribute::Text(text)) => Ok(Some(text.clone())),
            Some(Attribute::Integer(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(format!("its {name} is not a text")),
        }
    }

    /// Returns a truth value.
    pub fn bool(&self, name: &str) -> Result<Option<bool>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(&Attribute::Bool(value)) => Ok(Some(value)),
            Some(Attribute::Integer(number)) => Ok(Some(*number != 0)),
            Some(_) => Err(format!("its {name} is not a truth value")),
        }
    }
}

/// Parses a value by the number of its field.
fn parse(number: u64, value: Value<'_>) -> Result<Attribute, String> {
    Ok(match (number, value) {
        // An int32 or int64 below zero is a varint of 64 bits.
        (7 | 9, Value::Varint(value)) => Attribute::Integer(i128::from(value.cast_signed())),
        (11 | 13, Value::Varint(value)) => Attribute::Integer(i128::from(value)),
        (15 | 17, Value::Varint(value)) => {
            let half = i128::from(value >> 1);
            Attribute::Integer(if value & 1 == 0 { half } else { -half - 1 })
        }
        (19, Value::Fixed32(value)) => Attribute::Integer(i128::from(value)),
        (21, Value::Fixed64(value)) => Attribute::Integer(i128::from(value)),
        (23, Value::Fixed32(value)) => Attribute::Integer(i128::from(value.cast_signed())),
        (25, Value::Fixed64(value)) => Attribute::Integer(i128::from(value.cast_signed())),
        (27, Value::Varint(value)) => Attribute::Bool(value != 0),
        (28, Value::Bytes(list)) => {
            let mut values = Vec::new();
            for field in Fields(list) {
                if let (1, value) = field? {
                    value.append_to(&mut values)?;
                }
            }
            Attribute::Bools(values.into_iter().map(|value| value != 0).collect())
        }
        (29, value) => Attribute::Text(value.text()?),
        (7 | 9 | 11 | 13 | 15 | 17 | 19 | 21 | 23 | 25 | 27 | 28, _) => {
            return Err(format!("the value in field {number} has another wire type"));
        }
        _ => Attribute::Other,
    })
}
