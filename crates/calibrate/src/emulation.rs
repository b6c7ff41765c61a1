//! The times of a modelled system's operations, for `verbena run --as`: benchmarks run on the
//! model, and their figures converted to the times that the adapter applies
//! ([`verbena_emulation::table`]).
//!
//! - A request's latency is that of the benchmark in which it is alone.
//! - Its time on the link is the total of eight pairs, by messages; its time in memory that of both
//!   directions at once, if they disturb each other.
//! - Its posting time is the time of a message of one process where the link is not the bottleneck.
//! - On an adapter that processes one request at a time, its turns are those of 1, 2, 4 and 8 pairs
//!   (`turns`), and its time on the link is that of one pair.

mod turns;

use std::collections::BTreeMap;
use verbena_emulation::device::{Device, Limit};
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::port::Port;
use verbena_emulation::table::{Table, Times};
use verbena_fabric::model::{Fidelity, Machine};
use verbena_measure::result::{Metric, Point, Value};
use verbena_model::profile::{Scheduling, System};
use verbena_reproduce::suite::{Asked, run};
use verbena_workloads::context::{Mode, Options, Sweep};
use verbena_workloads::registry::find;

/// Sizes of the points, in bytes.
const SIZES: [usize; 15] = [
    8,
    32,
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// Largest inline payload, in bytes.
const LONGEST_INLINE: u32 = 256;

/// Pairs that fill the link.
const PAIRS: usize = 8;

/// Why a system cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is the software adapter itself.
    #[error("{0} is the software adapter itself: run without --as")]
    Software(String),
    /// It has no verbs.
    #[error("{0} has sockets only and no verbs; `verbena list` prints the systems")]
    SocketsOnly(String),
    /// A benchmark that all others depend on failed.
    #[error("{benchmark} does not run on the model {system}: {source}")]
    Model {
        /// The benchmark.
        benchmark: &'static str,
        /// The system.
        system: String,
        /// The reason.
        source: verbena_fabric::Error,
    },
}

/// Computes the times of a system, by operation and size.
///
/// # Errors
/// The machine has no adapters with verbs, or the model cannot run a benchmark.
pub fn of(machine: &Machine) -> Result<Table, Error> {
    let name = machine.name().to_owned();
    let Some(system) = machine.system() else {
        return Err(Error::Software(name));
    };
    if !system.has_verbs() {
        return Err(Error::SocketsOnly(name));
    }
    let runs = Runs { machine };
    let mut table = Table::new(machine.name());
    table.set_port(Port::of(system.link.rate.0, system.link.mtu.0));
    if let Some((device, limits)) = identity(system) {
        table.set_device(device, limits);
    }
    if system.adapter.scheduling == Scheduling::Serial {
        table.set_serial(runs.turns(system)?);
    }
    for placement in Placement::ALL {
        runs.add(&mut table, placement)?;
    }
    Ok(table)
}

/// Returns the identity and the limits of a system's adapter, if its profile has them.
fn identity(system: &System) -> Option<(Device, Vec<Limit>)> {
    let known = system.adapter.device.as_ref()?;
    let numbers = [known.vendor, known.pci_vendor, known.part, known.revision];
    let limits = known.limits.iter().map(|(name, value)| Limit {
        name: (*name).to_owned(),
        value: *value,
    });
    Some((Device::new(&known.name, numbers)?, limits.collect()))
}

/// Figures by size in bytes.
type BySize = BTreeMap<u64, f64>;

struct Runs<'a> {
    machine: &'a Machine,
}

impl Runs<'_> {
    /// Adds the operations with this placement of the payload.
    fn add(&self, table: &mut Table, placement: Placement) -> Result<(), Error> {
        let visible = self.times("latency.write", placement, "one-way-latency")?;
        let completion = self.times("latency.write-completion", placement, "completion-latency")?;
        let alone = self.rates("multi-pair.write-bandwidth", placement, Some(1))?;
        let together = self.rates("multi-pair.write-bandwidth", placement, Some(PAIRS))?;
        let both = self.rates("bandwidth.write-both", placement, None)?;
        let posting = posting(&alone, &together, placement);
        // Turns are not part of the time on the link.
        let is_serial = table.serial().is_some();
        let sent = if is_serial { alone } else { together };
        // Reads and atomics have no payload in the request.
        let answered = match placement {
            Placement::Reference => {
                let reads = self.times("latency.read", placement, "completion-latency")?;
                let rate = self.rates("bandwidth.read", placement, None)?;
                let atomic = self.times("latency.fetch-add", placement, "completion-latency");
                let on_link: BySize = match is_serial {
                    false => rate,
                    // Reads of one pair do not fill the link.
                    true => self.reads_on_link()?,
                };
                Some((reads, on_link, atomic.unwrap_or_default()))
            }
            Placement::Inline => None,
        };
        let messages = [
            (Operation::Send, "latency.send", "rc"),
            (Operation::Datagram, "latency.send", "ud"),
            (Operation::WriteImmediate, "latency.write-immediate", "rc"),
        ];
        let messages: Vec<(Operation, BySize)> = messages
            .into_iter()
            .map(|(operation, benchmark, transport)| {
                let times = self.over(benchmark, placement, "one-way-latency", transport);
                (operation, times.unwrap_or_default())
            })
            .collect();
        for (bytes, seen) in &visible {
            let at = |of: &BySize| of.get(bytes).copied();
            let (Some(done), Some(sending), Some(posting)) =
                (at(&completion), at(&sent), at(&posting))
            else {
                continue;
            };
            // Twice the messages a port sends, or a process posts, disturb each other nowhere.
            let memory = at(&both).filter(|both| *both > 0.55 * sending.max(posting));
            let times = Times {
                visible: *seen,
                completion: done,
                sending,
                memory: memory.unwrap_or(0.0),
                posting,
            };
            table.add(Operation::Write, placement, *bytes, times);
            for (operation, message) in &messages {
                if let Some(arrival) = at(message) {
                    let times = Times {
                        visible: arrival,
                        completion: (done + arrival - seen).max(arrival),
                        ..times
                    };
                    table.add(*operation, placement, *bytes, times);
                }
            }
            let Some((reads, rate, atomic)) = &answered else {
                continue;
            };
            let taken = |completion: f64| Times {
                visible: completion / 2.0,
                completion,
                ..times
            };
            if let Some(read) = at(reads) {
                let on_link = at(rate).filter(|one| is_serial || *one > 1.1 * posting);
                let times = Times {
                    sending: match is_serial {
                        false => on_link.unwrap_or(sending),
                        true => on_link.map_or(sending, |time| time.min(sending)),
                    },
                    ..taken(read)
                };
                table.add(Operation::Read, placement, *bytes, times);
            }
            if let Some(atomic) = at(atomic) {
                table.add(Operation::Atomic, placement, *bytes, taken(atomic));
            }
        }
        Ok(())
    }

    /// Returns a benchmark's times over RC.
    fn times(
        &self,
        benchmark: &'static str,
        placement: Placement,
        metric: &str,
    ) -> Result<BySize, Error> {
        self.over(benchmark, placement, metric, "rc")
    }

    fn over(
        &self,
        benchmark: &'static str,
        placement: Placement,
        metric: &str,
        transport: &str,
    ) -> Result<BySize, Error> {
        let points = self.points(benchmark, placement, None)?;
        let is_meant = |point: &Point| {
            let is = |name, value: &str| match point.parameters.get(name) {
                Some(Value::Word(word)) => word == value,
                _ => true,
            };
            is("transport", transport) && is("receive-queue", "own")
        };
        Ok(by_size(
            points.iter().filter(|point| is_meant(point)),
            &[metric],
        ))
    }

    /// Returns the nanoseconds for each message of a stream, all pairs together, over one buffer.
    fn rates(
        &self,
        benchmark: &'static str,
        placement: Placement,
        pairs: Option<usize>,
    ) -> Result<BySize, Error> {
        let points = self.points(benchmark, placement, pairs)?;
        let rates = by_size(points.iter(), &["cached-bandwidth", "bandwidth"]);
        let time = |(bytes, rate): (u64, f64)| (bytes, 1e9 * bytes as f64 / rate);
        Ok(rates.into_iter().map(time).collect())
    }

    fn points(
        &self,
        name: &'static str,
        placement: Placement,
        pairs: Option<usize>,
    ) -> Result<Vec<Point>, Error> {
        let sizes = SIZES.into_iter().filter(|size| match placement {
            Placement::Reference => true,
            Placement::Inline => *size <= LONGEST_INLINE as usize,
        });
        let asked = Asked {
            options: Options {
                sizes: Some(sizes.collect()),
                pairs: pairs.map(|pairs| vec![pairs]),
                mode: Some(Mode::Free),
                transports: None,
                inline: Some(match placement {
                    Placement::Reference => 0,
                    Placement::Inline => LONGEST_INLINE,
                }),
                ..Options::default()
            },
            sweep: Sweep::Coarse,
            processes: None,
            fidelity: Fidelity::Packet,
        };
        let failed = |source| Error::Model {
            benchmark: name,
            system: self.machine.name().to_owned(),
            source,
        };
        let missing = || failed(verbena_fabric::Error::invalid("bench", "no such benchmark"));
        let benchmark = find(name).ok_or_else(missing)?;
        run(self.machine.clone(), benchmark, asked).map_err(failed)
    }
}

/// Returns the first of these metrics of each point, by size.
fn by_size<'a>(points: impl Iterator<Item = &'a Point>, metrics: &[&str]) -> BySize {
    values_by_size(points, metrics, |metric| metric.value)
}

/// Returns a value of the first of these metrics of each point, by size.
fn values_by_size<'a>(
    points: impl Iterator<Item = &'a Point>,
    metrics: &[&str],
    value: impl Fn(&Metric) -> f64,
) -> BySize {
    let figure = |point: &Point| {
        let named = |name: &&str| point.metrics.iter().find(|metric| metric.name == **name);
        let size = match point.parameters.get("size") {
            Some(Value::Number(size)) if *size >= 0.0 => *size as u64,
            _ => return None,
        };
        Some((size, value(metrics.iter().find_map(named)?)))
    };
    points.filter_map(figure).collect()
}

/// Returns the nanoseconds that posting takes, by size: the time of a message of one process where
/// the link is clearly faster, elsewhere as for the next smaller size.
fn posting(alone: &BySize, together: &BySize, placement: Placement) -> BySize {
    let mut last = None;
    let time = |(bytes, time): (&u64, &f64)| {
        let is_faster = together.get(bytes).is_none_or(|link| 1.2 * link < *time);
        let found = match (is_faster, last, placement) {
            (_, None, _) | (true, _, Placement::Inline) => *time,
            // The processor does the same for each size.
            (true, Some(last), Placement::Reference) => time.min(last),
            (false, Some(last), _) => last,
        };
        last = Some(found);
        (*bytes, found)
    };
    alone.iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::{Library, Overrides};

    fn table(name: &str) -> Table {
        let library = Library::shipped(&Overrides::default()).unwrap();
        of(&Machine::of(&library, name).unwrap()).unwrap()
    }

    #[test]
    fn the_times_are_those_of_the_benchmarks() {
        let table = table("connectx-qdr");
        let write = table.times(Operation::Write, Placement::Reference, 4096);
        let library = Library::shipped(&Overrides::default()).unwrap();
        let machine = Machine::of(&library, "connectx-qdr").unwrap();
        let runs = Runs { machine: &machine };
        let seen = runs
            .times("latency.write", Placement::Reference, "one-way-latency")
            .unwrap();
        assert_eq!(write.visible, seen[&4096]);
        assert!(write.completion > write.visible && write.sending > 1000.0);
        let inline = table.times(Operation::Write, Placement::Inline, 8);
        let reference = table.times(Operation::Write, Placement::Reference, 8);
        assert!(inline.visible + 300.0 < reference.visible);
        let read = table.times(Operation::Read, Placement::Reference, 8);
        assert!(read.completion > write.visible - 3000.0 && read.visible < read.completion);
    }

    #[test]
    fn a_table_survives_its_file() {
        let table = table("connectx7-ndr");
        let text = Table::read(&table.text()).unwrap().text();
        assert_eq!(text, table.text());
        assert!(text.contains("\nport 128 2 4\n"), "{text}");
        assert!(text.contains("\ndevice mlx5_ 713 5555 4129 0\n"), "{text}");
        assert!(text.contains("\nlimit max_sge 30\n"), "{text}");
    }

    #[test]
    fn systems_without_verbs_are_refused() {
        let library = Library::shipped(&Overrides::default()).unwrap();
        let tcp = Machine::of(&library, "tcp-10gbe").unwrap();
        assert!(matches!(of(&tcp), Err(Error::SocketsOnly(_))));
    }
}
