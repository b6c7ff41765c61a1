//! Records of subnet administration: their components, and which of them a request selects.

use crate::field::Field;

/// A component of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// A number.
    Number(Field),
    /// Bytes from an offset.
    Bytes(usize, usize),
    /// Not compared: reserved.
    Reserved,
}

/// Returns the component that is a field behind a record's own first bytes.
pub const fn at(byte: u16, bits: u8) -> Component {
    Component::Number(Field::at_byte(byte, bits))
}

/// Returns the component at a bit.
pub const fn bit(byte: u16, bit: u16, bits: u8) -> Component {
    Component::Number(Field::new(byte * 8 + bit, bits))
}

/// Returns whether a record has the values of the template that the mask selects. Components beyond
/// the table are not compared.
pub fn matches(components: &[Component], mask: u64, template: &[u8], record: &[u8]) -> bool {
    let selected = components
        .iter()
        .enumerate()
        .filter(|(at, _)| mask >> at & 1 != 0);
    selected.into_iter().all(|(_, component)| match *component {
        Component::Number(field) => field.get(template) == field.get(record),
        Component::Bytes(from, length) => {
            template[from..from + length] == record[from..from + length]
        }
        Component::Reserved => true,
    })
}
