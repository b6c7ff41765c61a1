//! The published figures shown beside a report's headlines: their claims, adapters and modelled
//! systems.

use crate::Failure;
use verbena_report::headline::Subject;
use verbena_report::ip_table::PublishedIp;
use verbena_report::summary::{Extent, Published};
use verbena_reproduce::claims::{Claim, shipped};

/// A claim shown beside a headline.
struct Row {
    subject: Subject,
    claim: &'static str,
    adapter: &'static str,
    /// The model of the system it was measured on.
    system: &'static str,
    /// Factor from its unit to the subject's.
    factor: f64,
}

/// Figures of adapters alone, without MPI. Those of `connectx_multicore` and `pci_express` are for
/// short writes or sends; those of `qdr_evaluation` are the smallest observed; the memory is that
/// of 128 queue pairs.
const BESIDE: &[Row] = &[
    Row {
        subject: Subject::Latency,
        claim: "qdr_evaluation.latency_qdr_switched",
        adapter: "ConnectX QDR",
        system: "connectx-qdr",
        factor: 1e3,
    },
    Row {
        subject: Subject::Latency,
        claim: "qdr_evaluation.latency_ddr_switched",
        adapter: "ConnectX at DDR",
        system: "connectx-ddr-legacy",
        factor: 1e3,
    },
    Row {
        subject: Subject::Latency,
        claim: "connectx_multicore.infinihost3_base_latency",
        adapter: "InfiniHost III DDR",
        system: "infinihost3-ddr",
        factor: 1e3,
    },
    Row {
        subject: Subject::Latency,
        claim: "pci_express.latency_pcie",
        adapter: "InfiniHost III SDR, PCI Express",
        system: "infinihost3-mem-sdr",
        factor: 1e3,
    },
    Row {
        subject: Subject::Latency,
        claim: "pci_express.latency_pcix",
        adapter: "InfiniHost SDR, PCI-X",
        system: "infinihost-pcix",
        factor: 1e3,
    },
    Row {
        subject: Subject::Bandwidth,
        claim: "connectx_multicore.infinihost3_base_bandwidth",
        adapter: "InfiniHost III DDR",
        system: "infinihost3-ddr",
        factor: 1e6,
    },
    Row {
        subject: Subject::Bandwidth,
        claim: "pci_express.bandwidth_one_port",
        adapter: "InfiniHost III SDR, PCI Express",
        system: "infinihost3-mem-sdr",
        factor: 1e6,
    },
    Row {
        subject: Subject::Memory,
        claim: "memfree.host_memory_128_qps",
        adapter: "InfiniHost III, MemFree over Mem",
        system: "infinihost3-memfree-sdr",
        factor: 1e6 / 128.0,
    },
];

/// A claim about IP over InfiniBand, or about the verbs beside it.
struct IpRow {
    benchmark: &'static str,
    variant: &'static str,
    claim: &'static str,
    /// Factor from its unit to nanoseconds or bytes a second.
    factor: f64,
}

/// Bytes a second of a gigabit a second.
const GIGABIT: f64 = 1e9 / 8.0;

/// Claims of `qdr_evaluation`. Its latency of verbs is that of the same comparison, by reference.
/// Its bandwidth both ways is not comparable with one queue pair's writes: it is that of sends on
/// sixteen queue pairs with a shared receive queue.
const OF_IP: &[IpRow] = &[
    IpRow {
        benchmark: "ip.latency",
        variant: "connected",
        claim: "qdr_evaluation.ipoib_latency_optical",
        factor: 1e3,
    },
    IpRow {
        benchmark: "latency.write",
        variant: "rc",
        claim: "qdr_evaluation.verbs_latency_optical",
        factor: 1e3,
    },
    IpRow {
        benchmark: "bandwidth.send",
        variant: "rc",
        claim: "qdr_evaluation.reliable",
        factor: GIGABIT,
    },
    IpRow {
        benchmark: "bandwidth.send",
        variant: "ud",
        claim: "qdr_evaluation.ud_receive",
        factor: GIGABIT,
    },
    IpRow {
        benchmark: "ip.stream-both",
        variant: "connected",
        claim: "qdr_evaluation.ipoib_bibandwidth",
        factor: GIGABIT,
    },
];

/// Returns the published figures of IP over InfiniBand and of the verbs beside it.
///
/// # Errors
///
/// Fails if the claims cannot be read.
pub fn of_ip() -> Result<Vec<PublishedIp>, Failure> {
    let claims = shipped().map_err(|error| Failure::Input(error.to_string()))?;
    let known = OF_IP.iter().filter_map(|row| {
        let claim = claims.iter().find(|claim| claim.id == row.claim)?;
        Some(PublishedIp {
            benchmark: row.benchmark,
            variant: row.variant,
            value: claim.value? * row.factor,
            claim: claim.id.clone(),
        })
    });
    Ok(known.collect())
}

pub(crate) struct Known {
    pub claim: &'static str,
    pub figure: Published,
}

/// Returns all published figures from the shipped claims.
///
/// # Errors
///
/// Fails if the claims cannot be read.
pub fn published() -> Result<Vec<Published>, Failure> {
    let known = found(|_| true)?.into_iter();
    Ok(known.map(|known| known.figure).collect())
}

/// Returns those of a modelled system.
///
/// # Errors
///
/// Fails if the claims cannot be read.
pub(crate) fn of_system(name: &str) -> Result<Vec<Known>, Failure> {
    found(|row| row.system == name)
}

fn found(wanted: impl Fn(&Row) -> bool) -> Result<Vec<Known>, Failure> {
    let claims = shipped().map_err(|error| Failure::Input(error.to_string()))?;
    let of = |row: &Row| claims.iter().find(|claim| claim.id == row.claim);
    let rows = BESIDE.iter().filter(|row| wanted(row));
    let known = rows.filter_map(|row| {
        Some(Known {
            claim: row.claim,
            figure: figure(row, of(row)?)?,
        })
    });
    Ok(known.collect())
}

fn figure(row: &Row, claim: &Claim) -> Option<Published> {
    let (value, extent) = match (claim.value, claim.high) {
        (Some(value), _) => (value, Extent::Exactly),
        (None, high) => (high?, Extent::AtMost),
    };
    Some(Published {
        subject: row.subject,
        adapter: row.adapter.to_owned(),
        value: value * row.factor,
        extent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_claim() {
        assert_eq!(published().unwrap().len(), BESIDE.len());
        assert_eq!(of_ip().unwrap().len(), OF_IP.len());
    }

    #[test]
    fn units_are_those_of_the_subject() {
        let claims = shipped().unwrap();
        for row in BESIDE {
            let id = row.claim;
            let claim = claims.iter().find(|claim| claim.id == id).unwrap();
            let unit = match row.subject {
                Subject::Latency => "us",
                Subject::Bandwidth => "MB/s",
                _ => "MB",
            };
            assert_eq!(claim.unit, unit, "{id}");
        }
        for row in OF_IP {
            let id = row.claim;
            let claim = claims.iter().find(|claim| claim.id == id).unwrap();
            let unit = match row.benchmark.ends_with("latency") || row.benchmark == "latency.write"
            {
                true => "us",
                false => "Gbit/s",
            };
            assert_eq!(claim.unit, unit, "{id}");
        }
    }

    #[test]
    fn figures_are_found_by_their_system() {
        let of = |name| of_system(name).unwrap();
        assert_eq!(of("connectx-qdr")[0].figure.value, 990.0);
        assert!(of("connectx6-hdr").is_empty());
        for row in BESIDE {
            assert!(of(row.system).iter().any(|known| known.claim == row.claim));
        }
    }
}
