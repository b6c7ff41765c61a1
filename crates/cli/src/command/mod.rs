//! The subcommands, one file each: the arguments, and `run`, which does the work and returns the
//! exit code.

mod bench;
mod calibrate;
mod capture;
mod closed_loop;
mod compare;
mod completions;
mod coverage;
pub(crate) mod demo;
mod doctor;
mod evaluate;
mod explain;
mod fabric;
mod faults;
mod help;
mod history;
mod import;
mod info;
mod ip_sockets;
mod ipoib;
mod list;
mod machine;
mod manual;
mod port;
mod record;
mod records;
mod replay;
pub(crate) mod report;
mod reproduce;
mod run;
mod sensitivity;
mod sweep;
mod trace;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::host::HOST;

/// What `verbena` can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run benchmarks by name
    Bench(bench::Arguments),
    /// Fit a timing model to measurements
    Calibrate(calibrate::Arguments),
    /// Capture the adapter's traffic as RoCEv2 packets
    Capture(capture::Arguments),
    /// Validate predictions on this machine
    ///
    /// Records MPI programs, predicts them over other transports, measures them there, and
    /// compares.
    ClosedLoop(closed_loop::Arguments),
    /// Compare two runs
    Compare(compare::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Show which outcomes of verbs calls tests have seen
    ///
    /// Runs a command on the adapter and counts outcomes of it and of all programs it starts:
    /// completion statuses by operation, errors by call, asynchronous events, and events of the
    /// connection manager. Lists those that were never seen. Without a command, reports data files.
    Coverage(coverage::Arguments),
    /// Demonstrate the adapter in ten seconds
    ///
    /// Two processes exchange data on the adapter, a mistake is refused and explained, and the
    /// measured latency is compared with a model of a ConnectX-6. Needs only this package. The exit
    /// code is 3 if the adapter does not work; `verbena doctor` then shows why.
    Demo(demo::Arguments),
    /// Check this machine's support
    Doctor(doctor::Arguments),
    /// Try one thing for `doctor`, in its own process
    #[command(hide = true, name = "__doctor")]
    DoctorProbe(doctor::ProbeArguments),
    /// Run all benchmarks and write one report
    Evaluate(evaluate::Arguments),
    /// Make verbs calls and requests of a program fail
    ///
    /// `verbena run --fault` does so in one run.
    Faults(faults::Arguments),
    /// Break the time of an operation down in a model
    Explain(explain::Arguments),
    /// Run commands on a fabric of switches and hosts, or show a topology
    Fabric(fabric::Arguments),
    /// Show help on a command or on the environment
    Help(help::Arguments),
    /// Detect step changes across runs
    History(history::Arguments),
    /// Convert a trace of Score-P, PyTorch or another tool
    Import(import::Arguments),
    /// Show the adapter, its limits and its processes
    Info(info::Arguments),
    /// Run a command with an IP interface on the adapter
    ///
    /// The command runs in a network namespace with an interface `ib0`, which carries IP over
    /// InfiniBand (RFC 4391) to the interfaces of other `verbena ipoib` commands; it also runs in a
    /// user namespace, unless it is root's. Needs no privilege, but user namespaces and
    /// /dev/net/tun.
    Ipoib(ipoib::Arguments),
    /// Make the namespace of `ipoib` and become its command
    #[command(hide = true, name = "__ipoib-enter")]
    IpoibEnter(ipoib::EnterArguments),
    /// Make sockets in the namespace of `ipoib`, for `bench ip.*`
    #[command(hide = true, name = "__ip-sockets")]
    IpSockets,
    /// List benchmarks and models
    List(list::Arguments),
    /// Save machines as models with your measurements
    Machine(machine::Arguments),
    /// Write manual pages and completions for `make install`
    #[command(hide = true, name = "__manual")]
    Manual(manual::Arguments),
    /// Run one process of a benchmark, for `bench` and `evaluate`
    #[command(hide = true, name = "__process")]
    Process,
    /// Take a port of the software adapter down or up
    ///
    /// Tests programs that must survive a port failure: with a device's port down, requests end
    /// with IBV_WC_RETRY_EXC_ERR after their retries, datagrams are lost, and programs get the
    /// port's asynchronous events. It stays down as long as a process uses the adapter.
    Port(port::Arguments),
    /// Record the MPI calls of a program
    Record(record::Arguments),
    /// Print a run as records, for the Python package
    #[command(hide = true, name = "__records")]
    Records(records::Arguments),
    /// Replay an MPI program or a schedule on a timing model
    Replay(replay::Arguments),
    /// Write a report of one or several runs
    Report(report::Arguments),
    /// Compute the published claims from the models
    Reproduce(reproduce::Arguments),
    /// Run one client of the file service, for `bench rfio.*`
    #[command(hide = true, name = "__rfio-client")]
    ServiceClient,
    /// Run a command on the software adapter
    Run(run::Arguments),
    /// Measure how a program depends on latency, overhead, gap and rate
    ///
    /// Runs a command on an emulated adapter (`verbena run --as`) with several values of one
    /// parameter of LogGP at a time. Prints the time of the command at each, or a number that it
    /// prints, and at which value that changes by 1 % and 5 %.
    Sensitivity(sensitivity::Arguments),
    /// Compute a parameter study on the models
    Sweep(sweep::Arguments),
    /// Run a command and print its verbs calls
    Trace(trace::Arguments),
}

impl Command {
    /// Returns whether this process executes the user's program in its place, which then inherits
    /// this process's signal settings.
    pub fn becomes_program(&self) -> bool {
        match self {
            Command::Run(arguments) => !arguments.is_supervised(),
            Command::Fabric(arguments) => arguments.becomes_program(),
            _ => false,
        }
    }

    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// Returns the subcommand's failure.
    pub fn run(self) -> Result<Exit, Failure> {
        match self {
            Command::Bench(arguments) => bench::run(arguments),
            Command::Calibrate(arguments) => calibrate::run(arguments),
            Command::Capture(arguments) => capture::run(arguments),
            Command::ClosedLoop(arguments) => closed_loop::run(arguments),
            Command::Compare(arguments) => compare::run(arguments),
            Command::Completions(arguments) => completions::run(arguments),
            Command::Coverage(arguments) => coverage::run(arguments),
            Command::Faults(arguments) => faults::run(arguments),
            Command::Demo(arguments) => demo::run(arguments),
            Command::Doctor(arguments) => doctor::run(arguments),
            Command::DoctorProbe(arguments) => doctor::probe(arguments),
            Command::Machine(arguments) => machine::run(arguments),
            Command::Manual(arguments) => manual::run(arguments),
            Command::Evaluate(arguments) => evaluate::run(arguments),
            Command::History(arguments) => history::run(arguments),
            Command::Help(arguments) => help::run(arguments),
            Command::Explain(arguments) => explain::run(arguments),
            Command::Fabric(arguments) => fabric::run(arguments),
            Command::Import(arguments) => import::run(arguments),
            Command::Info(arguments) => info::run(arguments),
            Command::Ipoib(arguments) => ipoib::run(&arguments),
            Command::IpoibEnter(arguments) => ipoib::enter(arguments),
            Command::IpSockets => ip_sockets::run(),
            Command::List(arguments) => list::run(arguments),
            Command::Port(arguments) => port::run(arguments),
            Command::Process => {
                verbena_bench::worker::run(&HOST)?;
                Ok(Exit::Success)
            }
            Command::Record(arguments) => record::run(arguments),
            Command::Records(arguments) => records::run(arguments),
            Command::Replay(arguments) => replay::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Reproduce(arguments) => reproduce::run(arguments),
            Command::Run(arguments) => run::run(arguments),
            Command::Sensitivity(arguments) => sensitivity::run(arguments),
            Command::Sweep(arguments) => sweep::run(arguments),
            Command::Trace(arguments) => trace::run(arguments),
            Command::ServiceClient => {
                verbena_bench::service::run_client()?;
                Ok(Exit::Success)
            }
        }
    }
}
