//! PortCounters (16.1.3.5), PortCountersExtended (16.1.4.11), and the causes of errors:
//! PortRcvErrorDetails (16.1.4.1) and PortXmitDiscardDetails (16.1.4.2).

use crate::field::Field;

/// Number of PortCounters.
pub const PORT_COUNTERS: u16 = 0x12;
/// Number of PortCountersExtended.
pub const EXTENDED: u16 = 0x1d;

/// Number of PortRcvErrorDetails.
pub const ERROR_DETAILS: u16 = 0x15;
/// Number of PortXmitDiscardDetails.
pub const DISCARD_DETAILS: u16 = 0x16;

/// The port whose counters are meant, of all attributes.
pub const PORT_SELECT: Field = Field::at_byte(1, 8);
/// The counters that Set clears, of all attributes.
pub const SELECT: Field = Field::at_byte(2, 16);
/// More counters that Set clears, of PortCounters.
pub const SELECT_2: Field = Field::at_byte(18, 8);
/// More counters that Set clears, of PortCountersExtended.
pub const EXTENDED_SELECT_2: Field = Field::at_byte(4, 32);

impl Counter {
    /// Returns whether it counts errors, not traffic.
    pub fn is_of_errors(self) -> bool {
        !matches!(
            self,
            Counter::TransmitData
                | Counter::ReceiveData
                | Counter::TransmitPackets
                | Counter::ReceivePackets
                | Counter::UnicastTransmit
                | Counter::UnicastReceive
                | Counter::MulticastTransmit
                | Counter::MulticastReceive
        )
    }
}

/// A counter, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Symbol errors.
    SymbolErrors,
    /// Recoveries of the link.
    LinkRecoveries,
    /// Times that the link went down.
    LinkDowned,
    /// Damaged packets.
    ReceiveErrors,
    /// Packets that the sender marked as damaged.
    RemotePhysicalErrors,
    /// Packets that a switch could not forward.
    SwitchRelayErrors,
    /// Packets discarded before they were sent.
    Discards,
    /// Packets not sent because of partitions.
    TransmitConstraint,
    /// Packets not taken because of partitions.
    ReceiveConstraint,
    /// Errors above the threshold.
    LocalIntegrity,
    /// Overruns of buffers.
    BufferOverruns,
    /// Management packets without a buffer.
    Vl15Dropped,
    /// Words of 4 bytes sent.
    TransmitData,
    /// Words of 4 bytes received.
    ReceiveData,
    /// Packets sent.
    TransmitPackets,
    /// Packets received.
    ReceivePackets,
    /// Ticks in which a packet waited for credits.
    TransmitWait,
    /// Unicast packets sent.
    UnicastTransmit,
    /// Unicast packets received.
    UnicastReceive,
    /// Multicast packets sent.
    MulticastTransmit,
    /// Multicast packets received.
    MulticastReceive,
}

/// Number of counters.
pub const COUNTERS: usize = Counter::MulticastReceive as usize + 1;
/// Number of counters that PortCounters has too: those before the unicast packets.
pub const NARROW: usize = Counter::TransmitWait as usize + 1;

/// Fields of PortCounters, in the order of [`Counter`] and of the bits of [`SELECT`]; the last is
/// bit 0 of [`SELECT_2`].
pub const NARROW_FIELDS: [Field; NARROW] = [
    Field::at_byte(4, 16),
    Field::at_byte(6, 8),
    Field::at_byte(7, 8),
    Field::at_byte(8, 16),
    Field::at_byte(10, 16),
    Field::at_byte(12, 16),
    Field::at_byte(14, 16),
    Field::at_byte(16, 8),
    Field::at_byte(17, 8),
    Field::at_byte(19, 4),
    Field::new(19 * 8 + 4, 4),
    Field::at_byte(22, 16),
    Field::at_byte(24, 32),
    Field::at_byte(28, 32),
    Field::at_byte(32, 32),
    Field::at_byte(36, 32),
    Field::at_byte(40, 32),
];

/// Where PortCountersExtended has a counter: bit of [`SELECT`], or 16 plus the bit of
/// [`EXTENDED_SELECT_2`], and its first byte. All have 64 bits.
pub const EXTENDED_FIELDS: [(Counter, u32, u16); COUNTERS] = [
    (Counter::TransmitData, 0, 8),
    (Counter::ReceiveData, 1, 16),
    (Counter::TransmitPackets, 2, 24),
    (Counter::ReceivePackets, 3, 32),
    (Counter::UnicastTransmit, 4, 40),
    (Counter::UnicastReceive, 5, 48),
    (Counter::MulticastTransmit, 6, 56),
    (Counter::MulticastReceive, 7, 64),
    (Counter::SymbolErrors, 16, 72),
    (Counter::LinkRecoveries, 17, 80),
    (Counter::LinkDowned, 18, 88),
    (Counter::ReceiveErrors, 19, 96),
    (Counter::RemotePhysicalErrors, 20, 104),
    (Counter::SwitchRelayErrors, 21, 112),
    (Counter::Discards, 22, 120),
    (Counter::TransmitConstraint, 23, 128),
    (Counter::ReceiveConstraint, 24, 136),
    (Counter::LocalIntegrity, 25, 144),
    (Counter::BufferOverruns, 26, 152),
    (Counter::Vl15Dropped, 27, 160),
    (Counter::TransmitWait, 28, 168),
];

/// The causes of errors that ports count: the attribute that has it, the counter of the errors, bit
/// of [`SELECT`], and first byte. All have 16 bits. The other causes do not occur.
pub const DETAILS: [(u16, Counter, u32, u16); 3] = [
    (ERROR_DETAILS, Counter::ReceiveErrors, 0, 4),
    (ERROR_DETAILS, Counter::SwitchRelayErrors, 3, 10),
    (DISCARD_DETAILS, Counter::Discards, 0, 4),
];
