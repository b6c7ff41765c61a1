//! The identity that an adapter shows to programs, and its limits.

use crate::profile::error::Error;
use crate::profile::reader::Section;

/// The limits that a profile may give, named as the attributes of ibv_query_device(3), and
/// `max_inline_data`.
const LIMITS: [&str; 14] = [
    "max_qp",
    "max_cq",
    "max_srq",
    "max_pd",
    "max_ah",
    "max_mr",
    "max_mw",
    "max_mr_size",
    "max_cqe",
    "max_srq_wr",
    "max_qp_wr",
    "max_sge",
    "max_inline_data",
    "max_qp_rd_atom",
];

/// The identity of an adapter, as ibv_query_device(3) and sysfs show it, and its limits. They are
/// facts about the part: `--set` does not change them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The Linux driver's name for its devices, without their number: `mlx5_`.
    pub name: String,
    /// IEEE identifier of the vendor: `vendor_id`.
    pub vendor: u32,
    /// PCI identifier of the vendor.
    pub pci_vendor: u32,
    /// Number of the part: `vendor_part_id`, and the PCI identifier of the device.
    pub part: u32,
    /// Revision: `hw_ver`.
    pub revision: u32,
    /// Limits with their names, without those that are not known.
    pub limits: Vec<(&'static str, u64)>,
    /// Source of all of these.
    pub source: String,
}

impl Device {
    pub(super) fn read(section: &Section<'_>) -> Result<Device, Error> {
        let number = |key| {
            let number = section.whole(key)?;
            u32::try_from(number).map_err(|_| section.about(key, "more than 32 bits".to_owned()))
        };
        let name = section.word("name")?;
        let is_letter = |one: u8| one.is_ascii_lowercase() || one == b'_';
        let is_name = !name.is_empty()
            && name.len() <= 16
            && name
                .bytes()
                .all(|one| is_letter(one) || one.is_ascii_digit())
            && name.bytes().last().is_some_and(is_letter);
        if !is_name {
            let reason = "expected up to 16 small letters, digits and `_`, the last no digit";
            return Err(section.about("name", reason.to_owned()));
        }
        let mut limits = Vec::new();
        if let Some(all) = section.section("limits")? {
            for limit in LIMITS {
                if all.has(limit) {
                    limits.push((limit, all.whole(limit)?));
                }
            }
            all.finish()?;
        }
        let device = Device {
            name,
            vendor: number("vendor")?,
            pci_vendor: number("pci_vendor")?,
            part: number("part")?,
            revision: number("revision")?,
            limits,
            source: section.word("source")?,
        };
        section.finish()?;
        Ok(device)
    }
}
