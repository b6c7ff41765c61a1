//! Counters of packets, and the reasons of drops.

use std::fmt;

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drop {
    /// From the interface: no whole IP packet.
    NotIp,
    /// From the interface: no address of the interface has the destination's IP version.
    NoSource,
    /// From the interface: longer than the MTU, and not to be cut; answered by ICMP.
    TooLong,
    /// From the interface: longer than the neighbour's MTU, and not to be cut; answered by ICMP.
    TooLongForNeighbour,
    /// From the interface: too many packets wait for the address of one neighbour, or of all.
    QueueFull,
    /// From the interface: the neighbour does not answer.
    Unresolved,
    /// From the interface: the subnet manager states no path to the neighbour.
    NoPath,
    /// From the interface: the group was not joined.
    NoGroup,
    /// From the interface: the neighbour takes no more datagrams.
    Stalled,
    /// From the interface: the adapter refused the request.
    Refused,
    /// From the link: shorter than its headers.
    Short,
    /// From the link: unknown EtherType.
    UnknownType,
    /// From the link: no whole IP packet.
    BadIp,
    /// From the link: an invalid ARP message.
    BadArp,
    /// From the link: an invalid neighbour solicitation or advertisement.
    BadNeighbour,
    /// From the link: an invalid message of the connection manager.
    BadConnection,
    /// From the link: the hardware address in a message is not its sender's.
    Forged,
    /// From the link: the receive failed.
    Failed,
    /// From the link: the interface refused the packet.
    Interface,
}

impl Drop {
    /// All reasons, in the order of the counters.
    const ALL: [Drop; 19] = [
        Drop::NotIp,
        Drop::NoSource,
        Drop::TooLong,
        Drop::TooLongForNeighbour,
        Drop::QueueFull,
        Drop::Unresolved,
        Drop::NoPath,
        Drop::NoGroup,
        Drop::Stalled,
        Drop::Refused,
        Drop::Short,
        Drop::UnknownType,
        Drop::BadIp,
        Drop::BadArp,
        Drop::BadNeighbour,
        Drop::BadConnection,
        Drop::Forged,
        Drop::Failed,
        Drop::Interface,
    ];

    fn name(self) -> &'static str {
        match self {
            Drop::NotIp => "sent: no IP packet",
            Drop::NoSource => "sent: no address of this IP version",
            Drop::TooLong => "sent: longer than the MTU",
            Drop::TooLongForNeighbour => "sent: longer than the neighbour's MTU",
            Drop::QueueFull => "sent: queue of an unresolved neighbour full",
            Drop::Unresolved => "sent: neighbour does not answer",
            Drop::NoPath => "sent: no path to the neighbour",
            Drop::NoGroup => "sent: group not joined",
            Drop::Stalled => "sent: neighbour takes no datagrams",
            Drop::Refused => "sent: refused by the adapter",
            Drop::Short => "received: shorter than its header",
            Drop::UnknownType => "received: unknown EtherType",
            Drop::BadIp => "received: no IP packet",
            Drop::BadArp => "received: invalid ARP",
            Drop::BadNeighbour => "received: invalid neighbour message",
            Drop::BadConnection => "received: invalid connection message",
            Drop::Forged => "received: forged hardware address",
            Drop::Failed => "received: receive failed",
            Drop::Interface => "received: refused by the interface",
        }
    }
}

/// Counters of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// IP packets from the interface.
    pub taken: u64,
    /// IP packets sent to a neighbour.
    pub unicast: u64,
    /// IP packets sent to a group.
    pub multicast: u64,
    /// Datagrams and messages of connections from the link, without copies of those sent.
    pub received: u64,
    /// IP packets given to the interface.
    pub delivered: u64,
    /// ARP, neighbour and connection messages received.
    pub messages: u64,
    /// Requests for addresses sent.
    pub requests: u64,
    /// Requests for addresses answered.
    pub answers: u64,
    /// Messages of another interface with an address of this one.
    pub conflicts: u64,
    /// ICMP errors that were not sent to programs, because of their rate.
    pub limited: u64,
    /// Packets that the kernel dropped in front of the interface; none of them is in `taken`.
    pub dropped_by_kernel: u64,
    drops: [u64; Drop::ALL.len()],
}

impl Counters {
    /// Counts dropped packets.
    pub fn drop(&mut self, reason: Drop, packets: u64) {
        self.drops[reason as usize] += packets;
    }

    /// Returns the number of packets that were dropped for a reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }
}

impl fmt::Display for Counters {
    /// Formats one line for each counter; drops that did not happen are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let always = [
            ("packets sent by programs", self.taken),
            ("packets sent to a neighbour", self.unicast),
            ("packets sent to a group", self.multicast),
            ("messages received from the link", self.received),
            ("packets delivered to programs", self.delivered),
            ("address and connection messages received", self.messages),
            ("address requests sent", self.requests),
            ("address requests answered", self.answers),
            ("address conflicts", self.conflicts),
        ];
        for (name, count) in always {
            writeln!(f, "  {name:<48} {count:>12}")?;
        }
        let rare = [
            ("ICMP errors held back by their rate limit", self.limited),
            ("packets dropped by the kernel", self.dropped_by_kernel),
        ];
        for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  {name:<48} {count:>12}")?;
        }
        for reason in Drop::ALL {
            let count = self.dropped(reason);
            if count > 0 {
                writeln!(f, "  dropped {:<40} {count:>12}", reason.name())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        for (at, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            let mut counters = Counters::default();
            counters.drop(reason, 3);
            assert_eq!(counters.dropped(reason), 3);
            let text = counters.to_string();
            assert_eq!(text.matches("dropped").count(), 1, "{text}");
            assert!(text.contains(reason.name()), "{text}");
        }
    }
}
