//! An MPI library ready to be started: launcher, compiled program, and settings.

use crate::library::{Library, MpiKind};
use crate::transport::{Settings, Transport};
use crate::{marks, path_check, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use verbena_bench::Failure;
use verbena_bench::host::Host;
use verbena_bench::options::MeasureOptions;
use verbena_bench::resolved::{Port, Resolved};
use verbena_bench::temporary::Directory;

/// A library ready to be measured: launcher, compiled program, and settings.
pub struct Ready {
    host: &'static dyn Host,
    pub(crate) library: Library,
    /// The measuring program; empty if it is not needed.
    pub(crate) program: PathBuf,
    pub(crate) transport: Transport,
    /// Settings for the adapter's ports and packet marks.
    marks: Vec<(&'static str, String)>,
    /// Ports whose counters give the traffic of a hardware adapter.
    ports: Vec<Port>,
}

impl Ready {
    /// Prepares the library for a target; `None` if no transport leads to the target.
    ///
    /// # Errors
    ///
    /// Fails if no MPI library is found or the program does not compile.
    pub(crate) fn on(
        target: &Resolved,
        kind: Option<MpiKind>,
        is_measured: bool,
        options: &MeasureOptions,
        host: &'static dyn Host,
    ) -> Result<Option<Ready>, Failure> {
        let Some(transport) = Transport::to(target) else {
            return Ok(None);
        };
        let mut ready = Ready::of(kind, transport, host)?;
        // Applications need no measuring program.
        if is_measured {
            ready.program = program::SUITE.built(&ready.library)?;
        }
        ready.marks = marks::of(transport, target, options);
        ready.ports.clone_from(&target.ports);
        Ok(Some(ready))
    }

    /// Prepares the library for other programs than the measuring one.
    ///
    /// # Errors
    ///
    /// Fails if the MPI library is not found.
    pub fn of(
        kind: Option<MpiKind>,
        transport: Transport,
        host: &'static dyn Host,
    ) -> Result<Ready, Failure> {
        let library = Library::find(kind)?;
        Ok(Ready {
            host,
            library,
            program: PathBuf::new(),
            transport,
            marks: Vec::new(),
            ports: Vec::new(),
        })
    }

    /// Returns the compiler wrapper.
    pub fn compiler(&self) -> &Path {
        &self.library.mpicc
    }

    /// Returns the library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Reads the counters before a launch.
    pub fn before(&self) -> path_check::Before {
        let ports = match self.transport {
            Transport::Hardware => self.ports.as_slice(),
            _ => &[],
        };
        path_check::Before::of(ports)
    }

    fn settings(&self, transport: Transport) -> Settings {
        let mut settings = Settings::of(self.library.kind, transport);
        if transport.is_adapter() {
            settings.variables.extend(self.marks.iter().cloned());
        }
        settings
    }

    /// Returns the launcher.
    pub fn launcher(&self) -> &Path {
        &self.library.mpirun
    }

    /// Returns the launcher command for processes of a program, to which arguments can be appended.
    ///
    /// # Errors
    ///
    /// Fails if the software adapter is needed and its libraries are not found.
    pub fn command(
        &self,
        transport: Transport,
        program: &Path,
        processes: usize,
        counters: &Directory,
    ) -> Result<Command, Failure> {
        let settings = self.settings(transport);
        let mut command = Command::new(&self.library.mpirun);
        command
            .args(&settings.arguments)
            .args(["-n", &processes.to_string()])
            .arg(program)
            .envs(settings.variables)
            // For other transports too, to detect unintended use of the adapter.
            .env("VERBENA_STATS_DIR", counters.path());
        if transport == Transport::Software {
            command.envs(self.host.software_variables()?);
        }
        Ok(command)
    }

    /// Returns the library and its settings for the record (rule 19).
    pub fn described(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("MPI".to_owned(), self.library.version.clone()),
            (
                "MPI settings".to_owned(),
                self.settings(self.transport).to_string(),
            ),
        ])
    }

    /// Removes files that killed processes left in the adapter's registry, which no other process
    /// removes.
    pub(crate) fn clean_up(&self) {
        self.host.clean_up();
    }
}
