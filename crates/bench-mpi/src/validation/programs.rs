//! Programs for the validation: the suite's applications and the user's programs.

use crate::app::Found;
use crate::app::catalogue::{self, Application};
use crate::library::{Library, MpiKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use verbena_bench::Failure;

/// A program to record, predict and time.
pub enum Program {
    /// An application, with its files.
    Application(&'static Application, Found),
    /// A user's program, with its arguments.
    Own(PathBuf, Vec<OsString>),
}

impl Program {
    /// Finds an application by name, compiling it for `library` if necessary, or an executable
    /// file.
    ///
    /// # Errors
    ///
    /// Fails if the name is neither, or the application is not installed or does not compile.
    pub fn named(name: &str, library: Option<MpiKind>) -> Result<Program, Failure> {
        if let Some(application) = catalogue::find(name) {
            let found = application.found(&Library::find(library)?)?;
            return Ok(Program::Application(application, found));
        }
        Program::own(&[OsString::from(name)])
    }

    /// Returns the program of a command as typed.
    ///
    /// # Errors
    ///
    /// Fails if its first word is not a file.
    pub fn own(words: &[OsString]) -> Result<Program, Failure> {
        let path = Path::new(&words[0]);
        // An absolute path, because it is started in another directory.
        let absolute = path.canonicalize().ok().filter(|path| path.is_file());
        match absolute {
            Some(path) => Ok(Program::Own(path, words[1..].to_vec())),
            None => Err(Failure::Input(format!(
                "{} is neither an application (app.NAME; see `verbena list`) nor an executable \
                 file",
                path.display()
            ))),
        }
    }

    /// Returns its name in results.
    pub fn name(&self) -> String {
        match self {
            Program::Application(application, _) => application.benchmark.name.to_owned(),
            Program::Own(path, _) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                name.to_string_lossy().into_owned()
            }
        }
    }

    /// Writes the input to `directory`; returns the program and its arguments.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be written.
    pub(crate) fn prepared(
        &self,
        directory: &Path,
        processes: usize,
    ) -> Result<(&Path, Vec<OsString>), Failure> {
        match self {
            Program::Own(path, arguments) => Ok((path, arguments.clone())),
            Program::Application(application, found) => {
                let words = (application.prepare)(directory, found, processes);
                let words = words.map_err(|source| Failure::Directory {
                    path: directory.to_owned(),
                    source,
                })?;
                let words = words.into_iter().map(OsString::from);
                Ok((&found.program, words.collect()))
            }
        }
    }

    /// Checks the output in `directory`.
    ///
    /// # Errors
    ///
    /// States the defect.
    pub(crate) fn judged(&self, directory: &Path, processes: usize) -> Result<(), String> {
        let Program::Application(application, _) = self else {
            return Ok(());
        };
        let outcome = (application.read)(directory)?;
        match outcome.processes == processes {
            true => Ok(()),
            false => Err(format!(
                "{processes} processes were started, but {} worked together",
                outcome.processes
            )),
        }
    }
}
