//! Place of a measurement. Figures of different kinds are never ranked against each other.

use crate::run_directory::Loaded;
use serde::Serialize;

/// Place at which a run's figures were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredAt {
    /// Between processes of one host, through its memory.
    Host,
    /// Through an adapter, between processes of one host: no cable, no switch.
    Loopback,
    /// Between hosts.
    Wire,
    /// Imported from another tool's output, which does not state the place; assumed to be over a
    /// wire.
    Imported,
    /// Computed by a timing model of an adapter over a wire.
    Model,
}

impl MeasuredAt {
    /// Returns the kind of a run. A bound measured in the memory of "this host" implies that the
    /// pairs were on one host.
    pub fn of(run: &Loaded) -> MeasuredAt {
        let metrics = run.points.iter().flat_map(|point| &point.metrics);
        let mut bounds = metrics.filter_map(|metric| metric.bound.as_ref());
        let within = run.run.launcher == "local" || bounds.any(|bound| is_of_host(&bound.reason));
        match run.run.fabric.as_str() {
            "model" => MeasuredAt::Model,
            "import" => MeasuredAt::Imported,
            "shm" => MeasuredAt::Host,
            "hardware" if within => MeasuredAt::Loopback,
            "software" | "tcp" if within => MeasuredAt::Host,
            _ => MeasuredAt::Wire,
        }
    }

    /// Returns the kind in words, to follow a figure.
    pub fn text(self) -> &'static str {
        match self {
            MeasuredAt::Host => "within one host",
            MeasuredAt::Loopback => "through an adapter, within one host",
            MeasuredAt::Wire => "over a wire",
            MeasuredAt::Imported => "imported, assumed to be over a wire",
            MeasuredAt::Model => "computed by a model",
        }
    }

    /// Returns whether figures of the two kinds may be ranked.
    pub fn is_like(self, other: MeasuredAt) -> bool {
        let wire = |kind| matches!(kind, MeasuredAt::Wire | MeasuredAt::Imported);
        self == other || wire(self) && wire(other)
    }
}

/// Returns whether a bound was measured on the host before the run, rather than stated by a link.
pub(crate) fn is_of_host(reason: &str) -> bool {
    reason.contains("this host") || reason.contains("one core")
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::bound::Bound;
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Metric, Point};

    fn run(fabric: &str, launcher: &str, reason: &str) -> Loaded {
        let metric = Metric::figure("one-way-latency", "ns", Better::Lower, 1.0);
        let bound = Bound {
            value: 1.0,
            reason: reason.to_owned(),
        };
        let mut loaded = Loaded {
            points: vec![Point {
                metrics: vec![metric.bounded(Some(bound))],
                ..Point::default()
            }],
            ..Loaded::default()
        };
        loaded.run.fabric = fabric.to_owned();
        loaded.run.launcher = launcher.to_owned();
        loaded
    }

    #[test]
    fn the_kind_follows_from_fabric_and_placement() {
        let line = "a cache line from one core to another on this host";
        for (fabric, launcher, reason, kind) in [
            ("software", "local", "", MeasuredAt::Host),
            ("software", "mpi", line, MeasuredAt::Host),
            ("software", "mpi", "", MeasuredAt::Wire),
            (
                "hardware",
                "local",
                "link at 8 Gbit/s",
                MeasuredAt::Loopback,
            ),
            ("hardware", "slurm", "link at 8 Gbit/s", MeasuredAt::Wire),
            ("model", "local", "link at 8 Gbit/s", MeasuredAt::Model),
            ("import", "", "", MeasuredAt::Imported),
        ] {
            assert_eq!(
                MeasuredAt::of(&run(fabric, launcher, reason)),
                kind,
                "{fabric}"
            );
        }
    }

    #[test]
    fn only_runs_of_the_same_kind_are_ranked() {
        assert!(MeasuredAt::Imported.is_like(MeasuredAt::Wire));
        assert!(!MeasuredAt::Host.is_like(MeasuredAt::Wire));
        assert!(!MeasuredAt::Model.is_like(MeasuredAt::Wire));
        assert!(!MeasuredAt::Loopback.is_like(MeasuredAt::Host));
    }
}
