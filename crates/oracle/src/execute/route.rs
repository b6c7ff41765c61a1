//! Addressing of queue pairs: by the LID of a subnet, or by the GID of an Ethernet port.

use super::message::Fact;
use super::objects::{Objects, PORT};
use crate::program::QpId;
use verbena_abi as abi;
use verbena_verbs::library::Functions;

/// Maximum number of routers on a path.
const HOP_LIMIT: u8 = 64;

/// The address of the local port.
#[derive(Clone, Copy, Debug)]
pub enum Own {
    /// Of an InfiniBand port.
    Lid(u16),
    /// Of an Ethernet port, with its index in the GID table.
    Gid(u8, [u8; 16]),
}

impl Own {
    /// Returns timeout code (`ibv_qp_attr.timeout`: 4.096 us * 2^12 is 17 ms) and retry count
    /// (`retry_cnt`), such that a busy machine does not count as a lost peer. A network that may
    /// lose packets gets more than the program specifies.
    pub fn retries(&self, wanted: u8) -> (u8, u8) {
        match self {
            Own::Lid(_) => (12, wanted),
            Own::Gid(..) => (13, 7),
        }
    }

    /// Returns the address of the port; of an Ethernet port, the IPv4 address if it has one.
    ///
    /// # Errors
    ///
    /// The port cannot be queried or has no GID.
    pub fn of(library: &Functions, context: *mut abi::ibv_context) -> Result<Own, String> {
        let mut port = abi::ibv_port_attr::default();
        // SAFETY: the context is open and the attributes are valid.
        if unsafe { (library.query_port)(context, PORT, &mut port) } != 0 {
            return Err("ibv_query_port failed".to_owned());
        }
        if port.link_layer != abi::IBV_LINK_LAYER_ETHERNET {
            return Ok(Own::Lid(port.lid));
        }
        let mut best = None;
        for index in 0..port.gid_tbl_len.min(i32::from(u8::MAX)) {
            let mut gid = abi::ibv_gid::from_bytes([0; 16]);
            // SAFETY: the context is open and the GID is valid.
            if unsafe { (library.query_gid)(context, PORT, index, &mut gid) } != 0 {
                break;
            }
            let bytes = gid.bytes();
            let is_ipv4 = bytes[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            if bytes != [0; 16] && (best.is_none() || is_ipv4) {
                best = Some(Own::Gid(index as u8, bytes));
            }
        }
        best.ok_or_else(|| "the port has no GID".to_owned())
    }
}

impl Objects {
    /// Returns the address handle attributes for a queue pair.
    pub fn route(&self, to: QpId) -> abi::ibv_ah_attr {
        let base = abi::ibv_ah_attr {
            port_num: PORT,
            ..Default::default()
        };
        match self.own {
            Own::Lid(lid) => abi::ibv_ah_attr { dlid: lid, ..base },
            Own::Gid(index, _) => abi::ibv_ah_attr {
                is_global: 1,
                grh: abi::ibv_global_route {
                    dgid: abi::ibv_gid::from_bytes(self.gid_of(to)),
                    sgid_index: index,
                    hop_limit: HOP_LIMIT,
                    ..Default::default()
                },
                ..base
            },
        }
    }

    /// Returns a queue pair's GID; the local one if it is unknown.
    pub fn gid_of(&self, qp: QpId) -> [u8; 16] {
        let half = |fact| self.facts.get(&(fact, qp.0)).copied();
        let own = match self.own {
            Own::Lid(_) => [0; 16],
            Own::Gid(_, gid) => gid,
        };
        match (half(Fact::GidPrefix), half(Fact::GidInterface)) {
            (Some(prefix), Some(interface)) => {
                (u128::from(prefix) << 64 | u128::from(interface)).to_be_bytes()
            }
            _ => own,
        }
    }

    /// Records the GID of a local queue pair.
    pub fn learn_gid(&mut self, qp: QpId) {
        if let Own::Gid(_, gid) = self.own {
            let number = u128::from_be_bytes(gid);
            let halves = [
                (Fact::GidPrefix, (number >> 64) as u64),
                (Fact::GidInterface, number as u64),
            ];
            for (fact, half) in halves {
                self.facts.insert((fact, qp.0), half);
            }
        }
    }
}
