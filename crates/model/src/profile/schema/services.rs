//! The kernel's network and file services.

use crate::kernel::Time;
use crate::profile::quantity::{Bytes, Count, Rate};

section! {
    /// The kernel's TCP/IP stack over InfiniBand.
    Stack {
        /// Description.
        about: String,
        /// Payload of one packet of the stack.
        mtu: Bytes,
        /// Time for system call, TCP, IP and driver per packet, in either direction.
        packet: Time,
        /// Time from the adapter's event until the interrupt handler runs, moderation included.
        interrupt: Time,
    }
}

section! {
    /// Gigabit Ethernet, for comparison.
    Ethernet {
        /// Description.
        about: String,
        /// Line rate.
        rate: Rate,
        /// Shortest frame.
        frame: Bytes,
        /// Preamble and gap around a frame.
        gap: Bytes,
    }
}

section! {
    /// The remote file service.
    FileService {
        /// Description.
        about: String,
        /// Bytes transferred at a time for one reader.
        block: Bytes,
        /// Time per block on either side: system call, page look-up, bookkeeping.
        block_time: Time,
        /// Blocks in flight per reader.
        blocks: Count,
    }
}
