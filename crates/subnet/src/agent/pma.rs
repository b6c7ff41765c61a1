//! The performance management agent (16.1).

use super::Answer;
use crate::attribute::counters::{
    DISCARD_DETAILS, ERROR_DETAILS, EXTENDED, PORT_COUNTERS, PORT_SELECT,
};
use crate::attribute::number::CLASS_PORT_INFO;
use crate::fabric::{End, Fabric};
use crate::field::Field;
use crate::mad::{Mad, method, status};

/// Capabilities: all ports may be selected, extended counters with all packets, ticks of waiting.
const CAPABILITIES: u64 = 0x100 | 0x200 | 0x1000;
/// Second capabilities: the extended counters have the errors.
const CAPABILITIES_2: u64 = 0x2;
/// Code of the time in which requests are answered: 4.096 us times two to this power.
const RESPONSE_TIME: u64 = 18;
/// Port number that means all ports.
const ALL_PORTS: u8 = 255;

/// Fills in a ClassPortInfo.
pub(crate) fn class_port_info(version: u8, first: u64, second: u64, block: &mut [u8]) {
    block[..72].fill(0);
    block[0] = 1;
    block[1] = version;
    Field::at_byte(2, 16).set(block, first);
    Field::at_byte(4, 27).set(block, second);
    Field::new(4 * 8 + 27, 5).set(block, RESPONSE_TIME);
}

impl Fabric {
    /// Answers a datagram of performance management.
    pub(super) fn answer_perf(&mut self, at: End, mad: &Mad) -> Answer {
        if mad.class_version() != 1 {
            return Answer::Reply(mad.response(status::VERSION));
        }
        let is_set = match mad.method() {
            method::GET => false,
            method::SET => true,
            _ => return Answer::Reply(mad.response(status::METHOD)),
        };
        let mut answer = mad.response(0);
        let block = answer.data_mut();
        let done = match mad.attribute() {
            CLASS_PORT_INFO if is_set => Err(status::ATTRIBUTE),
            CLASS_PORT_INFO => {
                class_port_info(1, CAPABILITIES, CAPABILITIES_2, block);
                Ok(())
            }
            PORT_COUNTERS | EXTENDED | ERROR_DETAILS | DISCARD_DETAILS => {
                self.counters(at, mad.attribute(), is_set, block)
            }
            _ => Err(status::ATTRIBUTE),
        };
        Answer::Reply(match done {
            Ok(()) => answer,
            Err(refused) => mad.response(refused),
        })
    }

    fn counters(
        &mut self,
        at: End,
        attribute: u16,
        is_set: bool,
        block: &mut [u8],
    ) -> Result<(), u16> {
        let select = PORT_SELECT.get(block) as u8;
        let node = self.node_mut(at)?;
        let first = node.first_port();
        let request = block.to_vec();
        block[4..].fill(0);
        let mut is_one = false;
        for (port, number) in node.ports.iter_mut().zip(u32::from(first)..) {
            let number = number as u8;
            if select != number && (select != ALL_PORTS || number == 0) {
                continue;
            }
            is_one = true;
            let counters = &mut port.counters;
            match attribute {
                _ if !is_set => {}
                EXTENDED => counters.clear_extended(&request),
                PORT_COUNTERS => counters.clear_narrow(&request),
                _ => counters.clear_details(attribute, &request),
            }
            match attribute {
                EXTENDED => counters.add_to_extended(block),
                PORT_COUNTERS => counters.add_to_narrow(block),
                _ => counters.add_to_details(attribute, block),
            }
        }
        match is_one {
            true => Ok(()),
            false => Err(status::INVALID),
        }
    }
}
