//! The programs.

use super::outcome::Outcome;
use super::{hpcc, lammps};
use std::env;
use std::path::{Path, PathBuf};
use verbena_workloads::registry::Group;
use verbena_workloads::{Benchmark, Processes};

/// A program that is run whole.
pub struct Application {
    /// As it is listed.
    pub benchmark: Benchmark,
    /// The program, looked for in PATH.
    program: &'static str,
    /// A file that it reads and that comes with it; none if it needs none.
    data: Option<&'static str>,
    /// What has both.
    package: &'static str,
    /// Writes its input to the directory that it runs in, and gives its arguments.
    pub prepare: fn(&Path, &Found, processes: usize) -> std::io::Result<Vec<String>>,
    /// Reads what it left there.
    pub read: fn(&Path) -> Result<Outcome, String>,
}

/// Where a program is.
pub struct Found {
    /// To be started.
    pub program: PathBuf,
    /// Its data; empty where it needs none.
    pub data: PathBuf,
}

const fn listed(name: &'static str, answers: &'static str, source: &'static str) -> Benchmark {
    Benchmark {
        name,
        group: Group::Applications,
        answers,
        source,
        processes: Processes::AtLeast(1),
        axis: "processes",
    }
}

/// All of them.
pub const ALL: &[Application] = &[
    Application {
        benchmark: listed(
            "app.lammps-peptide",
            "How long does molecular dynamics with long-range forces take?",
            "LAMMPS' peptide example, eight times; after connectx_multicore, section 4.3",
        ),
        program: "lmp",
        data: Some("/usr/share/lammps/examples/peptide/data.peptide"),
        package: "lammps and lammps-examples",
        prepare: lammps::prepare,
        read: lammps::read,
    },
    Application {
        benchmark: listed(
            "app.hpcc",
            "How fast are LINPACK, transposition, Fourier transform and random access?",
            "HPC Challenge; after connectx_multicore, section 4",
        ),
        program: "hpcc",
        data: None,
        package: "hpcc",
        prepare: hpcc::prepare,
        read: hpcc::read,
    },
];

/// The program of a benchmark.
pub fn find(name: &str) -> Option<&'static Application> {
    ALL.iter().find(|one| one.benchmark.name == name)
}

impl Application {
    /// The program and its data, or which package has them.
    pub fn found(&self) -> Result<Found, String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let program = env::split_paths(&path)
            .map(|directory| directory.join(self.program))
            .find(|file| file.is_file());
        let missing = |what: &str| {
            format!(
                "{what} is not there; on Debian the package {} has it",
                self.package
            )
        };
        let program = program.ok_or_else(|| missing(&format!("{} in PATH", self.program)))?;
        let data = match self.data {
            Some(file) if !Path::new(file).is_file() => return Err(missing(file)),
            file => PathBuf::from(file.unwrap_or_default()),
        };
        Ok(Found { program, data })
    }
}
