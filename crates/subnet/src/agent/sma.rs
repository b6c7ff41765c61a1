//! The subnet management agent (14.2.5).

use super::Answer;
use super::m_key::Permission;
use crate::attribute::{node_info, number, port_info, switch_info};
use crate::fabric::{End, Fabric, Node, Port};
use crate::mad::{Mad, method, status};

/// Number of partition keys that NodeInfo states for a port of an adapter.
pub(crate) const PARTITIONS: u16 = 128;
/// Number of partition keys that a switch enforces.
pub(crate) const SWITCH_PARTITIONS: u16 = 32;
/// Revision of every node.
const REVISION: u64 = 0xa0;

impl Fabric {
    /// Answers a datagram of subnet management.
    pub(super) fn answer_smp(&mut self, at: End, mad: &Mad) -> Answer {
        // Requests to a subnet manager are for the program that is one.
        if mad.attribute() == number::SM_INFO || !matches!(mad.method(), method::GET | method::SET)
        {
            return Answer::Foreign;
        }
        if mad.class_version() != 1 {
            return Answer::Reply(mad.response(status::VERSION));
        }
        let permission = self.permit(at, mad);
        if permission == Permission::Refused {
            return Answer::Dropped;
        }
        let is_set = mad.method() == method::SET;
        self.version += u64::from(is_set);
        let mut answer = mad.response(0);
        let modifier = mad.modifier();
        let done = match mad.attribute() {
            number::NODE_DESCRIPTION if is_set => Err(status::ATTRIBUTE),
            number::NODE_DESCRIPTION => self.node(at).map(|node| {
                answer.smp_data_mut().copy_from_slice(&node.description);
            }),
            node_info::NUMBER if is_set => Err(status::ATTRIBUTE),
            node_info::NUMBER => self.node(at).map(|node| {
                let block = answer.smp_data_mut();
                block.fill(0);
                node_info(node, at.port, block);
            }),
            switch_info::NUMBER => self.switch_info(at, is_set, answer.smp_data_mut()),
            port_info::NUMBER => {
                let set = match is_set {
                    true => self.set_port_info(at, modifier, mad.data()),
                    false => Ok(()),
                };
                set.and_then(|()| self.port_info(at, modifier, answer.smp_data_mut()))
            }
            number::EXTENDED_PORT_INFO => self.extended(at, modifier, answer.smp_data_mut()),
            number::GUID_INFO => self.guids(at, modifier, is_set, answer.smp_data_mut()),
            number::P_KEY_TABLE => self.p_keys(at, modifier, is_set, answer.smp_data_mut()),
            number::SL_TO_VL => self.sl_to_vl(at, modifier, is_set, answer.smp_data_mut()),
            number::VL_ARBITRATION => self.arbitration(at, modifier, is_set, answer.smp_data_mut()),
            number::LINEAR_TABLE => self.linear(at, modifier, is_set, answer.smp_data_mut()),
            number::MULTICAST_TABLE => self.multicast(at, modifier, is_set, answer.smp_data_mut()),
            number::VENDOR_DIAGNOSTICS => self.node(at).map(|_| answer.smp_data_mut().fill(0)),
            number::LED_INFO => self.node(at).map(|_| ()),
            _ => Err(status::ATTRIBUTE),
        };
        if let Err(refused) = done {
            return Answer::Reply(mad.response(refused));
        }
        if permission == Permission::WithoutKey && mad.attribute() == port_info::NUMBER {
            port_info::M_KEY.set(answer.smp_data_mut(), 0);
        }
        Answer::Reply(answer)
    }

    pub(super) fn node(&self, at: End) -> Result<&Node, u16> {
        self.nodes.get(at.node as usize).ok_or(status::INVALID)
    }

    /// Returns the port that a modifier names: of an adapter 0 means the port of arrival.
    pub(super) fn named_port(&self, at: End, number: u8) -> Result<End, u16> {
        let node = self.node(at)?;
        let number = match (node.first_port(), number) {
            (1, 0) => at.port,
            (_, number) => number,
        };
        match node.port(number) {
            Some(_) => Ok(End {
                node: at.node,
                port: number,
            }),
            None => Err(status::INVALID),
        }
    }

    /// Fills in the PortInfo of a port of the node.
    ///
    /// # Errors
    ///
    /// Fails with a status if the node has no such port.
    pub(crate) fn port_info(&self, at: End, modifier: u32, block: &mut [u8]) -> Result<(), u16> {
        let end = self.named_port(at, modifier as u8)?;
        let port = self.port(end).ok_or(status::INVALID)?;
        block[..port_info::SIZE].copy_from_slice(&port.info);
        port_info::LOCAL_PORT.set(block, at.port.into());
        Ok(())
    }

    fn extended(&self, at: End, modifier: u32, block: &mut [u8]) -> Result<(), u16> {
        let end = self.named_port(at, modifier as u8)?;
        let port = self.port(end).ok_or(status::INVALID)?;
        block.fill(0);
        // StateChangeEnable, LinkSpeedSupported, LinkSpeedEnabled, LinkSpeedActive: 1 is FDR10.
        let speed = u8::from(port.is_fdr10);
        for byte in [7, 11, 15] {
            block[byte] = speed;
        }
        Ok(())
    }

    fn switch_info(&mut self, at: End, is_set: bool, block: &mut [u8]) -> Result<(), u16> {
        let node = self.nodes.get_mut(at.node as usize);
        let forwarding = node.and_then(|node| node.forwarding.as_deref_mut());
        let forwarding = forwarding.ok_or(status::ATTRIBUTE)?;
        if is_set {
            let cap = switch_info::LINEAR_CAP.get(&forwarding.info);
            if switch_info::LINEAR_TOP.get(block) >= cap {
                return Err(status::INVALID);
            }
            for field in switch_info::WRITABLE {
                field.copy(block, &mut forwarding.info);
            }
            if switch_info::PORT_STATE_CHANGE.get(block) == 1 {
                switch_info::PORT_STATE_CHANGE.set(&mut forwarding.info, 0);
            }
        }
        block.fill(0);
        block[..switch_info::SIZE].copy_from_slice(&forwarding.info);
        Ok(())
    }
}

/// Fills in the NodeInfo of a node, asked by a port.
pub(crate) fn node_info(node: &Node, port: u8, block: &mut [u8]) {
    let addressed = node.port(node.addressed(port));
    let partitions = match node.kind {
        crate::fabric::Kind::Switch => SWITCH_PARTITIONS,
        _ => PARTITIONS,
    };
    for (field, value) in [
        (node_info::BASE_VERSION, 1),
        (node_info::CLASS_VERSION, 1),
        (node_info::NODE_TYPE, node.kind.code().into()),
        (node_info::PORTS, node.port_count().into()),
        (node_info::SYSTEM_GUID, node.system_guid),
        (node_info::NODE_GUID, node.guid),
        (
            node_info::PORT_GUID,
            addressed.map_or(0, |port: &Port| port.guid),
        ),
        (node_info::PARTITIONS, partitions.into()),
        (node_info::DEVICE, node.device.into()),
        (node_info::REVISION, REVISION),
        (node_info::LOCAL_PORT, port.into()),
        (node_info::VENDOR, node.vendor.into()),
    ] {
        field.set(block, value);
    }
}
