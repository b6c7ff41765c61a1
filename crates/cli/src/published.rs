//! The published figures that a report's headlines stand beside: which claims they are, and of which adapter.

use crate::failure::Failure;
use verbena_predict::claims::{Claim, shipped};
use verbena_report::headline::Subject;
use verbena_report::summary::{Extent, Published};

/// A claim that a headline stands beside: its subject, its name, the adapter, and what a unit of it is in the subject's.
type Row = (Subject, &'static str, &'static str, f64);

/// Figures of adapters alone, without message passing. Those of `connectx_multicore` and `pci_express` are of short writes or sends;
/// those of `qdr_evaluation` the least that was seen; the memory is that of 128 queue pairs.
const BESIDE: &[Row] = &[
    (
        Subject::Latency,
        "qdr_evaluation.latency_qdr_switched",
        "ConnectX QDR",
        1e3,
    ),
    (
        Subject::Latency,
        "qdr_evaluation.latency_ddr_switched",
        "ConnectX at DDR",
        1e3,
    ),
    (
        Subject::Latency,
        "connectx_multicore.infinihost3_base_latency",
        "InfiniHost III DDR",
        1e3,
    ),
    (
        Subject::Latency,
        "pci_express.latency_pcie",
        "InfiniHost III SDR, PCI Express",
        1e3,
    ),
    (
        Subject::Latency,
        "pci_express.latency_pcix",
        "InfiniHost SDR, PCI-X",
        1e3,
    ),
    (
        Subject::Bandwidth,
        "connectx_multicore.infinihost3_base_bandwidth",
        "InfiniHost III DDR",
        1e6,
    ),
    (
        Subject::Bandwidth,
        "pci_express.bandwidth_one_port",
        "InfiniHost III SDR, PCI Express",
        1e6,
    ),
    (
        Subject::Memory,
        "memfree.host_memory_128_qps",
        "InfiniHost III, MemFree over Mem",
        1e6 / 128.0,
    ),
];

/// The figures, from the claims as they are shipped.
pub fn published() -> Result<Vec<Published>, Failure> {
    let claims = shipped().map_err(|error| Failure::Input(error.to_string()))?;
    let of = |row: &Row| claims.iter().find(|claim| claim.id == row.1);
    let found = BESIDE.iter().filter_map(|row| figure(row, of(row)?));
    Ok(found.collect())
}

fn figure(row: &Row, claim: &Claim) -> Option<Published> {
    let (subject, _, adapter, factor) = row;
    let (value, extent) = match (claim.value, claim.high) {
        (Some(value), _) => (value, Extent::Exactly),
        (None, high) => (high?, Extent::AtMost),
    };
    Some(Published {
        subject: *subject,
        adapter: (*adapter).to_owned(),
        value: value * factor,
        extent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_claim() {
        assert_eq!(published().unwrap().len(), BESIDE.len());
    }

    #[test]
    fn units_are_the_subjects() {
        let claims = shipped().unwrap();
        for (subject, id, ..) in BESIDE {
            let claim = claims.iter().find(|claim| claim.id == *id).unwrap();
            let unit = match subject {
                Subject::Latency => "us",
                Subject::Bandwidth => "MB/s",
                _ => "MB",
            };
            assert_eq!(claim.unit, unit, "{id}");
        }
    }
}
