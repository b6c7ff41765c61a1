//! The script of a Slurm array for `verbena sweep`.

pub mod script;
