//! Values of the adapter's options, by the names that its environment variables have.

/// A way for data to reach a peer on the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Path {
    /// Registered pages live in shared memory: an operation is a memory copy
    Mapped,
    /// The kernel copies between the two processes
    Cma,
    /// Copies go through shared memory, served by a thread of the target
    Ring,
}

/// Whether the pages of registered memory move into shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    /// Move unless the kernel or a device may hold them (io_uring, O_DIRECT, GPU, vfio)
    Auto,
    /// Never move; peers reach them by `cma` or `ring`
    InPlace,
    /// Always move; only if nothing else holds registered memory
    Shared,
}

/// The link of the adapter's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Link {
    /// A subnet of this host alone, in shared memory
    Infiniband,
    /// Ethernet interfaces, one per port, reaching other hosts by RoCEv2
    Roce,
}

/// Whether packets go over TCP where UDP fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Tunnels {
    /// Where UDP packets do not arrive intact
    On,
    /// Never; peers that start it are refused
    Off,
}
