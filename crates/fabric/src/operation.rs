//! Work requests: what is posted to a queue pair.

use crate::Fabric;

/// A part of a region, as a scatter/gather element.
pub struct Slice<'a, R> {
    /// The region, borrowed for as long as the request is being posted.
    pub region: &'a R,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
}

impl<R> Clone for Slice<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Slice<'_, R> {}

impl<'a, R> Slice<'a, R> {
    /// `length` bytes of `region` from `offset`.
    pub fn new(region: &'a R, offset: usize, length: usize) -> Self {
        Slice {
            region,
            offset,
            length,
        }
    }
}

/// A place in a peer's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address in the owner's terms.
    pub address: u64,
    /// The region's remote key.
    pub key: u32,
}

/// What a send-queue request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// RDMA write.
    Write {
        /// First byte written.
        to: Remote,
    },
    /// RDMA write that also consumes a receive request and delivers a word with its completion.
    WriteImmediate {
        /// First byte written.
        to: Remote,
        /// The word, in the host's order at both ends.
        immediate: u32,
    },
    /// RDMA read into the local slices.
    Read {
        /// First byte read.
        from: Remote,
    },
    /// Send.
    Send,
    /// Send that delivers a word with the receive completion.
    SendImmediate {
        /// The word.
        immediate: u32,
    },
    /// Replaces eight bytes by `swap` if they equal `compare`; the old value lands in the local slice.
    CompareSwap {
        /// The aligned place.
        at: Remote,
        /// Compared with it.
        compare: u64,
        /// Stored if equal.
        swap: u64,
    },
    /// Adds to eight bytes; the old value lands in the local slice.
    FetchAdd {
        /// The aligned place.
        at: Remote,
        /// What is added.
        add: u64,
    },
}

/// Whether success is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signal {
    /// A completion on success and on failure.
    #[default]
    Signalled,
    /// A completion on failure only.
    Silent,
    /// Signalled, and an event at the receiver if it asked for solicited ones.
    Solicited,
}

/// How the adapter gets the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The adapter reads the buffer by itself.
    #[default]
    Reference,
    /// The processor puts the bytes into the request.
    Inline,
}

/// Who receives, when the queue pair alone does not say.
pub enum Destination<'a, F: Fabric + ?Sized> {
    /// The peer that the queue pair is connected to.
    Connected,
    /// A datagram.
    Datagram {
        /// The peer's address.
        address: &'a F::Address,
        /// The peer's queue pair number.
        pair: u32,
        /// The queue key.
        key: u32,
    },
    /// Over XRC, the shared receive queue of this number.
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
    /// Comes back in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// Local bytes, gathered (or scattered into, for reads and atomics).
    pub local: &'a [Slice<'a, F::Region>],
    /// Who receives.
    pub destination: Destination<'a, F>,
    /// Whether success is reported.
    pub signal: Signal,
    /// Inline or by reference.
    pub placement: Placement,
}

impl<F: Fabric + ?Sized> Clone for WorkRequest<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Fabric + ?Sized> Copy for WorkRequest<'_, F> {}

impl<'a, F: Fabric + ?Sized> WorkRequest<'a, F> {
    /// A signalled request by reference to the connected peer.
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

    /// The same, reporting success or not.
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// The same, inline or by reference.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// The same, to another destination.
    pub fn to(mut self, destination: Destination<'a, F>) -> Self {
        self.destination = destination;
        self
    }

    /// Bytes of its local slices.
    pub fn length(&self) -> usize {
        self.local.iter().map(|slice| slice.length).sum()
    }
}

/// A request for a receive queue or a shared receive queue.
pub struct ReceiveRequest<'a, R> {
    /// Comes back in the completion.
    pub id: u64,
    /// Where the message is scattered.
    pub local: &'a [Slice<'a, R>],
}

impl<R> Clone for ReceiveRequest<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for ReceiveRequest<'_, R> {}
