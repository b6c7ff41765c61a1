//! The identity that an adapter shows to programs, and its limits.

use std::fmt;

/// Longest name of devices, without their number.
const LONGEST_NAME: usize = 16;

/// An adapter's identity, as ibv_query_device(3) and sysfs show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of its devices without their number: `mlx5_`.
    name: String,
    /// IEEE identifier of the vendor: `vendor_id`.
    pub vendor: u32,
    /// PCI identifier of the vendor.
    pub pci_vendor: u32,
    /// Number of the part: `vendor_part_id`.
    pub part: u32,
    /// Revision: `hw_ver`.
    pub revision: u32,
}

impl Device {
    /// Returns an identity; none with another name than up to 16 small letters, digits and `_`,
    /// the last of which is no digit.
    pub fn new(name: &str, [vendor, pci_vendor, part, revision]: [u32; 4]) -> Option<Device> {
        let is_letter = |one: u8| one.is_ascii_lowercase() || one == b'_';
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|one| is_letter(one) || one.is_ascii_digit())
            && name.bytes().last().is_some_and(is_letter);
        is_name.then(|| Device {
            name: name.to_owned(),
            vendor,
            pci_vendor,
            part,
            revision,
        })
    }

    /// Returns the name of its devices without their number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the name and the numbers; none for another text.
    pub(crate) fn read(text: &str) -> Option<Device> {
        let (name, numbers) = text.split_once(' ')?;
        let numbers: Option<Vec<u32>> = numbers.split(' ').map(number).collect();
        Device::new(name, numbers?.try_into().ok()?)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device {
            name,
            vendor,
            pci_vendor,
            part,
            revision,
        } = self;
        write!(to, "{name} {vendor} {pci_vendor} {part} {revision}")
    }
}

/// A limit of an adapter, named as the attribute of ibv_query_device(3), or `max_inline_data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The name.
    pub name: String,
    /// The value.
    pub value: u64,
}

impl Limit {
    /// Reads a name and a value; none for another text.
    pub(crate) fn read(text: &str) -> Option<Limit> {
        let (name, value) = text.split_once(' ')?;
        let is_name = name
            .bytes()
            .all(|one| one.is_ascii_lowercase() || one == b'_');
        let name = Some(name).filter(|name| is_name && !name.is_empty());
        Some(Limit {
            name: name?.to_owned(),
            value: number(value)?,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.name, self.value)
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let digits = text.bytes().all(|one| one.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_limits_survive_their_text() {
        let device = Device::new("mlx5_", [0x2c9, 0x15b3, 4119, 0]).unwrap();
        assert_eq!(device.to_string(), "mlx5_ 713 5555 4119 0");
        assert_eq!(Device::read(&device.to_string()), Some(device));
        let limit = Limit::read("max_sge 30").unwrap();
        assert_eq!(Limit::read(&limit.to_string()), Some(limit));
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "",
            "mlx5_",
            "mlx5_ 1 2 3",
            "mlx5_ 1 2 3 4 5",
            "mlx5_ 1 2 3 -4",
            "mlx5_ 1 2 3 +4",
            "mlx5_ 1 2 3 4294967296",
            "mlx5 1 2 3 4",
            " 1 2 3 4",
            "../x 1 2 3 4",
            "Mlx_ 1 2 3 4",
            "abcdefghijklmnopq 1 2 3 4",
        ] {
            assert_eq!(Device::read(wrong), None, "{wrong}");
        }
        for wrong in ["", "max_sge", "max_sge x", "max_sge -1", "max sge 1", " 1"] {
            assert_eq!(Limit::read(wrong), None, "{wrong}");
        }
    }
}
