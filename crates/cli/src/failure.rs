//! Why a command of `verbena` could not do its work: whose fault, where, and what to do.

use std::io;
use std::path::PathBuf;

use verbena_hca::shm::registry;

use crate::exit::Exit;
use crate::launch::libraries;

/// A failure of `verbena` itself, as opposed to one of the program that it runs.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter's libraries are not where this executable expects them.
    #[error(transparent)]
    Libraries(#[from] libraries::Failure),

    /// A results file or directory cannot be used.
    #[error(transparent)]
    Results(#[from] verbena_report::Error),

    /// What a benchmark was asked for has no meaning or does not exist.
    #[error("{0}")]
    Input(String),

    /// A benchmark could not be run here.
    #[error("{0}")]
    Suite(String),

    /// What should be a command looks like an option.
    #[error(
        "`{subcommand}` has no option {option:?}; `verbena {subcommand} --help` lists those it has"
    )]
    UnknownOption {
        /// Of which command of ours.
        subcommand: &'static str,
        /// As typed.
        option: String,
    },

    /// Packets cannot be captured.
    #[error(transparent)]
    Capture(#[from] crate::capture::Failure),

    /// An MPI program cannot be recorded.
    #[error(transparent)]
    Recorder(#[from] crate::record::Failure),

    /// Another tracer's trace cannot be imported.
    #[error(transparent)]
    Import(#[from] crate::import::Failure),

    /// A trace cannot be used.
    #[error(transparent)]
    Trace(#[from] verbena_trace::Error),

    /// The command exists and the kernel will not execute it.
    #[error("cannot execute {command:?}: {source}")]
    NotExecutable {
        /// The command as typed.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// The command is in no directory of PATH.
    #[error("cannot find the command {0:?}; give its path, or check PATH")]
    NotFound(String),

    /// A system call that this program depends on was refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// The registry of processes is not one that we can use.
    #[error(
        "cannot use the registry in {path}: {}; set VERBENA_RUNTIME_DIR to a directory of your own",
        registry::obstacle(*.source)
    )]
    Registry {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: verbena_hca::errno::Errno,
    },

    /// A directory could not be made or read.
    #[error("cannot use the directory {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Failure {
    /// The exit code for this failure.
    pub fn exit(&self) -> Exit {
        match self {
            // Nothing that was typed is wrong.
            Failure::Results(verbena_report::Error::Io { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Exit::Environment
            }
            Failure::Libraries(_)
            | Failure::System { .. }
            | Failure::Registry { .. }
            | Failure::Directory { .. } => Exit::Environment,
            Failure::Recorder(crate::record::Failure::Taken(_)) | Failure::Trace(_) => {
                Exit::WrongInput
            }
            Failure::Import(
                crate::import::Failure::NoPrinter | crate::import::Failure::Unrunnable(_),
            ) => Exit::Environment,
            Failure::Import(_) => Exit::WrongInput,
            Failure::Recorder(_) => Exit::Environment,
            Failure::UnknownOption { .. } | Failure::Results(_) | Failure::Input(_) => {
                Exit::WrongInput
            }
            Failure::Suite(_) | Failure::Capture(_) => Exit::Environment,
            Failure::NotExecutable { .. } => Exit::NotExecutable,
            Failure::NotFound(_) => Exit::NotFound,
        }
    }

    /// Sorts an error of `exec` into the shell's two kinds.
    pub fn of_exec(command: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Failure::NotFound(command),
            _ => Failure::NotExecutable { command, source },
        }
    }
}
