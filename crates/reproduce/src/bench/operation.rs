//! Running a benchmark, and the operation that it repeats.

use std::future::Future;
use verbena_model::adapter::{Kind, Placement, Request};
use verbena_model::cluster::Cluster;
use verbena_model::traffic::HotPort;

/// Runs a future in a cluster's virtual time and ends the simulation.
///
/// # Panics
///
/// If the future waits for an event that never comes: an error in the benchmark, not in its input.
pub fn run<T: 'static>(cluster: &Cluster, future: impl Future<Output = T> + 'static) -> T {
    let value = cluster
        .sim()
        .block_on(future)
        .expect("a benchmark's processes never wait forever");
    cluster.finish();
    value
}

/// A figure, and the ports that its run used most.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The figure.
    pub figure: f64,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

impl Observed {
    /// Returns another figure of the same run.
    #[must_use]
    pub fn map(self, figure: impl FnOnce(f64) -> f64) -> Observed {
        Observed {
            figure: figure(self.figure),
            ..self
        }
    }
}

/// Runs a future that returns a figure, as [`run`] does.
///
/// # Panics
///
/// If the future waits for an event that never comes: an error in the benchmark, not in its input.
pub fn observe(cluster: &Cluster, future: impl Future<Output = f64> + 'static) -> Observed {
    let figure = cluster
        .sim()
        .block_on(future)
        .expect("a benchmark's processes never wait forever");
    let hot_ports = cluster.hot_ports(&cluster.traffic());
    cluster.finish();
    Observed { figure, hot_ports }
}

/// The operation that a benchmark repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Kind of request.
    pub kind: Kind,
    /// Bytes per message.
    pub bytes: u64,
    /// How the payload reaches the adapter.
    pub placement: Placement,
}

impl Operation {
    /// Returns an inline write.
    pub fn inline_write(bytes: u64) -> Operation {
        Operation::new(Kind::Write, bytes, Placement::Inline)
    }

    /// Any operation.
    pub fn new(kind: Kind, bytes: u64, placement: Placement) -> Operation {
        Operation {
            kind,
            bytes,
            placement,
        }
    }

    pub(crate) fn request(self) -> Request {
        Request::new(self.kind, self.bytes, self.placement)
    }
}
