//! Programs that a loop is closed with: applications that the suite knows, and the user's own.

use crate::app::catalogue::{self, Application, Found};
use crate::failure::Failure;
use crate::mpi::{Kind, Library};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program.
pub enum Program {
    /// One of the suite's.
    Application(&'static Application, Found),
    /// The user's own, with its arguments.
    Own(PathBuf, Vec<OsString>),
}

impl Program {
    /// An application by its name, for a library if it is compiled for one, or an executable file.
    pub fn named(name: &str, library: Option<Kind>) -> Result<Program, Failure> {
        if let Some(application) = catalogue::find(name) {
            let found = application.found(&Library::find(library)?)?;
            return Ok(Program::Application(application, found));
        }
        Program::own(&[OsString::from(name)])
    }

    /// A command as typed.
    pub fn own(words: &[OsString]) -> Result<Program, Failure> {
        let path = Path::new(&words[0]);
        // It is started in a directory of its own.
        let absolute = path.canonicalize().ok().filter(|path| path.is_file());
        match absolute {
            Some(path) => Ok(Program::Own(path, words[1..].to_vec())),
            None => Err(Failure::Input(format!(
                "{} is neither an application (app.NAME; `verbena list` names them) nor a file that could be run",
                path.display()
            ))),
        }
    }

    /// As it is called.
    pub fn name(&self) -> String {
        match self {
            Program::Application(application, _) => application.benchmark.name.to_owned(),
            Program::Own(path, _) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                name.to_string_lossy().into_owned()
            }
        }
    }

    /// What to start and with which arguments, in a directory where its input lies then.
    pub fn prepared(
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

    /// What is wrong with what it left there, if anything is.
    pub fn judged(&self, directory: &Path, processes: usize) -> Result<(), String> {
        let Program::Application(application, _) = self else {
            return Ok(());
        };
        let outcome = (application.read)(directory)?;
        match outcome.processes == processes {
            true => Ok(()),
            false => Err(format!(
                "{processes} processes were started and {} worked together",
                outcome.processes
            )),
        }
    }
}
