//! The options shared by `bench` and `evaluate`.

use crate::failure::Failure;
use crate::host;
use crate::number;
use crate::profiles::ModelOptions;
use std::time::Duration;
use verbena_bench::options::MeasureOptions;
use verbena_bench::packet_marks::RouteOptions;
use verbena_bench::ports::PortName;
use verbena_bench::target::Target;
use verbena_bench_mpi::Mpi;
use verbena_bench_mpi::library::MpiKind;

/// An MPI library, by name.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum MpiName {
    /// Open MPI
    Openmpi,
    /// MPICH
    Mpich,
}

impl From<MpiName> for MpiKind {
    fn from(name: MpiName) -> MpiKind {
        match name {
            MpiName::Openmpi => MpiKind::Openmpi,
            MpiName::Mpich => MpiKind::Mpich,
        }
    }
}

/// Marks of packets, for switches that distinguish them.
#[derive(Debug, Clone, clap::Args)]
struct RouteArguments {
    /// Set the traffic class of the packets
    ///
    /// In the global route; on RoCE the IP header's byte for DSCP and ECN (104 is DSCP 26).
    #[arg(long, value_name = "0-255", value_parser = number::between::<u8>(0..=255))]
    traffic_class: Option<u8>,

    /// Set the service level; on Ethernet the priority
    #[arg(long, value_name = "0-15", value_parser = number::between::<u8>(0..=15))]
    service_level: Option<u8>,

    /// Use this partition, e.g. 0x8001 [default: the first P_Key]
    #[arg(long, value_name = "KEY", value_parser = partition_key)]
    pkey: Option<u16>,
}

/// Options of a measurement.
#[derive(Debug, Clone, clap::Args)]
pub struct MeasureArguments {
    /// Measure fewer points, shorter, in one launch
    #[arg(long)]
    pub quick: bool,

    /// Choose what to measure; may be repeated
    ///
    /// `software`, `hardware[:DEVICE[:PORT]]`, `model:PROFILE[:message]`, `machine:NAME`; for mpi.*
    /// and app.* also `tcp` and `shm`.
    #[arg(long = "on", value_name = "TARGET", default_value = "software")]
    pub targets: Vec<Target>,

    /// Name the run in reports and comparisons [default: the target]
    ///
    /// With several targets, each run is named after its target.
    #[arg(long, value_name = "WORDS")]
    pub label: Option<String>,

    /// Use the GID at this index in global routes
    ///
    /// On RoCE it selects version and address [default: 0; on Ethernet the first GID of an IPv4
    /// address].
    #[arg(long, value_name = "N", value_parser = number::between::<u8>(0..=255))]
    pub gid_index: Option<u8>,

    #[command(flatten)]
    route: RouteArguments,

    /// Distribute pairs over these ports [default: the target's]
    ///
    /// Ports of one adapter or several, such as `1,2` or `mlx5_0:1,mlx5_1:1`.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ports: Option<Vec<PortName>>,

    /// Allow relaxed ordering of PCI Express for peers' writes
    ///
    /// Regions are registered with IBV_ACCESS_RELAXED_ORDERING.
    #[arg(long)]
    pub relaxed_ordering: bool,

    /// Launch each benchmark N times [default: 5; 1 with --quick]
    ///
    /// Each launch has new processes, queue pairs and buffers.
    #[arg(long, value_name = "N", value_parser = number::between::<u32>(1..=1000))]
    pub launches: Option<u32>,

    /// Start no launch that would end after N minutes
    ///
    /// A number such as `11` or `0.5` [default: none for `bench`, 11 for `evaluate`]. A model ends
    /// with the points that are complete then.
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub minutes: Option<Duration>,

    /// Use these message sizes, in bytes, KiB (4K) or MiB (1M)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::message_size)]
    pub sizes: Option<Vec<usize>>,

    /// Use these numbers of pairs in multi-pair benchmarks
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = number::between::<usize>(1..=512))]
    pub pairs: Option<Vec<usize>>,

    /// Use N processes in patterns [default: 4]
    ///
    /// Up to 1024 on an adapter, up to 1048576 on a model.
    #[arg(long, value_name = "N", value_parser = number::between::<usize>(1..=1 << 20))]
    pub processes: Option<usize>,

    /// Distribute the ranks of mpi.* over N nodes of a model
    ///
    /// Of benchmarks with more than two ranks [default: the nodes of the profile].
    #[arg(long, value_name = "N", value_parser = number::between::<usize>(2..=1 << 20))]
    pub nodes: Option<usize>,

    /// Use this MPI library for mpi.* [default: that of `mpicc`]
    #[arg(long, value_enum, value_name = "LIBRARY")]
    pub mpi: Option<MpiName>,

    /// Run several pairs `free` or in `lockstep` [default: both]
    ///
    /// Not the mode of an interface of ip.*: all modes are measured.
    #[arg(long, value_name = "MODE", value_parser = ["free", "lockstep"])]
    pub mode: Option<String>,

    /// Use these transports: rc, uc, ud, xrc
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = ["rc", "uc", "ud", "xrc"])]
    pub transports: Option<Vec<String>>,

    /// Post messages up to this size inline; 0 for none
    ///
    /// Limited by the adapter [default: 220; 400 in multi-pair latency].
    #[arg(long, value_name = "BYTES", value_parser = number::inline_size)]
    pub inline: Option<u32>,

    /// Set the seed of patterns and orders
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = number::between::<u64>(0..=u64::MAX))]
    pub seed: u64,

    #[command(flatten)]
    pub models: ModelOptions,

    /// Compute models on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = number::between::<usize>(1..=1024))]
    pub threads: usize,

    /// Set the address of process 0, in a job over several hosts
    ///
    /// For jobs started by mpirun or srun [default: determined from the launcher's host list].
    #[arg(long, value_name = "HOST:PORT")]
    pub exchange: Option<String>,
}

impl MeasureArguments {
    /// Rejects meaningless options.
    ///
    /// # Errors
    ///
    /// Names the option.
    pub fn check(&self) -> Result<(), Failure> {
        self.models.check(&self.targets)?;
        match &self.label {
            Some(label) if label.trim().is_empty() => {
                Err(Failure::Input("--label needs a word".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Rejects profile options if no target is a model.
    ///
    /// # Errors
    ///
    /// Names the options.
    pub fn check_profiles(&self) -> Result<(), Failure> {
        let is_model = |target: &Target| matches!(target, Target::Model { .. });
        match self.models.are_given() && !self.targets.iter().any(is_model) {
            true => Err(Failure::Input(
                "--set, --profiles and --topology are for models; `--on model:PROFILE` measures \
                 one"
                .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Returns the engine's options.
    ///
    /// # Errors
    ///
    /// Fails if the files of a fabric cannot be read.
    pub fn options(&self) -> Result<MeasureOptions, Failure> {
        Ok(MeasureOptions {
            quick: self.quick,
            targets: self.targets.clone(),
            label: self.label.clone(),
            gid_index: self.gid_index,
            route: RouteOptions {
                traffic_class: self.route.traffic_class,
                service_level: self.route.service_level,
                pkey: self.route.pkey,
            },
            ports: self.ports.clone(),
            relaxed_ordering: self.relaxed_ordering,
            launches: self.launches,
            minutes: self.minutes,
            sizes: self.sizes.clone(),
            pairs: self.pairs.clone(),
            processes: self.processes,
            nodes: self.nodes,
            mode: self.mode.clone(),
            transports: self.transports.clone(),
            inline: self.inline,
            seed: self.seed,
            profiles: self.models.profiles()?,
            threads: self.threads,
            exchange: self.exchange.clone(),
        })
    }

    /// Returns the launcher of MPI benchmarks.
    pub fn mpi(&self) -> Mpi {
        host::mpi(self.mpi.map(MpiKind::from))
    }
}

/// Longest accepted time, in minutes: a week.
const LONGEST: f64 = 10_000.0;

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of minutes"))?;
    match minutes > 0.0 && minutes <= LONGEST {
        true => Ok(Duration::from_secs_f64(60.0 * minutes)),
        false => Err(format!("{text} is not between 0 and {LONGEST} minutes")),
    }
}

/// Parses a P_Key, hexadecimal after 0x.
fn partition_key(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number & 0x7fff != 0 => Ok(number),
        _ => Err(
            "a P_Key is a number such as 0x8001 with at least one of its lower 15 bits set"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{minutes, partition_key};
    use std::time::Duration;

    #[test]
    fn times_are_parsed_in_minutes() {
        assert_eq!(minutes("11"), Ok(Duration::from_secs(660)));
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        for wrong in ["", "0", "-1", "NaN", "inf", "10001", "2m"] {
            assert!(minutes(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn partition_keys_are_parsed() {
        assert_eq!(partition_key("0x8001"), Ok(0x8001));
        assert_eq!(partition_key("32769"), Ok(0x8001));
        for wrong in ["", "0x", "0", "0x8000", "65536", "0x10000", "-1", "8001h"] {
            assert!(partition_key(wrong).is_err(), "{wrong}");
        }
    }
}
