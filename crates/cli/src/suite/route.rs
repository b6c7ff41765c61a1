//! Packet marks for switches that distinguish traffic classes, service levels and partitions. Each
//! process marks its own packets, with the same options.

use super::target::Resolved;
use crate::failure::Failure;
use crate::number;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use verbena_fabric::verbs::Marks;
use verbena_hca::link;
use verbena_verbs::Library;

/// The options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct RouteOptions {
    /// Set the traffic class of the packets
    ///
    /// In the global route; on RoCE the IP header's byte for DSCP and ECN (104 is DSCP 26).
    #[arg(long, value_name = "0-255", value_parser = number::between::<u8>(0..=255))]
    pub traffic_class: Option<u8>,

    /// Set the service level; on Ethernet the priority
    #[arg(long, value_name = "0-15", value_parser = number::between::<u8>(0..=15))]
    pub service_level: Option<u8>,

    /// Use this partition, e.g. 0x8001 [default: the first P_Key]
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub pkey: Option<u16>,
}

/// Parses a P_Key, hexadecimal after 0x.
fn key(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number & 0x7fff != 0 => Ok(number),
        _ => Err(
            "a P_Key is a number such as 0x8001 with at least one of its lower 15 bits set"
                .to_owned(),
        ),
    }
}

impl RouteOptions {
    pub fn is_given(&self) -> bool {
        *self != RouteOptions::default()
    }

    pub fn marks(&self) -> Marks {
        Marks {
            traffic_class: self.traffic_class,
            service_level: self.service_level.unwrap_or(0),
            partition: self.pkey,
        }
    }

    /// Returns the given options as names and values, for the record.
    pub fn described(&self) -> impl Iterator<Item = (String, String)> {
        let class = self.traffic_class.map(|class| class.to_string());
        let level = self.service_level.map(|level| level.to_string());
        let pkey = self.pkey.map(|key| format!("{key:#06x}"));
        let all = [
            ("traffic class", class),
            ("service level", level),
            ("P_Key", pkey),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    }

    /// Rejects marks that the adapter does not support.
    ///
    /// # Errors
    ///
    /// Names the option and the reason.
    pub fn check(&self, target: &Resolved) -> Result<(), Failure> {
        let is_software = target.kind == "software";
        if is_software && self.service_level.is_some() {
            let text = "--service-level does not apply to the software adapter: its packets use \
                        UDP, which has no levels";
            return Err(Failure::Input(text.to_owned()));
        }
        if is_software && self.traffic_class.is_some() && !link::is_ethernet() {
            let text = "--traffic-class marks packets, but the software adapter copies data in \
                        this host's memory; set VERBENA_LINK=roce to send packets";
            return Err(Failure::Input(text.to_owned()));
        }
        let Some(key) = self.pkey else {
            return Ok(());
        };
        let refused =
            |error: &dyn Display| Failure::Input(format!("cannot use --pkey {key:#06x}: {error}"));
        let ask = || {
            let device = Library::open(&target.library)?.device(Some(target.device()))?;
            device.open()?.partition(target.port(), key)
        };
        ask().map(drop).map_err(|error| refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_keys_are_parsed() {
        assert_eq!(key("0x8001"), Ok(0x8001));
        assert_eq!(key("32769"), Ok(0x8001));
        for wrong in ["", "0x", "0", "0x8000", "65536", "0x10000", "-1", "8001h"] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
