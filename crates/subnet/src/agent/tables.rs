//! Tables of ports and switches: GUIDs, partition keys, virtual lanes, forwarding.

use crate::attribute::{port_info, switch_info};
use crate::fabric::{End, Fabric, Kind, NO_PORT};
use crate::mad::status;

use super::sma::{PARTITIONS, SWITCH_PARTITIONS};

/// GUIDs in a block.
const GUIDS: usize = 8;
/// Partition keys in a block.
const P_KEYS: usize = 32;
/// LIDs in a block of the linear table.
const LIDS: usize = 64;
/// Size of the table of a block.
const BLOCK: usize = 64;

impl Fabric {
    pub(super) fn guids(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let node = self.node(at)?;
        let end = End {
            node: at.node,
            port: node.addressed(at.port),
        };
        let port = self.port_mut(end).ok_or(status::INVALID)?;
        let cap = port_info::GUID_CAP.get(&port.info) as usize;
        let first = modifier as usize * GUIDS;
        if modifier as usize >= cap.div_ceil(GUIDS) {
            return Err(status::INVALID);
        }
        for (index, part) in (first..cap).zip(block[..BLOCK].as_chunks_mut::<8>().0) {
            // The first GUID is the hardware's.
            if is_set && index > 0 {
                let guids = &mut port.tables_mut().guids;
                if guids.len() < index {
                    guids.resize(index, 0);
                }
                guids[index - 1] = u64::from_be_bytes(*part);
            }
            *part = port.guid_at(index).to_be_bytes();
        }
        Ok(())
    }

    pub(super) fn p_keys(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let node = self.node(at)?;
        // Of a switch the upper half names the port; port 0 has the table of an adapter.
        let (end, cap) = match node.kind {
            Kind::Switch => {
                let end = self.named_port(at, (modifier >> 16) as u8)?;
                (end, SWITCH_PARTITIONS)
            }
            _ => (at, PARTITIONS),
        };
        let number = usize::from(modifier as u16);
        if number >= usize::from(cap) / P_KEYS {
            return Err(status::INVALID);
        }
        let port = self.port_mut(end).ok_or(status::INVALID)?;
        let first = number * P_KEYS;
        for (at, part) in (first..).zip(block[..BLOCK].as_chunks_mut::<2>().0) {
            if is_set {
                let before: Vec<u16> = (0..cap).map(|at| port.p_key(at)).collect();
                let keys = &mut port.tables_mut().p_keys;
                if keys.len() <= at {
                    let known = keys.len();
                    keys.extend_from_slice(&before[known..=at]);
                }
                keys[at] = u16::from_be_bytes(*part);
            }
            *part = port.p_key(at as u16).to_be_bytes();
        }
        Ok(())
    }

    pub(super) fn sl_to_vl(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let (end, from) = match self.node(at)?.kind {
            Kind::Switch => (self.named_port(at, modifier as u8)?, (modifier >> 8) as u8),
            _ => (at, 0),
        };
        self.node(at)?
            .port(from.max(end.port.min(1)))
            .ok_or(status::INVALID)?;
        let port = self.port_mut(end).ok_or(status::INVALID)?;
        if is_set {
            let mut lanes = [0; 8];
            lanes.copy_from_slice(&block[..8]);
            port.tables_mut().sl_to_vl.insert(from, lanes);
        }
        let set = port.tables.as_ref();
        let set = set.and_then(|tables| tables.sl_to_vl.get(&from).copied());
        // By default service levels are spread over the lanes that the port has.
        let cap = port_info::VL_CAP.get(&port.info);
        let lanes = 1u8 << cap.saturating_sub(1).min(3);
        let default: [u8; 8] = std::array::from_fn(|pair| {
            let pair = 2 * pair as u8;
            ((pair % lanes) << 4) | ((pair + 1) % lanes)
        });
        block.fill(0);
        block[..8].copy_from_slice(&set.unwrap_or(default));
        Ok(())
    }

    pub(super) fn arbitration(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let end = match self.node(at)?.kind {
            Kind::Switch => self.named_port(at, modifier as u8)?,
            _ => at,
        };
        let number = (modifier >> 16) as u8;
        if !(1..=4).contains(&number) {
            return Err(status::INVALID);
        }
        let port = self.port_mut(end).ok_or(status::INVALID)?;
        if is_set {
            let mut entries = [0; BLOCK];
            entries.copy_from_slice(&block[..BLOCK]);
            port.tables_mut().arbitration.insert(number, entries);
        }
        let set = port.tables.as_ref();
        let set = set.and_then(|tables| tables.arbitration.get(&number).copied());
        block[..BLOCK].copy_from_slice(&set.unwrap_or([0; BLOCK]));
        Ok(())
    }

    pub(super) fn linear(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let node = self.node_mut(at)?;
        let forwarding = node.forwarding.as_deref_mut().ok_or(status::ATTRIBUTE)?;
        let cap = switch_info::LINEAR_CAP.get(&forwarding.info) as usize;
        let first = modifier as usize * LIDS;
        if modifier as usize >= cap / LIDS {
            return Err(status::INVALID);
        }
        if is_set {
            let end = first + LIDS;
            if forwarding.linear.len() < end {
                forwarding.linear.resize(end, NO_PORT);
            }
            forwarding.linear[first..end].copy_from_slice(&block[..LIDS]);
        }
        for (lid, port) in (first..).zip(&mut block[..LIDS]) {
            *port = forwarding.linear.get(lid).copied().unwrap_or(NO_PORT);
        }
        Ok(())
    }

    pub(super) fn multicast(
        &mut self,
        at: End,
        modifier: u32,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let node = self.node_mut(at)?;
        let ports = node.port_count();
        let forwarding = node.forwarding.as_deref_mut().ok_or(status::ATTRIBUTE)?;
        let cap = switch_info::MULTICAST_CAP.get(&forwarding.info);
        let number = (modifier & 0x1ff) as u16;
        let position = (modifier >> 28) as u8;
        if u64::from(number) * 32 >= cap || position > ports / 16 {
            return Err(status::INVALID);
        }
        let key = (number, position);
        if is_set {
            let mut masks = [0; BLOCK];
            masks.copy_from_slice(&block[..BLOCK]);
            forwarding.multicast.insert(key, masks);
        }
        let masks = forwarding.multicast.get(&key).copied();
        block[..BLOCK].copy_from_slice(&masks.unwrap_or([0; BLOCK]));
        Ok(())
    }
}
