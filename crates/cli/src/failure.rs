//! Errors of `verbena`, with their messages and exit codes.

use std::io;
use std::path::PathBuf;

use verbena_bench::Failure as BenchFailure;
use verbena_bench_mpi::{Failure as MpiFailure, import, recorder};
use verbena_hca_shm::registry;
use verbena_inspect::{capture, doctor};
use verbena_run::libraries;
use verbena_run::supervise::Failure as StartFailure;

use crate::exit::Exit;

/// An error of `verbena` itself, as opposed to one of the program that it runs.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter's libraries are not where this executable expects them.
    #[error(transparent)]
    Libraries(#[from] libraries::Failure),

    /// A measurement cannot run.
    #[error(transparent)]
    Bench(#[from] BenchFailure),

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
    Capture(#[from] capture::Failure),

    #[error(transparent)]
    Ipoib(#[from] verbena_ipoib::engine::Failure),

    #[error(transparent)]
    Namespace(#[from] verbena_ipoib::namespace::Failure),

    #[error(transparent)]
    Mount(#[from] verbena_run::mount::Failure),

    #[error(transparent)]
    Mirror(#[from] verbena_umad::mirror::Failure),

    #[error(transparent)]
    Coverage(#[from] verbena_coverage::file::Failure),

    #[error(transparent)]
    Doctor(#[from] doctor::Failure),

    #[error(transparent)]
    Recorder(#[from] recorder::Failure),

    #[error(transparent)]
    Import(#[from] import::Failure),

    #[error(transparent)]
    Trace(#[from] verbena_mpi_trace::Error),

    /// The command cannot be started.
    #[error(transparent)]
    Start(#[from] StartFailure),

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
    /// Returns the conversion of an error of the system, which prevented an action.
    pub fn system(doing: &'static str) -> impl Fn(io::Error) -> Failure {
        move |source| Failure::System { doing, source }
    }

    pub fn exit(&self) -> Exit {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            // A full file system is not an input error.
            Failure::Results(error) | Failure::Bench(BenchFailure::Results(error)) => match error {
                verbena_report::Error::Io { source, .. }
                    if matches!(source.kind(), StorageFull | QuotaExceeded) =>
                {
                    Exit::Environment
                }
                _ => Exit::WrongInput,
            },
            Failure::Start(StartFailure::NotExecutable { .. })
            | Failure::Bench(BenchFailure::NotExecutable { .. }) => Exit::NotExecutable,
            Failure::Start(StartFailure::NotFound(_))
            | Failure::Bench(BenchFailure::NotFound(_)) => Exit::NotFound,
            Failure::Import(import::Failure::NoPrinter | import::Failure::Unrunnable(_)) => {
                Exit::Environment
            }
            Failure::Recorder(recorder::Failure::Taken(_))
            | Failure::Trace(_)
            | Failure::Import(_)
            | Failure::UnknownOption { .. }
            | Failure::Coverage(_)
            | Failure::Input(_)
            | Failure::Mirror(_)
            | Failure::Bench(BenchFailure::Input(_)) => Exit::WrongInput,
            Failure::Libraries(_)
            | Failure::Bench(_)
            | Failure::Suite(_)
            | Failure::Capture(_)
            | Failure::Ipoib(_)
            | Failure::Namespace(_)
            | Failure::Mount(_)
            | Failure::Doctor(_)
            | Failure::Recorder(_)
            | Failure::Start(_)
            | Failure::System { .. }
            | Failure::Registry { .. }
            | Failure::Directory { .. } => Exit::Environment,
        }
    }
}

impl From<MpiFailure> for Failure {
    fn from(failure: MpiFailure) -> Self {
        match failure {
            MpiFailure::Bench(failure) => failure.into(),
            MpiFailure::Recorder(failure) => Failure::Recorder(failure),
            MpiFailure::Trace(error) => Failure::Trace(error),
        }
    }
}
