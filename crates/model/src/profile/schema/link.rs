//! Links, cables and switches.

use crate::kernel::Time;
use crate::profile::quantity::{Bytes, Count, Ports, Rate, Ratio};

section! {
    /// A link, at its rate after line encoding, with the headers around a packet's payload.
    Link {
        /// Description.
        about: String,
        /// Data rate of the whole link.
        rate: Rate,
        /// Payload of a full packet.
        mtu: Bytes,
        /// Headers and checks of any packet, and the gap between two packets. InfiniBand: LRH, BTH,
        /// ICRC, VCRC; Ethernet: preamble and gap, Ethernet header and check, IP, UDP, BTH, ICRC.
        packet_overhead: Bytes,
        /// Extended header of the first packet of a write, or of a read request.
        rdma_header: Bytes,
        /// Extended header of an acknowledgement or a read response.
        acknowledgement_header: Bytes,
        /// Extended header of a datagram.
        datagram_header: Bytes,
        /// Bytes before a datagram's data in the receive buffer.
        global_header: Bytes,
        /// Share of the link's rate used by link-level control packets.
        control: Ratio,
        /// Virtual lanes for data, each with its own buffers.
        lanes: Count,
        /// Buffer at one end of a link, per virtual lane. Inbound, it is the number of credits that
        /// the peer has; a packet leaves an adapter's buffer when the bus has taken its data, and a
        /// switch's when it has left for the next link. Outbound at an adapter, it bounds the
        /// payload requested from memory that has not yet left; a read beyond it waits.
        buffer: Bytes,
    }
}

section! {
    /// A cable.
    Cable {
        /// Description.
        about: String,
        /// Length in metres.
        length: Count,
        /// Delay per metre.
        per_metre: Time,
        /// Delay of the transceiver at each end.
        transceiver: Time,
    }
}

section! {
    /// A switch; several of them form a fat tree.
    Switch {
        /// Description.
        about: String,
        /// Number of ports.
        ports: Ports,
        /// Time from a packet's first byte in to its first byte out.
        latency: Time,
        /// Buffer for packets from one link on one lane; if absent, the size of an adapter's
        /// buffer.
        buffer: Option<Bytes>,
    }
}

impl Switch {
    /// Returns the number of nodes in a three-level fat tree of such switches, the largest
    /// supported.
    pub fn joins(&self) -> u64 {
        let half = self.ports.0 / 2;
        2 * half * half * half
    }
}
