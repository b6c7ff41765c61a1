//! The table of all benchmarks.

use crate::context::Context;
use crate::{bandwidth, baseline, internals, ip, latency, pairs, patterns};
use verbena_fabric::{Error, Fabric, Result};

/// Groups, in the order of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Lower bounds and alternatives.
    Baseline,
    /// Single operations.
    Latency,
    /// Streams between two processes.
    Bandwidth,
    /// Concurrent pairs.
    MultiPair,
    /// Caches, queues, memory.
    Internals,
    /// Many processes.
    Patterns,
    /// IP over the adapter.
    Ip,
    /// Libraries above verbs.
    MessagePassing,
    /// Whole programs.
    Applications,
    /// The file service.
    Service,
}

impl Group {
    /// Returns the title for reports.
    pub fn title(self) -> &'static str {
        match self {
            Group::Baseline => "Baselines of the host",
            Group::Latency => "Latency",
            Group::Bandwidth => "Bandwidth and message rate",
            Group::MultiPair => "Many pairs at once",
            Group::Internals => "Inside the adapter",
            Group::Patterns => "Patterns of many processes",
            Group::Ip => "IP over the adapter",
            Group::MessagePassing => "Message passing",
            Group::Applications => "Applications",
            Group::Service => "File service",
        }
    }
}

/// The number of processes of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// One.
    One,
    /// Two.
    Two,
    /// Two per pair, for the requested number of pairs.
    Pairs,
    /// Several, at least this many.
    AtLeast(usize),
}

impl Processes {
    /// Returns the minimum number.
    pub fn least(self) -> usize {
        match self {
            Processes::One => 1,
            Processes::Two | Processes::Pairs => 2,
            Processes::AtLeast(number) => number,
        }
    }
}

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// Its group.
    pub group: Group,
    /// The question it answers, in one line.
    pub answers: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Its number of processes.
    pub processes: Processes,
    /// The parameter on the x axis of its chart.
    pub axis: &'static str,
}

impl Benchmark {
    /// Checks that a job of `size` processes can run it.
    ///
    /// # Errors
    ///
    /// The job has too few processes.
    pub fn check(&self, size: usize) -> Result<()> {
        let least = self.processes.least();
        if size < least {
            let name = self.name;
            let reason = format!("{name} needs at least {least} processes, the job has {size}");
            return Err(Error::invalid("bench", reason));
        }
        Ok(())
    }
}

macro_rules! benchmarks {
    ($($name:literal $group:ident $processes:expr, $axis:literal, $run:path, $answers:literal,
        $source:literal;)*) => {
        /// All benchmarks, in the order in which an evaluation runs them.
        pub const ALL: &[Benchmark] = &[$(Benchmark {
            name: $name,
            group: Group::$group,
            answers: $answers,
            source: $source,
            processes: $processes,
            axis: $axis,
        }),*];

        /// Runs the benchmark that the context names.
        ///
        /// # Errors
        ///
        /// The name is unknown, the job has too few processes, or the run ends.
        pub async fn run<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
            let benchmark = find(context.benchmark).ok_or_else(|| unknown(context.benchmark))?;
            benchmark.check(context.size())?;
            match context.benchmark {
                $($name => $run(context).await,)*
                other => Err(unknown(other)),
            }
        }
    };
}

use Processes::{AtLeast, One, Pairs, Two};

benchmarks! {
    "baseline.cache-line" Baseline One, "size", baseline::cache_line::ping_pong,
        "How long does a cache line take from core to core?", "floor of latencies through memory";
    "baseline.memcpy" Baseline One, "size", baseline::copy::bandwidth,
        "How fast does one core copy memory?", "bound of bandwidths through memory";
    "baseline.tcp" Baseline Two, "size", baseline::tcp::run,
        "How fast is TCP between the same hosts?", "the alternative";
    "latency.write" Latency Two, "size", latency::ping_pong::write,
        "How long does a write take until the receiver sees it in memory?",
        "perftest's ib_write_lat";
    "latency.write-completion" Latency Two, "size", latency::completion::write,
        "How long does a write take until its completion?", "completion of a one-sided operation";
    "latency.read" Latency Two, "size", latency::completion::read,
        "How long does a read take?", "perftest's ib_read_lat";
    "latency.send" Latency Two, "size", latency::ping_pong::send,
        "How long does a message take, over each transport?", "perftest's ib_send_lat";
    "latency.write-immediate" Latency Two, "size", latency::ping_pong::write_immediate,
        "How long does a write with immediate take?", "perftest's ib_write_lat --write_with_imm";
    "latency.fetch-add" Latency Two, "size", latency::completion::fetch_add,
        "How long does fetch-and-add take?", "perftest's ib_atomic_lat";
    "latency.compare-swap" Latency Two, "size", latency::completion::compare_swap,
        "How long does compare-and-swap take?", "perftest's ib_atomic_lat";
    "latency.inline" Latency Two, "size", latency::inline::sweep,
        "Up to which size should payload go inline?", "connectx_multicore, section 3.1";
    "latency.events" Latency Two, "size", latency::events::compare,
        "How much slower is waiting for an event than polling?", "ibv_get_cq_event(3)";
    "latency.open-loop" Latency Two, "load-percent", latency::open_loop::under_load,
        "How long does a write take under load?", "open loop, as in load generators";
    "bandwidth.write" Bandwidth Two, "size", bandwidth::size::write,
        "How fast are writes one way, and where is half of the peak?", "perftest's ib_write_bw";
    "bandwidth.write-immediate" Bandwidth Two, "size", bandwidth::size::write_immediate,
        "How fast are writes with immediate that are read?",
        "perftest's ib_write_bw --write_with_imm";
    "bandwidth.write-both" Bandwidth Two, "size", bandwidth::size::write_both,
        "How fast are writes both ways?", "perftest's ib_write_bw -b";
    "bandwidth.read" Bandwidth Two, "size", bandwidth::size::read,
        "How fast are reads?", "perftest's ib_read_bw";
    "bandwidth.send" Bandwidth Two, "size", bandwidth::size::send,
        "How fast are messages?", "perftest's ib_send_bw";
    "rate.window" Bandwidth Two, "window", bandwidth::sweep::window,
        "How many messages must be in flight?", "message rate of small writes";
    "rate.list" Bandwidth Two, "list", bandwidth::sweep::list,
        "What does posting lists of requests save?", "doorbell batching";
    "rate.queue-pairs" Bandwidth Two, "queue-pairs", bandwidth::sweep::queue_pairs,
        "Are several queue pairs faster than one?", "parallel engines of the adapter";
    "multi-pair.write-latency" MultiPair Pairs, "pairs", pairs::write_latency,
        "Does write latency hold when all cores communicate?", "connectx_multicore, section 3.1";
    "multi-pair.read-latency" MultiPair Pairs, "pairs", pairs::read_latency,
        "Does read latency hold when all cores communicate?", "connectx_multicore, section 3.2";
    "multi-pair.write-bandwidth" MultiPair Pairs, "pairs", pairs::write_bandwidth,
        "What total bandwidth do all cores get?", "connectx_multicore, section 3.3";
    "internals.contexts" Internals Two, "queue-pairs", internals::contexts::active,
        "How many connections fit the adapter's cache?", "memfree, section 4.1";
    "internals.scatter" Internals Two, "queue-pairs", internals::scatter::back_to_back,
        "How does the adapter work on many queue pairs at once?", "memfree, section 4.2";
    "internals.reuse" Internals Two, "reuse-percent", internals::translation::reuse,
        "Does buffer reuse matter?", "memfree, section 4.3";
    "internals.translation" Internals Two, "pages", internals::translation::footprint,
        "How many pages' translations fit the adapter's cache?", "memfree, section 4.3";
    "internals.regions" Internals Two, "regions", internals::translation::regions,
        "Do many small regions cost more than one large?", "memory keys in the adapter's cache";
    "internals.footprint" Internals Two, "connections", internals::footprint::memory,
        "What host memory does a connection cost?", "memfree, section 4.4";
    "internals.device-memory" Internals One, "size", internals::loopback::device_memory,
        "Is the adapter's memory faster than the host's?", "memfree, section 3";
    "internals.loopback" Internals One, "size", internals::loopback::bus,
        "What do host, bus and adapter cost without the wire?", "memfree, section 3";
    "internals.registration" Internals One, "size", internals::registration::cost,
        "What does registering memory cost?", "ibv_reg_mr(3)";
    "patterns.fan-in" Patterns AtLeast(3), "size", patterns::flows::fan_in,
        "How fast can one receiver receive from many senders?", "incast";
    "patterns.fan-out" Patterns AtLeast(3), "size", patterns::flows::fan_out,
        "How fast can one sender send to many receivers?", "broadcast without a tree";
    "patterns.ring" Patterns AtLeast(3), "size", patterns::flows::ring,
        "How fast is a ring, where each sends to the next?", "nearest neighbours";
    "patterns.bisection" Patterns AtLeast(4), "size", patterns::flows::bisection,
        "How fast is traffic between the halves?", "bisection bandwidth";
    "patterns.all-pairs" Patterns AtLeast(3), "from", patterns::matrix::all_pairs,
        "Is any pair slower than the others?", "host-by-host matrix";
    "patterns.halo" Patterns AtLeast(4), "tiles", patterns::halo::exchange,
        "How long does a 2-D halo exchange take?", "connectx_multicore, section 3.4";
    "ip.latency" Ip Two, "size", ip::latency,
        "How long does a message over TCP take on the adapter's IP interface?",
        "qdr_evaluation, Protocols";
    "ip.stream" Ip Two, "size", ip::stream,
        "How fast is TCP one way on the adapter's IP interface?", "qdr_evaluation, Protocols";
    "ip.stream-both" Ip Two, "size", ip::stream_both,
        "How fast is TCP both ways on the adapter's IP interface?", "qdr_evaluation, Protocols";
    "ip.datagrams" Ip Two, "size", ip::datagrams,
        "How many datagrams of UDP per second pass the adapter's IP interface?",
        "Linux commit f89271da32bc";
}

/// Returns the benchmark of this name.
pub fn find(name: &str) -> Option<&'static Benchmark> {
    ALL.iter().find(|benchmark| benchmark.name == name)
}

fn unknown(name: &str) -> Error {
    Error::invalid(
        "bench",
        format!("no benchmark {name:?}; `verbena list` shows all"),
    )
}
