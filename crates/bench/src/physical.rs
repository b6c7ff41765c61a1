//! Physical bounds of a modelled system: nothing passes faster through its link and its bus. The
//! intervals of all figures end there.

use verbena_calibrate::residual::{FigureKind, Layer, stand_in};
use verbena_measure::bound::link_payload;
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, Parameters, Value};
use verbena_model::kernel::Time;
use verbena_model::profile::{Engines, System};

/// The figure of one of several processes.
pub const SHARE: &str = "median-process-bandwidth";

/// The link and the bus of a system's nodes.
#[derive(Debug, Clone, Copy)]
pub struct Physical {
    data_bits_per_second: f64,
    mtu: u32,
    packet_overhead: u32,
    /// Extended header of a write.
    write_header: f64,
    /// Ports of an adapter.
    ports: f64,
    /// Packets a second that the receiving side of an adapter processes.
    packets: f64,
    /// Payload of the bus in one direction, in bytes per second.
    bus: f64,
}

impl Physical {
    /// Returns those of a system.
    pub fn of(system: &System) -> Physical {
        let link = &system.link;
        Physical {
            data_bits_per_second: link.rate.0 * 8.0,
            mtu: link.mtu.0 as u32,
            packet_overhead: link.packet_overhead.0 as u32,
            write_header: link.rdma_header.0 as f64,
            ports: system.ports.max(1) as f64,
            packets: packets(&system.adapter.engines),
            bus: system.host.bus.payload().0,
        }
    }

    /// Returns the bytes per second that one direction of a port can carry in messages of `bytes`
    /// bytes.
    pub fn one_way(&self, bytes: u64) -> f64 {
        let (rate, mtu) = (self.data_bits_per_second, self.mtu);
        let link = link_payload(rate, mtu, self.packet_overhead, bytes);
        link.value.min(self.bus)
    }

    /// Returns the bytes per second that one direction of a port can carry in a benchmark's
    /// messages of `bytes` bytes: writes have a header more.
    fn one_way_of(&self, benchmark: &str, bytes: u64) -> f64 {
        let is_write = benchmark.contains("write") || benchmark.starts_with("patterns.");
        let one_way = self.one_way(bytes);
        if !is_write {
            return one_way;
        }
        let (mtu, rate) = (self.mtu, self.data_bits_per_second);
        let link = link_payload(rate, mtu, self.packet_overhead, bytes).value;
        let bytes = bytes.max(1) as f64;
        let time = bytes / link + self.write_header * 8.0 / rate;
        one_way.min(bytes / time)
    }

    /// Returns the messages a second that one adapter receives.
    fn received(&self, bytes: u64) -> f64 {
        let packets = bytes.div_ceil(u64::from(self.mtu.max(1))).max(1);
        self.packets / packets as f64
    }

    /// Returns the least time in which a message passes the links of a node.
    pub fn message(&self, bytes: u64) -> Time {
        Time::from_seconds(bytes as f64 / (self.one_way(bytes) * self.ports))
    }

    /// Returns a range of times of a message in nanoseconds without those that are too short for
    /// its bytes. A `model`'s time that is itself shorter is of something else than the message.
    pub fn times(&self, bytes: u64, model: f64, (low, high): (f64, f64)) -> (f64, f64) {
        let least = bytes as f64 / self.one_way(bytes) * 1e9;
        match model >= least {
            true => (low.max(least), high),
            false => (low, high),
        }
    }

    /// Returns a range of a figure without values beyond the bounds. `together` is the bound of
    /// the point's processes together in bytes per second, if the benchmark knows it.
    pub fn figures(
        &self,
        (benchmark, parameters): (&str, &Parameters),
        (metric, together): (&Metric, Option<f64>),
        bytes: u64,
        (low, high): (f64, f64),
    ) -> (f64, f64) {
        if metric.better == Better::Lower {
            let is_message = Layer::of(benchmark).is_some()
                || stand_in(benchmark, FigureKind::Latency).is_some();
            return match metric.unit == "ns" && is_message {
                true => self.times(bytes, metric.value, (low, high)),
                false => (low, high),
            };
        }
        let one_way = self.one_way_of(benchmark, bytes);
        let together = together.unwrap_or(f64::INFINITY);
        let together = together.min(one_way * directions(benchmark, parameters));
        let received = self.received(bytes) * receivers(benchmark, parameters);
        let together = together.min(received * bytes.max(1) as f64);
        let most = match metric.unit.as_str() {
            "1/s" => together / bytes.max(1) as f64,
            _ if metric.name == SHARE => one_way,
            _ => together,
        };
        (low, high.min(most.max(metric.value)))
    }
}

/// Returns the packets a second that an adapter's engines process; infinite without a limit.
fn packets(engines: &Engines) -> f64 {
    match engines.number {
        Some(number) => number.0 as f64 / engines.packet.seconds(),
        None => f64::INFINITY,
    }
}

/// Returns the number of adapters that receive the messages of a benchmark's processes together;
/// infinite if it is not known.
fn receivers(benchmark: &str, parameters: &Parameters) -> f64 {
    match benchmark {
        "patterns.fan-out" => f64::INFINITY,
        _ => directions(benchmark, parameters),
    }
}

/// Returns the number of directions of ports that carry the messages of a benchmark's processes
/// together; infinite if it is not known.
fn directions(benchmark: &str, parameters: &Parameters) -> f64 {
    let is_both = matches!(parameters.get("ways"), Some(Value::Word(word)) if word == "both");
    match benchmark {
        "mpi.bandwidth" | "mpi.put-bandwidth" | "mpi.get-bandwidth" => 1.0,
        // All pairs are of the same two nodes.
        "mpi.multi-pair-bandwidth" => 1.0,
        "patterns.fan-in" | "patterns.fan-out" => 1.0,
        "mpi.bandwidth-both" => 2.0,
        "patterns.ring" | "patterns.bisection" => match parameters.get("processes") {
            Some(Value::Number(processes)) => *processes,
            _ => f64::INFINITY,
        },
        _ if benchmark.starts_with("bandwidth.") && parameters.contains_key("ways") => {
            if is_both {
                2.0
            } else {
                1.0
            }
        }
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::{Library, Overrides};

    fn physical(system: &str) -> Physical {
        let library = Library::shipped(&Overrides::none()).unwrap();
        Physical::of(&library.system(system).unwrap())
    }

    #[test]
    fn the_slower_of_link_and_bus_bounds() {
        let hdr = physical("connectx6-hdr").one_way(1 << 20);
        assert!((24.5e9..24.8e9).contains(&hdr), "{hdr}");
        // 16 lanes of PCI Express 3.0 carry half of HDR.
        let old = Physical {
            bus: 13.4e9,
            ..physical("connectx6-hdr")
        };
        assert_eq!(old.one_way(1 << 20), 13.4e9);
        assert!(physical("infinihost-pcix").one_way(1 << 20) <= 1.07e9);
        assert!(physical("connectx6-hdr").one_way(8) < 6e9);
    }

    #[test]
    fn a_time_is_not_below_that_of_its_bytes() {
        let hdr = physical("connectx6-hdr");
        let (low, high) = hdr.times(1 << 20, 44_400.0, (33_200.0, 59_500.0));
        assert!(
            (42_300.0..42_700.0).contains(&low) && high == 59_500.0,
            "{low}"
        );
        // The time of a request alone is no time of a message.
        assert_eq!(hdr.times(1 << 20, 100.0, (60.0, 140.0)), (60.0, 140.0));
    }

    #[test]
    fn rates_end_at_the_link() {
        let hdr = physical("connectx6-hdr");
        let metric =
            |name: &str, unit: &str, value| Metric::figure(name, unit, Better::Higher, value);
        let ends = |benchmark: &str, metric: &Metric, parameters: &[(&str, Value)]| {
            let parameters = parameters
                .iter()
                .map(|(name, value)| (name.to_string(), value.clone()));
            let parameters: Parameters = parameters.collect();
            let range = (metric.value / 2.0, metric.value * 2.0);
            hdr.figures((benchmark, &parameters), (metric, None), 1 << 20, range)
                .1
        };
        let both = [("ways", Value::Word("both".to_owned()))];
        let bound = hdr.one_way_of("bandwidth.write-both", 1 << 20);
        let rate = metric("message-rate", "1/s", 40_000.0);
        assert_eq!(
            ends("bandwidth.write-both", &rate, &both),
            2.0 * bound / f64::from(1 << 20)
        );
        let median = metric(SHARE, "bytes/s", 24.5e9);
        assert_eq!(ends("bandwidth.write-both", &median, &both), bound);
        let whole = metric("bandwidth", "bytes/s", 150e9);
        let eight = [("processes", Value::Number(8.0))];
        assert_eq!(ends("patterns.bisection", &whole, &eight), 8.0 * bound);
        assert_eq!(ends("rate.window", &whole, &eight), 300e9);
    }

    #[test]
    fn rates_of_short_writes_end_at_the_link_with_all_headers() {
        let ends = |system: &str, value| {
            let rate = Metric::figure("message-rate", "1/s", Better::Higher, value);
            let parameters = Parameters::from([("ways".to_owned(), Value::Word("one".to_owned()))]);
            let point = ("bandwidth.write", &parameters);
            let range = (value / 2.0, value * 2.0);
            physical(system).figures(point, (&rate, None), 8, range).1
        };
        // 8 bytes with LRH, BTH, RETH, ICRC and VCRC; on Ethernet with its gap, IP and UDP.
        let hdr = physical("connectx6-hdr");
        assert_eq!((hdr.one_way_of("bandwidth.write", 8) / 8e6).round(), 500.0);
        // The receiving side processes fewer than the link carries.
        let received = hdr.received(8);
        assert!((100e6..=400e6).contains(&received), "{received}");
        assert_eq!(ends("connectx6-hdr", received / 1.5), received);
        let whole = Metric::figure("bandwidth", "bytes/s", Better::Higher, 8.0 * received / 1.5);
        let parameters = Parameters::from([("ways".to_owned(), Value::Word("one".to_owned()))]);
        let range = (whole.value / 2.0, whole.value * 2.0);
        let (_, high) = hdr.figures(("bandwidth.write", &parameters), (&whole, None), 8, range);
        assert_eq!(high, 8.0 * received);
        assert_eq!((ends("connectx6dx-100gbe", 100e6) / 1e6).round(), 118.0);
    }
}
