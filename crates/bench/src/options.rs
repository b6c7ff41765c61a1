//! The options of a measurement.

use crate::Failure;
use crate::packet_marks::RouteOptions;
use crate::ports::PortName;
use crate::profiles::Profiles;
use crate::target::Target;
use std::time::Duration;
use verbena_workloads::{Mode, Options};

/// Maximum number of processes that measure an adapter.
const MOST_PROCESSES: usize = 1024;

/// Options of a measurement.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// Measure fewer points, shorter, in one launch.
    pub quick: bool,
    /// The targets.
    pub targets: Vec<Target>,
    /// Name of the run in reports and comparisons; by default that of the target.
    pub label: Option<String>,
    /// Index of the GID in global routes.
    pub gid_index: Option<u8>,
    /// Marks of the packets.
    pub route: RouteOptions,
    /// Ports over which pairs are distributed; by default the target's.
    pub ports: Option<Vec<PortName>>,
    /// Whether peers' writes may reach memory in relaxed order.
    pub relaxed_ordering: bool,
    /// Launches of each benchmark.
    pub launches: Option<u32>,
    /// Time within which every launch has to end.
    pub minutes: Option<Duration>,
    /// Message sizes in bytes.
    pub sizes: Option<Vec<usize>>,
    /// Numbers of pairs in multi-pair benchmarks.
    pub pairs: Option<Vec<usize>>,
    /// Number of processes in patterns.
    pub processes: Option<usize>,
    /// Number of nodes of a model over which the ranks of mpi.* are distributed; by default that
    /// of its set-up.
    pub nodes: Option<usize>,
    /// `free` or `lockstep`.
    pub mode: Option<String>,
    /// Transports: rc, uc, ud, xrc.
    pub transports: Option<Vec<String>>,
    /// Largest message posted inline, in bytes.
    pub inline: Option<u32>,
    /// Seed of patterns and orders.
    pub seed: u64,
    /// Profiles of models.
    pub profiles: Profiles,
    /// Threads that compute models.
    pub threads: usize,
    /// Address of process 0, in a job over several hosts.
    pub exchange: Option<String>,
}

impl MeasureOptions {
    /// Returns the options of a quick measurement of one target.
    pub fn quick_on(target: Target) -> MeasureOptions {
        MeasureOptions {
            quick: true,
            targets: vec![target],
            label: None,
            gid_index: None,
            route: RouteOptions::default(),
            ports: None,
            relaxed_ordering: false,
            launches: None,
            minutes: None,
            sizes: None,
            pairs: None,
            processes: None,
            nodes: None,
            mode: None,
            transports: None,
            inline: None,
            seed: 1,
            profiles: Profiles::default(),
            threads: 2,
            exchange: None,
        }
    }

    /// Rejects options for adapters if all targets are models.
    ///
    /// # Errors
    ///
    /// Names the options.
    pub fn check_route(&self) -> Result<(), Failure> {
        let is_model = |target: &Target| matches!(target, Target::Model { .. });
        let refused = |text: &str| Err(Failure::Input(text.to_owned()));
        if !self.targets.iter().all(is_model) {
            return Ok(());
        }
        if self.route.is_given() {
            return refused(
                "--traffic-class, --service-level and --pkey are for adapters; models have one \
                 class of packets",
            );
        }
        if self.ports.is_some() || self.relaxed_ordering {
            return refused(
                "--ports and --relaxed-ordering are for adapters; the profile sets the ports and \
                 bus of a model",
            );
        }
        Ok(())
    }

    /// Rejects numbers of processes that a target cannot have, and nodes of an adapter.
    ///
    /// # Errors
    ///
    /// Names the option, and the limit.
    pub fn check_scale(&self, target: &Target) -> Result<(), Failure> {
        if matches!(target, Target::Model { .. }) {
            return Ok(());
        }
        if self.nodes.is_some() {
            let text = "--nodes is for models; mpirun or srun starts processes on several hosts";
            return Err(Failure::Input(text.to_owned()));
        }
        match self
            .processes
            .filter(|processes| *processes > MOST_PROCESSES)
        {
            Some(processes) => Err(Failure::Input(format!(
                "--processes {processes} is for models; an adapter is measured with at most \
                 {MOST_PROCESSES} processes"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the name of the run on a target in reports and comparisons.
    pub fn label_of(&self, target: String) -> String {
        match (&self.label, self.targets.len()) {
            (None, _) => target,
            (Some(label), 1) => label.clone(),
            (Some(label), _) => format!("{label}, {target}"),
        }
    }

    /// Returns the number of launches of each benchmark.
    pub fn launches(&self) -> u32 {
        self.launches.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Returns `quick` or `full`.
    pub fn effort(&self) -> &'static str {
        if self.quick { "quick" } else { "full" }
    }

    /// Returns the options that benchmarks use on a model, without a host to measure.
    pub fn for_benchmarks(&self) -> Options {
        Options {
            sizes: self.sizes.clone(),
            pairs: self.pairs.clone(),
            mode: self.mode.as_deref().map(mode),
            transports: self.transports.clone(),
            inline: self.inline,
            seed: self.seed,
            ..Options::default()
        }
    }
}

/// Parses `lockstep` or `free`.
pub(crate) fn mode(word: &str) -> Mode {
    match word {
        "lockstep" => Mode::Lockstep,
        _ => Mode::Free,
    }
}
