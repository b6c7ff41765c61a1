//! `verbena fabric`: topologies of InfiniBand fabrics, and fabrics for management tools.

mod attach;
mod exec;
mod fault;
mod generated;
mod keep;
mod opensm;
mod show;
mod sysfs;
mod up;

use crate::exit::Exit;
use crate::failure::Failure;

/// What to do with a fabric.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show levels, oversubscription, bisection and unusual links
    Show(show::Arguments),
    /// Run a command on a fabric of switches and hosts
    ///
    /// Management tools (`ibnetdiscover`, `perfquery`, `saquery`, OpenSM) run on it unmodified, and
    /// verbs programs run at its hosts. Without a command, starts a shell.
    Up(up::Arguments),
    /// Run a command at another node of the same fabric
    ///
    /// Inside of `verbena fabric up`.
    Exec(exec::Arguments),
    /// Keep a copy of a node's files of sysfs in a directory
    ///
    /// For programs that read them without the C library, such as those in Go: `node_exporter
    /// --path.sysfs=DIR`. Inside of `verbena fabric up`; ends with the fabric.
    Sysfs(sysfs::Arguments),
    /// Cut a link, or have a port count errors
    ///
    /// Inside of `verbena fabric up`: for exporters, `ibqueryerrors` and programs that must survive
    /// it.
    Fault(fault::Arguments),
    /// Keep a fabric, for `fabric up`
    #[command(hide = true, name = "__keep")]
    Keep(keep::Arguments),
    /// Mount a node's files and become the command, for `fabric exec`
    #[command(hide = true, name = "__enter")]
    Enter(exec::EnterArguments),
    /// Run a command that ends with `fabric up`
    #[command(hide = true, name = "__with")]
    With(opensm::Arguments),
}

impl Arguments {
    /// Returns whether this process executes the user's program in its place.
    pub fn becomes_program(&self) -> bool {
        matches!(&self.action, Action::Exec(arguments) if !arguments.is_supervised())
    }
}

/// Runs the action.
///
/// # Errors
///
/// Fails if the action does.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Show(arguments) => show::run(&arguments),
        Action::Up(arguments) => up::run(&arguments),
        Action::Exec(arguments) => exec::run(&arguments),
        Action::Sysfs(arguments) => sysfs::run(&arguments),
        Action::Fault(arguments) => fault::run(&arguments),
        Action::Enter(arguments) => exec::enter(&arguments),
        Action::Keep(arguments) => keep::run(&arguments),
        Action::With(arguments) => opensm::run(&arguments),
    }
}
