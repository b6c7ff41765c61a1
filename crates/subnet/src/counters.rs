//! The counters of a port.

use crate::attribute::counters::{
    COUNTERS, Counter, DETAILS, EXTENDED_FIELDS, EXTENDED_SELECT_2, NARROW, NARROW_FIELDS, SELECT,
    SELECT_2,
};
use crate::field::Field;

/// Packets on one way, with their 4-byte words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Words of all of them.
    pub words: u64,
}

/// The counters of a port: 64-bit counts, and those that PortCounters and the attributes of causes
/// show since they were cleared, which is independent of the clearing of the 64-bit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    counts: [u64; COUNTERS],
    /// Added to the counts, modulo 2^64, for the values of PortCounters.
    narrow: [u64; NARROW],
    /// Added to the counts for the values of [`DETAILS`].
    details: [u64; DETAILS.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            counts: [0; COUNTERS],
            narrow: [0; NARROW],
            details: [0; DETAILS.len()],
        }
    }
}

impl Counters {
    /// Adds to a counter.
    pub fn add(&mut self, counter: Counter, number: u64) {
        let count = &mut self.counts[counter as usize];
        *count = count.wrapping_add(number);
    }

    /// Returns a counter's 64-bit count.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Records unicast packets that leave.
    pub fn sent(&mut self, load: Load) {
        self.add(Counter::TransmitData, load.words);
        self.add(Counter::TransmitPackets, load.packets);
        self.add(Counter::UnicastTransmit, load.packets);
    }

    /// Records unicast packets that arrive.
    pub fn received(&mut self, load: Load) {
        self.add(Counter::ReceiveData, load.words);
        self.add(Counter::ReceivePackets, load.packets);
        self.add(Counter::UnicastReceive, load.packets);
    }

    fn narrow(&self, at: usize) -> u64 {
        self.counts[at].wrapping_add(self.narrow[at])
    }

    /// Adds the values to those of a PortCounters attribute. They stick at their maximum.
    pub fn add_to_narrow(&self, block: &mut [u8]) {
        for (at, field) in NARROW_FIELDS.iter().enumerate() {
            let value = field.get(block).saturating_add(self.narrow(at));
            field.set(block, value.min(field.most()));
        }
    }

    /// Adds the values to those of a PortCountersExtended attribute.
    pub fn add_to_extended(&self, block: &mut [u8]) {
        for (counter, _, byte) in EXTENDED_FIELDS {
            let field = Field::at_byte(byte, 64);
            let value = field.get(block).wrapping_add(self.get(counter));
            field.set(block, value);
        }
    }

    /// Adds the values to those of an attribute of causes. They stick at their maximum.
    pub fn add_to_details(&self, attribute: u16, block: &mut [u8]) {
        for ((of, counter, _, byte), offset) in DETAILS.into_iter().zip(self.details) {
            if of == attribute {
                let field = Field::at_byte(byte, 16);
                let count = self.get(counter).wrapping_add(offset);
                let value = field.get(block).saturating_add(count);
                field.set(block, value.min(field.most()));
            }
        }
    }

    /// Clears the counters that an attribute of causes selects.
    pub fn clear_details(&mut self, attribute: u16, block: &[u8]) {
        for ((of, counter, bit, _), offset) in DETAILS.into_iter().zip(&mut self.details) {
            if of == attribute && SELECT.get(block) >> bit & 1 != 0 {
                *offset = self.counts[counter as usize].wrapping_neg();
            }
        }
    }

    /// Clears the counters that a PortCounters attribute selects.
    pub fn clear_narrow(&mut self, block: &[u8]) {
        let selected = SELECT.get(block) | (SELECT_2.get(block) & 1) << 16;
        for at in (0..NARROW).filter(|at| selected >> at & 1 != 0) {
            self.narrow[at] = self.counts[at].wrapping_neg();
        }
    }

    /// Clears the counters that a PortCountersExtended attribute selects.
    pub fn clear_extended(&mut self, block: &[u8]) {
        let selected = SELECT.get(block) | EXTENDED_SELECT_2.get(block) << 16;
        for (counter, bit, _) in EXTENDED_FIELDS {
            if selected >> bit & 1 == 0 {
                continue;
            }
            let at = counter as usize;
            if let Some(narrow) = self.narrow.get_mut(at) {
                *narrow = narrow.wrapping_add(self.counts[at]);
            }
            for ((_, of, _, _), offset) in DETAILS.into_iter().zip(&mut self.details) {
                if of == counter {
                    *offset = offset.wrapping_add(self.counts[at]);
                }
            }
            self.counts[at] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::counters::ERROR_DETAILS;

    fn narrow(counters: &Counters) -> [u8; 64] {
        let mut block = [0; 64];
        counters.add_to_narrow(&mut block);
        block
    }

    #[test]
    fn narrow_counters_stick_at_their_maximum() {
        let mut counters = Counters::default();
        counters.add(Counter::LinkDowned, 300);
        counters.add(Counter::TransmitData, 1 << 33);
        let block = narrow(&counters);
        assert_eq!(NARROW_FIELDS[Counter::LinkDowned as usize].get(&block), 255);
        let data = NARROW_FIELDS[Counter::TransmitData as usize];
        assert_eq!(data.get(&block), u64::from(u32::MAX));
        assert_eq!(counters.get(Counter::LinkDowned), 300);
    }

    #[test]
    fn causes_follow_their_errors_and_are_cleared_by_themselves() {
        let mut counters = Counters::default();
        counters.add(Counter::ReceiveErrors, 70_000);
        counters.add(Counter::SwitchRelayErrors, 3);
        let values = |counters: &Counters| {
            let mut block = [0; 64];
            counters.add_to_details(ERROR_DETAILS, &mut block);
            (block[4..6].to_vec(), block[10..12].to_vec())
        };
        assert_eq!(values(&counters), (vec![255, 255], vec![0, 3]));
        let mut select = [0; 64];
        SELECT.set(&mut select, 1);
        counters.clear_details(ERROR_DETAILS, &select);
        assert_eq!(values(&counters), (vec![0, 0], vec![0, 3]));
        assert_eq!(counters.get(Counter::ReceiveErrors), 70_000);
        counters.add(Counter::ReceiveErrors, 2);
        // Clearing the 64-bit counts leaves them.
        EXTENDED_SELECT_2.set(&mut select, u64::from(u32::MAX));
        counters.clear_extended(&select);
        assert_eq!(values(&counters), (vec![0, 2], vec![0, 3]));
    }

    #[test]
    fn each_attribute_clears_its_own_values() {
        let mut counters = Counters::default();
        counters.sent(Load {
            packets: 1,
            words: 72,
        });
        let field = NARROW_FIELDS[Counter::TransmitPackets as usize];
        let mut select = [0; 64];
        SELECT.set(&mut select, 1 << 14);
        counters.clear_narrow(&select);
        assert_eq!(field.get(&narrow(&counters)), 0);
        assert_eq!(counters.get(Counter::TransmitPackets), 1);
        counters.sent(Load {
            packets: 1,
            words: 72,
        });
        SELECT.set(&mut select, 1 << 2);
        counters.clear_extended(&select);
        assert_eq!(counters.get(Counter::TransmitPackets), 0);
        assert_eq!(field.get(&narrow(&counters)), 1);
        // Not selected.
        assert_eq!(counters.get(Counter::TransmitData), 144);
    }
}
