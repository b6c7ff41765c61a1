//! `verbena fabric exec`: a command at another node of the fabric.
//!
//! With `--mount` this process brings the node's files up to date while the command runs. The
//! command's process, `fabric __enter` until it executes the command, mounts them.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use verbena_run::{mount, supervise};
use verbena_umad::tree::CLASSES;

use super::attach::{self, Place};
use crate::adapter_options as options;
use crate::exit::Exit;
use crate::failure::Failure;

/// Pause between updates of a node's files.
pub const PAUSE: Duration = Duration::from_millis(250);

/// The arguments of `verbena fabric exec`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run the command at this node [the node of this process]
    ///
    /// Its description, a word of it, or its GUID.
    #[arg(long, value_name = "NAME", required_unless_present = "mount")]
    node: Option<String>,

    /// Mount the node's files over /sys/class
    ///
    /// In a user and a mount namespace, for programs that read /sys/class/infiniband without the C
    /// library, such as those in Go. They are updated four times a second.
    #[arg(long)]
    mount: bool,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// The arguments of the process that becomes the command.
#[derive(Debug, clap::Args)]
pub struct EnterArguments {
    /// Directory of the node
    #[arg(value_name = "DIR")]
    files: PathBuf,

    /// Process of `verbena fabric exec`
    #[arg(value_name = "PID")]
    parent: u32,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns whether this process stays as the command's parent.
    pub fn is_supervised(&self) -> bool {
        self.mount
    }
}

/// Runs the command at the node; without a mount, this process becomes the command.
///
/// # Errors
///
/// Fails if this process is on no fabric, or the node does not exist.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let place = Place::of(arguments.node.as_deref())?;
    place.refresh()?;
    let environment = attach::environment(&place.directory, place.node)?;
    let words = &arguments.command;
    if !arguments.is_supervised() {
        let error = options::command("fabric exec", words, &environment)?.exec();
        return Err(supervise::Failure::of_exec(options::name(words), error).into());
    }
    // Refuses a misspelt option before anything starts.
    options::program("fabric exec", words)?;
    let program = env::current_exe().map_err(Failure::system("find this program"))?;
    let mut command = Command::new(program);
    command
        .args(["fabric", "__enter"])
        .arg(place.files())
        .arg(std::process::id().to_string())
        .arg("--")
        .args(words)
        .envs(environment.variables());
    thread::spawn(move || {
        let mut is_failing = false;
        while place.follow(&mut is_failing) {
            thread::sleep(PAUSE);
        }
        eprintln!("verbena: the fabric has ended; its files in /sys/class are gone");
    });
    let status = supervise::run(command, || options::name(words))?;
    Ok(Exit::of_child(status))
}

/// Mounts the node's files, and becomes the command.
///
/// # Errors
///
/// Fails if the files cannot be mounted, or the command cannot be executed.
pub fn enter(arguments: &EnterArguments) -> Result<Exit, Failure> {
    let classes = CLASSES.map(|name| (name, arguments.files.join("class").join(name)));
    let classes = classes
        .each_ref()
        .map(|(name, path)| (*name, Path::new(path)));
    mount::enter(&classes)?;
    // Its counters would stand still without that process.
    supervise::end_with(arguments.parent)
        .map_err(Failure::system("follow `verbena fabric exec`"))?;
    let error = options::program("fabric exec", &arguments.command)?.exec();
    Err(supervise::Failure::of_exec(options::name(&arguments.command), error).into())
}
