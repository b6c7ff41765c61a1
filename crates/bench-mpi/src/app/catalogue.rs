//! The application benchmarks.

use super::files::Found;
use super::outcome::Outcome;
use super::{hpcc, lammps, lattice, nas, rhodopsin};
use crate::library::Library;
use crate::program::Program;
use std::env;
use std::path::{Path, PathBuf};
use verbena_bench::Failure;
use verbena_workloads::registry::Group;
use verbena_workloads::{Benchmark, Processes};

/// An application benchmark: a program run as a whole.
pub struct Application {
    /// Its entry in the list of benchmarks.
    pub benchmark: Benchmark,
    program: Origin,
    /// A data file that the program reads, below the directory of programs unless absolute; `None`
    /// if it needs none.
    data: Option<&'static str>,
    /// Where to get the program or data if missing; part of the error message.
    from: &'static str,
    /// Writes the program's input to its working directory and returns its arguments.
    pub(crate) prepare: fn(&Path, &Found, processes: usize) -> std::io::Result<Vec<String>>,
    /// Reads the program's output from there.
    pub(crate) read: fn(&Path) -> Result<Outcome, String>,
}

enum Origin {
    /// Searched in PATH, or below the directory of programs if the name contains a slash.
    Installed(&'static str),
    /// Shipped with Verbena as C source and compiled for the MPI library in use.
    Own(&'static Program),
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

const HERE: &str = "it comes with Verbena";

/// The applications.
pub const ALL: &[Application] = &[
    Application {
        benchmark: listed(
            "app.lammps-peptide",
            "How long does molecular dynamics with long-range forces take?",
            "LAMMPS' peptide example, eight times; after connectx_multicore, section 4.3",
        ),
        program: Origin::Installed("lmp"),
        data: Some("/usr/share/lammps/examples/peptide/data.peptide"),
        from: "install it: on Debian the packages lammps and lammps-examples",
        prepare: lammps::prepare,
        read: lammps::read,
    },
    Application {
        benchmark: listed(
            "app.lammps-rhodo",
            "How long does the rhodopsin benchmark take?",
            "LAMMPS' in.rhodo, 32,000 atoms, 20 of its 100 steps; connectx_multicore, section 4.3",
        ),
        program: Origin::Installed("lmp"),
        data: Some("lammps-rhodo/data.rhodo"),
        from: "setup/programs gets it from Debian's source package lammps (the program itself is \
               in the package lammps)",
        prepare: rhodopsin::prepare,
        read: lammps::read,
    },
    Application {
        benchmark: listed(
            "app.nas-is",
            "How long does NAS' integer sort take?",
            "NAS parallel benchmarks, IS class A; memfree, section 5",
        ),
        program: Origin::Installed("nas/is"),
        data: None,
        from: "setup/programs builds it from Debian's source package simgrid",
        prepare: nas::prepare,
        read: nas::read,
    },
    Application {
        benchmark: listed(
            "app.nas-mg",
            "How long does NAS' multigrid take?",
            "NAS parallel benchmarks, MG class A; memfree, section 5",
        ),
        program: Origin::Own(&nas::MULTIGRID),
        data: None,
        from: HERE,
        prepare: nas::prepare_own,
        read: nas::read_own,
    },
    Application {
        benchmark: listed(
            "app.nas-lu",
            "How long does NAS' LU, with its many small messages, take?",
            "NAS parallel benchmarks, LU class W; after memfree, section 5",
        ),
        program: Origin::Own(&nas::RELAXATION),
        data: None,
        from: HERE,
        prepare: nas::prepare_relaxation,
        read: nas::read_own,
    },
    Application {
        benchmark: listed(
            "app.nas-cg",
            "How long does NAS' conjugate gradient take?",
            "NAS parallel benchmarks, CG class A; memfree, section 5",
        ),
        program: Origin::Own(&nas::CONJUGATE_GRADIENT),
        data: None,
        from: HERE,
        prepare: nas::prepare_own,
        read: nas::read_own,
    },
    Application {
        benchmark: listed(
            "app.lattice-qcd",
            "How fast is lattice QCD, whose faces go to neighbours in two dimensions?",
            "Wilson's Dirac operator, 16 x 16 x 16 x 32 sites; after rfio_infiniband, Figure 2",
        ),
        program: Origin::Own(&lattice::SOLVER),
        data: None,
        from: HERE,
        prepare: lattice::prepare,
        read: lattice::read,
    },
    Application {
        benchmark: listed(
            "app.hpcc",
            "How fast are LINPACK, transposition, Fourier transform and random access?",
            "HPC Challenge; after connectx_multicore, section 4",
        ),
        program: Origin::Installed("hpcc"),
        data: None,
        from: "install it: on Debian the package hpcc",
        prepare: hpcc::prepare,
        read: hpcc::read,
    },
];

/// Returns the application of this name.
pub fn find(name: &str) -> Option<&'static Application> {
    ALL.iter().find(|one| one.benchmark.name == name)
}

impl Application {
    /// Locates the program and its data.
    ///
    /// # Errors
    ///
    /// `Failure::Input` names a missing file and where to get it; compiling a shipped program may
    /// fail too.
    pub(crate) fn found(&self, library: &Library) -> Result<Found, Failure> {
        let missing = |what: &str| Failure::Input(format!("cannot find {what}; {}", self.from));
        let program = match self.program {
            Origin::Own(program) => program.built(library)?,
            Origin::Installed(name) if name.contains('/') => {
                below_programs(name).ok_or_else(|| missing(name))?
            }
            Origin::Installed(name) => {
                in_path(name).ok_or_else(|| missing(&format!("{name} in PATH")))?
            }
        };
        let data = match self.data {
            None => PathBuf::new(),
            Some(file) => below_programs(file).ok_or_else(|| missing(file))?,
        };
        Ok(Found { program, data })
    }
}

/// Names the directory of programs that no package provides. By default it is `programs` beside
/// this executable's directory, where setup/programs puts them.
const PROGRAMS: &str = "VERBENA_PROGRAMS";

fn below_programs(name: &str) -> Option<PathBuf> {
    let beside = || {
        Some(
            env::current_exe()
                .ok()?
                .parent()?
                .parent()?
                .join("programs"),
        )
    };
    let directory = env::var_os(PROGRAMS).map(PathBuf::from).or_else(beside)?;
    let file = directory.join(name);
    file.is_file().then_some(file)
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}
