//! Work requests for send and receive queues.

use crate::Fabric;

/// A part of a region, as a scatter/gather element.
pub struct Slice<'a, R> {
    /// The region, borrowed while the request is being posted.
    pub region: &'a R,
    /// Offset of the first byte.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

impl<R> Clone for Slice<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Slice<'_, R> {}

impl<'a, R> Slice<'a, R> {
    /// Creates a slice of `length` bytes of `region` from `offset`.
    pub fn new(region: &'a R, offset: usize, length: usize) -> Self {
        Slice {
            region,
            offset,
            length,
        }
    }
}

/// A location in a peer's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address in the owner's address space.
    pub address: u64,
    /// The region's remote key.
    pub key: u32,
}

/// Operation of a send-queue request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// RDMA write.
    Write {
        /// First byte written.
        to: Remote,
    },
    /// RDMA write that also consumes a receive request and delivers 32 bits of immediate data with
    /// its completion.
    WriteImmediate {
        /// First byte written.
        to: Remote,
        /// The immediate data, in host byte order on both sides.
        immediate: u32,
    },
    /// RDMA read into the local slices.
    Read {
        /// First byte read.
        from: Remote,
    },
    /// Send.
    Send,
    /// Send that delivers immediate data with the receive completion.
    SendImmediate {
        /// The immediate data.
        immediate: u32,
    },
    /// Replaces eight bytes by `swap` if they equal `compare`; the old value is stored in the local
    /// slice.
    CompareSwap {
        /// The aligned location.
        at: Remote,
        /// Value to compare with.
        compare: u64,
        /// Value to store if equal.
        swap: u64,
    },
    /// Adds to eight bytes; the old value is stored in the local slice.
    FetchAdd {
        /// The aligned location.
        at: Remote,
        /// The addend.
        add: u64,
    },
}

/// When a request generates a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signal {
    /// On success and on failure.
    #[default]
    Signalled,
    /// On failure only.
    Silent,
    /// As `Signalled`, and the receiver gets an event if it armed its queue for solicited events
    /// only.
    Solicited,
}

/// Location of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// In memory, read by the adapter.
    #[default]
    Reference,
    /// In the work request, copied by the processor.
    Inline,
}

/// Receiver of a request.
pub enum Destination<'a, F: Fabric + ?Sized> {
    /// The peer that the queue pair is connected to.
    Connected,
    /// The receiver of a datagram.
    Datagram {
        /// The peer's address.
        address: &'a F::Address,
        /// The peer's queue pair number.
        pair: u32,
        /// The queue key.
        key: u32,
    },
    /// For XRC, the shared receive queue with this number.
    SharedReceive(u32),
}

impl<F: Fabric + ?Sized> Clone for Destination<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Fabric + ?Sized> Copy for Destination<'_, F> {}

/// A request for the send queue.
pub struct WorkRequest<'a, F: Fabric + ?Sized> {
    /// Identifier returned in the completion.
    pub id: u64,
    /// Operation.
    pub operation: Operation,
    /// Local bytes to gather from, or for reads and atomics to scatter into.
    pub local: &'a [Slice<'a, F::Region>],
    /// Receiver.
    pub destination: Destination<'a, F>,
    /// When to generate a completion.
    pub signal: Signal,
    /// Location of the payload.
    pub placement: Placement,
}

impl<F: Fabric + ?Sized> Clone for WorkRequest<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Fabric + ?Sized> Copy for WorkRequest<'_, F> {}

impl<'a, F: Fabric + ?Sized> WorkRequest<'a, F> {
    /// Creates a signalled request by reference to the connected peer.
    pub fn new(id: u64, operation: Operation, local: &'a [Slice<'a, F::Region>]) -> Self {
        WorkRequest {
            id,
            operation,
            local,
            destination: Destination::Connected,
            signal: Signal::Signalled,
            placement: Placement::Reference,
        }
    }

    /// Sets when to generate a completion.
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// Sets the location of the payload.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the receiver.
    pub fn to(mut self, destination: Destination<'a, F>) -> Self {
        self.destination = destination;
        self
    }

    /// Returns the total length of its local slices in bytes.
    pub fn length(&self) -> usize {
        self.local.iter().map(|slice| slice.length).sum()
    }
}

/// A request for a receive queue or a shared receive queue.
pub struct ReceiveRequest<'a, R> {
    /// Identifier returned in the completion.
    pub id: u64,
    /// Local memory for the message.
    pub local: &'a [Slice<'a, R>],
}

impl<R> Clone for ReceiveRequest<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for ReceiveRequest<'_, R> {}
