//! Packet marks for switches that distinguish traffic classes, service levels and partitions. Each
//! process marks its own packets, with the same options.

use crate::Failure;
use crate::host::Host;
use crate::resolved::Resolved;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use verbena_fabric::verbs::Marks;
use verbena_verbs::Library;

/// The marks, as far as they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteOptions {
    /// Traffic class; on RoCE the IP header's byte for DSCP and ECN.
    pub traffic_class: Option<u8>,
    /// Service level; on Ethernet the priority.
    pub service_level: Option<u8>,
    /// P_Key of the partition; by default the first one.
    pub pkey: Option<u16>,
}

impl RouteOptions {
    /// Returns whether any is given.
    pub fn is_given(&self) -> bool {
        *self != RouteOptions::default()
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks {
            traffic_class: self.traffic_class,
            service_level: self.service_level.unwrap_or(0),
            partition: self.pkey,
        }
    }

    /// Returns the given options as names and values, for the record.
    pub(crate) fn described(&self) -> impl Iterator<Item = (String, String)> {
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
    pub(crate) fn check(&self, host: &dyn Host, target: &Resolved) -> Result<(), Failure> {
        let is_software = target.kind == "software";
        if is_software && self.service_level.is_some() {
            let text = "--service-level does not apply to the software adapter: its packets use \
                        UDP, which has no levels";
            return Err(Failure::Input(text.to_owned()));
        }
        if is_software && self.traffic_class.is_some() && !host.is_ethernet() {
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
