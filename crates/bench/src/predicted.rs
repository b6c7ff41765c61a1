//! Intervals of a model's figures, from the residuals of published curves.

use crate::Failure;
use crate::model_target::ModelTarget;
use crate::physical::{self, Physical};
use crate::profiles::Profiles;
use verbena_calibrate::anchor::meaning;
use verbena_calibrate::explain::Explained;
use verbena_calibrate::interval::{Interval, Intervals, Subject};
use verbena_calibrate::residual::{Basis, FigureKind, Layer};
use verbena_fabric::model::Fidelity;
use verbena_measure::result::{Parameters, Point, Predicted, Value};
use verbena_measure::unit;
use verbena_measure::warning::Warning;
use verbena_model::correction::{Corrections, Offset, Operation};
use verbena_model::profile::{Channel, ProfileKind, Recorded};

/// Payload in bytes of a packet in an Ethernet frame of 1500 B.
const SMALL: u64 = 1024;

/// Returns a warning if the rates of a system rest on the small packets of ordinary Ethernet
/// frames, the default of RoCE.
///
/// # Errors
///
/// Fails if a profile cannot be read.
pub fn small_packets(
    target: &ModelTarget,
    profiles: &Profiles,
) -> Result<Option<Warning>, Failure> {
    let Some(system) = target.machine.system() else {
        return Ok(None);
    };
    let mtu = system.link.mtu.0;
    if mtu > SMALL {
        return Ok(None);
    }
    let library = profiles.library()?;
    let used = library.used_by(&system.name);
    let used = used.map_err(|error| Failure::Input(error.to_string()))?;
    let is_mtu = |value: &&Recorded| value.kind == ProfileKind::Link && value.key == "mtu";
    // The profile's own value precedes that of its base.
    Ok(used.iter().find(is_mtu).map(|value| Warning::SmallPackets {
        mtu,
        setting: value.path.clone(),
    }))
}

/// Adds intervals to the figures of a modelled system.
pub struct Predicting {
    intervals: Intervals,
    adapter: String,
    corrections: Corrections,
    physical: Physical,
    fidelity: Fidelity,
    /// Whether the network has congestion control, which no curve of two nodes shows.
    is_controlled: bool,
    /// Whether messages pass through the kernel's TCP, of which there are no published curves.
    is_tcp: bool,
}

impl Predicting {
    /// Returns the intervals of a target; `None` for the software adapter, whose model is fitted
    /// to this machine.
    ///
    /// # Errors
    ///
    /// Fails if a profile or the stored residuals cannot be read.
    pub fn of(target: &ModelTarget, profiles: &Profiles) -> Result<Option<Predicting>, Failure> {
        let Some(system) = target.machine.system() else {
            return Ok(None);
        };
        let library = profiles.library()?;
        let names = library.system_names(&system.name);
        let names = names.map_err(|error| Failure::Input(error.to_string()))?;
        let intervals = Intervals::shipped().map_err(|error| Failure::Input(error.to_string()))?;
        Ok(Some(Predicting {
            intervals,
            adapter: names.adapter.clone(),
            corrections: system.corrections,
            physical: Physical::of(system),
            fidelity: target.fidelity,
            is_controlled: system.congestion.is_some(),
            is_tcp: system
                .mpi
                .as_ref()
                .is_some_and(|mpi| mpi.channel == Channel::Socket),
        }))
    }

    /// Returns the stored residuals.
    pub fn intervals(&self) -> &Intervals {
        &self.intervals
    }

    /// Returns the bounds of the system's nodes.
    pub fn physical(&self) -> Physical {
        self.physical
    }

    /// Returns the subject of a benchmark's figure, over a transport if it has one; `None` if no
    /// published curve is of its kind or stands in for it.
    pub fn subject(
        &self,
        benchmark: &str,
        transport: Option<&str>,
        figure: FigureKind,
        bytes: u64,
    ) -> Option<Subject> {
        let subject = Subject::of(benchmark, figure, bytes).filter(|_| !self.is_tcp)?;
        if subject.stand_in.is_some() && self.is_controlled {
            return None;
        }
        let operation = match (subject.layer, meaning(benchmark, transport)) {
            (Layer::Mpi, _) => Operation::Mpi,
            (Layer::Verbs, Some((_, operation))) => operation,
            (Layer::Verbs, None) => Operation::Write,
        };
        let correction = self.corrections.of(operation);
        let offset = match figure {
            FigureKind::Latency => correction.latency,
            FigureKind::Bandwidth => correction.occupancy,
        };
        Some(Subject {
            adapter: Some(self.adapter.clone()),
            basis: match offset == Offset::default() {
                true => Basis::Blind,
                false => Basis::Anchored,
            },
            ..subject
        })
    }

    /// Returns the interval of a benchmark's figure in `unit`; `None` if no published curve is of
    /// its kind or stands in for it.
    pub fn interval(
        &self,
        benchmark: &str,
        transport: Option<&str>,
        unit: &str,
        bytes: u64,
    ) -> Option<Interval> {
        if !matches!(unit, "ns" | "bytes/s" | "1/s") {
            return None;
        }
        let subject = self.subject(benchmark, transport, FigureKind::of_unit(unit), bytes)?;
        self.of_subject(&subject)
    }

    /// Returns the interval of a subject of this system.
    pub fn of_subject(&self, subject: &Subject) -> Option<Interval> {
        let is_anchored = self.corrections != Corrections::default();
        let interval = Interval {
            is_beside_anchors: is_anchored && subject.basis == Basis::Blind,
            ..self.intervals.interval(subject)?
        };
        Some(match self.fidelity {
            Fidelity::Packet => interval,
            Fidelity::Message => interval.by_messages(),
        })
    }

    /// Returns the interval of an explained operation's time, in a line.
    pub fn explained(&self, benchmark: &str, explained: &Explained) -> String {
        let (bytes, transport) = size_and_transport(&explained.parameters);
        match self.interval(benchmark, transport, "ns", bytes) {
            Some(interval) => {
                let took = explained.took.nanos();
                let range = interval.range(took);
                let (low, high) = self.physical.times(bytes, took, range);
                format!(
                    "  {:.0} % interval {} to {}, {}\n",
                    100.0 * interval.level,
                    unit::time(low),
                    unit::time(high),
                    interval.origin()
                )
            }
            None => "  no interval: no published curve is of this kind\n".to_owned(),
        }
    }

    /// Adds the intervals of a point's figures.
    pub fn mark(&self, point: &mut Point) {
        let Point {
            benchmark,
            metrics,
            parameters,
            ..
        } = point;
        let (bytes, transport) = size_and_transport(parameters);
        let bounds = metrics.iter().filter(|metric| metric.unit == "bytes/s");
        let bounds = bounds.filter_map(|metric| metric.bound.as_ref().map(|bound| bound.value));
        let together = bounds.reduce(f64::min);
        let is_of_many = Layer::of(benchmark).is_none();
        for metric in metrics {
            // The shares of processes depend on the switches, of which curves of two nodes tell
            // nothing.
            let is_share = is_of_many && metric.name == physical::SHARE;
            let interval = self.interval(benchmark, transport, &metric.unit, bytes);
            let Some(interval) = interval.filter(|_| !is_share) else {
                metric.predicted = None;
                continue;
            };
            let ends = |range| {
                let point = (benchmark.as_str(), &*parameters);
                self.physical
                    .figures(point, (metric, together), bytes, range)
            };
            let (low, high) = ends(interval.range(metric.value));
            let (wide_low, wide_high) = ends(interval.wide_range(metric.value));
            metric.predicted = Some(Predicted {
                level: interval.level,
                low,
                high,
                wide_level: interval.wide_level,
                wide_low,
                wide_high,
                origin: interval.origin(),
            });
        }
    }
}

/// Returns the size in bytes, 0 without one, and the transport of a point.
fn size_and_transport(parameters: &Parameters) -> (u64, Option<&str>) {
    let bytes = match parameters.get("size") {
        Some(Value::Number(bytes)) => *bytes as u64,
        _ => 0,
    };
    let transport = match parameters.get("transport") {
        Some(Value::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    (bytes, transport)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_fabric::model::Machine;
    use verbena_measure::compare::Better;
    use verbena_measure::result::Metric;
    use verbena_model::correction::Correction;

    fn predicting() -> Predicting {
        let predicting = Predicting::of(&model("connectx6-hdr"), &Profiles::default());
        predicting.unwrap().expect("is a system")
    }

    #[test]
    fn figures_get_an_interval_with_its_origin() {
        let metric = |name, unit, value| Metric::figure(name, unit, Better::Lower, value);
        let mut point = Point {
            benchmark: "latency.write".to_owned(),
            metrics: vec![
                metric("one-way-latency", "ns", 1000.0),
                metric("ratio", "x", 2.0),
            ],
            ..Point::default()
        };
        predicting().mark(&mut point);
        let predicted = point.metrics[0]
            .predicted
            .as_ref()
            .expect("there are curves");
        assert!(
            predicted.low < 1000.0 && predicted.high > 1000.0,
            "{predicted:?}"
        );
        assert!(predicted.wide_high >= predicted.high);
        assert!(predicted.origin.ends_with("blind"), "{predicted:?}");
        assert_eq!(point.metrics[1].predicted, None);
    }

    fn model(name: &str) -> ModelTarget {
        let library = Profiles::default().library().expect("is shipped");
        let machine = Machine::of(&library, name).expect("is shipped");
        ModelTarget::new(machine, Fidelity::Packet)
    }

    #[test]
    fn small_packets_are_those_of_ethernet() {
        let warning = |name| small_packets(&model(name), &Profiles::default()).unwrap();
        assert_eq!(warning("connectx6-hdr"), None);
        let told = warning("connectx5-100gbe")
            .expect("frames of 1500 B")
            .to_string();
        assert!(
            told.contains("1024 B") && told.contains("--set 25gbe.mtu=4096"),
            "{told}"
        );
    }

    #[test]
    fn benchmarks_without_published_curves_have_none() {
        let predicting = predicting();
        assert_eq!(
            predicting.interval("rfio.readers", None, "bytes/s", 8),
            None
        );
        assert!(predicting.interval("mpi.latency", None, "ns", 8).is_some());
    }

    #[test]
    fn patterns_have_the_wide_interval_of_another_kind() {
        let predicting = predicting();
        let of = |benchmark| predicting.interval(benchmark, None, "bytes/s", 1 << 20);
        let (own, other) = (of("bandwidth.write"), of("patterns.bisection"));
        let (own, other) = (own.expect("has curves"), other.expect("has a stand-in"));
        assert_eq!(other.factor, own.wide_factor);
        let words = "curves of another kind: bandwidth.write; widened";
        assert!(other.origin().contains(words), "{}", other.origin());
        let share = Metric::figure(physical::SHARE, "bytes/s", Better::Higher, 1e9);
        let mut point = Point {
            benchmark: "patterns.fan-in".to_owned(),
            metrics: vec![share],
            ..Point::default()
        };
        predicting.mark(&mut point);
        assert_eq!(point.metrics[0].predicted, None);
        let controlled = Predicting::of(&model("connectx5-100gbe-dcqcn"), &Profiles::default());
        let controlled = controlled.unwrap().expect("is a system");
        let of = |benchmark| controlled.interval(benchmark, None, "bytes/s", 1 << 20);
        assert!(of("patterns.fan-in").is_none() && of("bandwidth.write").is_some());
    }

    #[test]
    fn figures_by_messages_have_a_wider_interval() {
        let mut predicting = predicting();
        let of = |predicting: &Predicting| predicting.interval("latency.write", None, "ns", 8);
        let packets = of(&predicting).expect("has curves");
        predicting.fidelity = Fidelity::Message;
        let messages = of(&predicting).expect("has curves");
        assert!((messages.factor / packets.factor - 1.05).abs() < 1e-9);
        assert!(
            messages
                .origin()
                .ends_with("; 5 % wider, as computed by messages")
        );
    }

    #[test]
    fn kernel_tcp_has_none() {
        let profiles = Profiles::default();
        let predicting = Predicting::of(&model("tcp-100gbe"), &profiles).unwrap();
        let predicting = predicting.expect("is a system");
        assert_eq!(predicting.interval("mpi.latency", None, "ns", 8), None);
    }

    #[test]
    fn corrected_operations_are_anchored_and_others_blind() {
        let mut predicting = predicting();
        let latency = Offset::from_nanos(100.0);
        let correction = Correction {
            latency,
            ..Correction::default()
        };
        predicting.corrections.set(Operation::Write, correction);
        let basis = |benchmark, figure| {
            let subject = predicting.subject(benchmark, Some("rc"), figure, 8);
            subject.map(|subject| subject.basis)
        };
        let (latency, bandwidth) = (FigureKind::Latency, FigureKind::Bandwidth);
        assert_eq!(basis("latency.write", latency), Some(Basis::Anchored));
        assert_eq!(basis("bandwidth.write", bandwidth), Some(Basis::Blind));
        assert_eq!(basis("latency.send", latency), Some(Basis::Blind));
        let beside = predicting.interval("latency.send", Some("rc"), "ns", 8);
        let beside = beside.expect("has curves").origin();
        assert!(
            beside.ends_with("blind; no anchor is of this kind"),
            "{beside}"
        );
    }
}
