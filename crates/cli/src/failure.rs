//! Errors of `verbena`, with their messages and exit codes.

use std::io;
use std::path::PathBuf;

use verbena_hca_shm::registry;

use crate::exit::Exit;
use crate::launch::libraries;

/// An error of `verbena` itself, as opposed to one of the program that it runs.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter's libraries are not where this executable expects them.
    #[error(transparent)]
    Libraries(#[from] libraries::Failure),

    #[error(transparent)]
    Results(#[from] verbena_report::Error),

    /// Invalid or unknown input.
    #[error("{0}")]
    Input(String),

    /// A benchmark cannot run here.
    #[error("{0}")]
    Suite(String),

    /// An option in place of the command.
    #[error(
        "`{subcommand}` has no option {option:?}; `verbena {subcommand} --help` lists those it has"
    )]
    UnknownOption {
        /// The subcommand of `verbena`.
        subcommand: &'static str,
        option: String,
    },

    #[error(transparent)]
    Capture(#[from] crate::capture::Failure),

    #[error(transparent)]
    Recorder(#[from] crate::record::Failure),

    #[error(transparent)]
    Import(#[from] crate::import::Failure),

    #[error(transparent)]
    Trace(#[from] verbena_trace::Error),

    /// The command exists, but the kernel does not execute it.
    #[error("cannot execute {command:?}: {source}")]
    NotExecutable {
        /// The command as typed.
        command: String,
        source: io::Error,
    },

    /// The command is in no directory of PATH.
    #[error("cannot find the command {0:?}; give its path, or check PATH")]
    NotFound(String),

    /// A system call that this program depends on failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        source: io::Error,
    },

    #[error(
        "cannot use the registry in {path}: {}; set VERBENA_RUNTIME_DIR to a directory of your own",
        registry::obstacle(*.source)
    )]
    Registry {
        path: PathBuf,
        source: verbena_hca_os::errno::Errno,
    },

    /// A directory cannot be created or read.
    #[error("cannot use the directory {path}: {source}")]
    Directory {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            // A full file system is not an input error.
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

    /// Converts an error of `exec` to the shell's two categories.
    pub fn of_exec(command: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Failure::NotFound(command),
            _ => Failure::NotExecutable { command, source },
        }
    }
}
