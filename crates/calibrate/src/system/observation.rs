//! Measurements in the models' terms.

use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::System;
use verbena_reproduce::bench::{
    Bandwidth, Direction, Latency, Operation, Ranks, Start, bandwidth, latency, mpi_bandwidth,
    mpi_latency,
};

/// A quantity that the models can predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Half a round trip of writes, seen in memory; for reads the whole time.
    Latency(Kind),
    /// A stream of messages.
    Bandwidth(Kind, Direction),
    /// Half a round trip between two ranks on two nodes.
    MpiLatency,
    /// A window of messages between two ranks on two nodes.
    MpiBandwidth,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The measured quantity.
    pub quantity: Quantity,
    /// Bytes per message.
    pub bytes: u64,
    /// Number of concurrent process pairs.
    pub pairs: usize,
    /// The figure: microseconds, or 10^6 bytes a second.
    pub figure: f64,
}

/// Messages up to this size are inline, the default of measurement programs.
pub(super) const INLINE: u64 = 220;

impl Observation {
    /// Returns a description of the measurement for people.
    pub fn label(&self) -> String {
        let kind = |kind| match kind {
            Kind::Read => "read",
            Kind::Send => "send",
            _ => "write",
        };
        let what = match self.quantity {
            Quantity::Latency(k) => format!("latency of a {}", kind(k)),
            Quantity::Bandwidth(k, Direction::One) => format!("bandwidth of {}s", kind(k)),
            Quantity::Bandwidth(k, Direction::Both) => {
                format!("bandwidth of {}s both ways", kind(k))
            }
            Quantity::MpiLatency => "latency of message passing".to_owned(),
            Quantity::MpiBandwidth => "bandwidth of message passing".to_owned(),
        };
        match self.pairs {
            1 => format!("{what}, {} B", self.bytes),
            pairs => format!("{what}, {} B, {pairs} pairs", self.bytes),
        }
    }

    /// Returns the figure's unit.
    pub fn unit(&self) -> &'static str {
        match self.quantity {
            Quantity::Latency(_) | Quantity::MpiLatency => "us",
            Quantity::Bandwidth(..) | Quantity::MpiBandwidth => "MB/s",
        }
    }

    /// Returns whether predicting it needs a message-passing library.
    pub fn passes_messages(&self) -> bool {
        matches!(self.quantity, Quantity::MpiLatency | Quantity::MpiBandwidth)
    }

    /// Returns the prediction of a modelled system.
    pub fn predicted(&self, system: &System) -> f64 {
        match self.quantity {
            Quantity::Latency(kind) => {
                let placement = match kind {
                    Kind::Read => Placement::Reference,
                    _ if self.bytes <= INLINE => Placement::Inline,
                    _ => Placement::Reference,
                };
                let bench = Latency {
                    start: Start::Free,
                    rounds: 6,
                    ..Latency::of(Operation::new(kind, self.bytes, placement)).pairs(self.pairs)
                };
                latency(system, bench)
            }
            Quantity::Bandwidth(kind, direction) => {
                let operation = Operation::new(kind, self.bytes, Placement::Reference);
                let bench = Bandwidth {
                    direction,
                    fidelity: Fidelity::Message,
                    messages: (4_000_000 / self.bytes.max(1)).clamp(32, 300),
                    ..Bandwidth::of(operation).pairs(self.pairs)
                };
                bandwidth(system, bench).received
            }
            Quantity::MpiLatency => mpi_latency(system, Ranks::Apart, self.bytes),
            Quantity::MpiBandwidth => {
                mpi_bandwidth(system, Ranks::Apart, self.bytes, Direction::One)
            }
        }
    }
}
