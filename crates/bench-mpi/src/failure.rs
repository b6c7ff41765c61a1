//! Errors of a recording or a validation.

use crate::recorder;

/// The reason why a program cannot be recorded or predictions cannot be validated.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A measurement cannot run.
    #[error(transparent)]
    Bench(#[from] verbena_bench::Failure),

    /// The recorder cannot be built, or its directory cannot be used.
    #[error(transparent)]
    Recorder(#[from] recorder::Failure),

    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] verbena_mpi_trace::Error),
}
