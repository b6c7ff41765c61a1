//! Selects the compiler of the program's MPI library: the requested one, or the one that belongs to
//! the launcher.

use std::env;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use super::Failure;
use verbena_mpi_trace::recorder::{FLAGS, SOURCES};

/// Launchers, whose names may have a suffix shared with their compilers.
const LAUNCHERS: [&str; 3] = ["mpirun", "mpiexec", "orterun"];

/// A compiler of an MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    path: PathBuf,
}

impl Compiler {
    /// Returns the requested compiler, or the one for the launcher: `mpicc.mpich` for
    /// `mpirun.mpich`, otherwise `mpicc`; in the launcher's directory if its path has one and the
    /// compiler exists there.
    ///
    /// # Errors
    ///
    /// Fails if the compiler is not found.
    pub fn find(named: Option<&OsStr>, words: &[OsString]) -> Result<Compiler, Failure> {
        if let Some(name) = named {
            return Compiler::at(Path::new(name));
        }
        let launcher = Path::new(&words[0]);
        let name = name_for(launcher.file_name().unwrap_or_default());
        let directory = launcher
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        if let Some(beside) = directory.map(|directory| directory.join(&name))
            && beside.is_file()
        {
            return Compiler::at(&beside);
        }
        Compiler::at(Path::new(&name))
    }

    /// Returns the compiler at a path that is known to belong to the program's library.
    ///
    /// # Errors
    ///
    /// Fails if the compiler is not found.
    pub fn of(path: &Path) -> Result<Compiler, Failure> {
        Compiler::at(path)
    }

    fn at(name: &Path) -> Result<Compiler, Failure> {
        let found = match name.components().count() {
            1 => on_path(name),
            _ => name.is_file().then(|| name.to_owned()),
        };
        let lacking = || Failure::NoCompiler(name.display().to_string());
        found.map(|path| Compiler { path }).ok_or_else(lacking)
    }

    /// Returns its path as text.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns a hash that identifies the result: it differs for another compiler, MPI library or
    /// recorder.
    ///
    /// # Errors
    ///
    /// Fails if the compiler cannot be read or run.
    pub fn identity(&self) -> Result<u64, Failure> {
        let unusable = |source| Failure::Unusable {
            path: self.path.clone(),
            source,
        };
        let file = self.path.metadata().map_err(unusable)?;
        let mut hasher = DefaultHasher::new();
        (SOURCES, FLAGS, &self.path, file.len()).hash(&mut hasher);
        let made = file.modified().ok();
        made.and_then(|made| made.duration_since(UNIX_EPOCH).ok())
            .hash(&mut hasher);
        // Symbolic links and settings may change the compiler behind a wrapper of the same name;
        // `-show` prints the actual command.
        let shown = Command::new(&self.path)
            .arg("-show")
            .output()
            .map_err(unusable)?;
        (shown.status.code(), shown.stdout).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Compiles the library from the sources in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the compiler cannot be run or reports an error.
    pub fn make(&self, directory: &Path, library: &Path) -> Result<(), Failure> {
        let files = SOURCES
            .iter()
            .map(|(name, _)| name)
            .filter(|name| name.ends_with(".c"));
        let done = Command::new(&self.path)
            .args(FLAGS)
            .args(files)
            .arg("-o")
            .arg(library)
            .arg("-ldl")
            .current_dir(directory)
            .output()
            .map_err(|source| Failure::Unusable {
                path: self.path.clone(),
                source,
            })?;
        match done.status.success() {
            true => Ok(()),
            false => Err(Failure::Refused {
                compiler: self.name(),
                words: String::from_utf8_lossy(&done.stderr).into_owned(),
            }),
        }
    }
}

/// Returns the compiler's name for a launcher.
fn name_for(launcher: &OsStr) -> String {
    let ending = launcher
        .to_str()
        .and_then(|name| LAUNCHERS.iter().find_map(|start| name.strip_prefix(start)));
    match ending {
        // Hydra is MPICH's launcher.
        Some(".hydra") => "mpicc.mpich".to_owned(),
        Some(ending) => format!("mpicc{ending}"),
        None => "mpicc".to_owned(),
    }
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_name_follows_from_the_launcher() {
        for (launcher, compiler) in [
            ("mpirun", "mpicc"),
            ("mpirun.mpich", "mpicc.mpich"),
            ("mpiexec.openmpi", "mpicc.openmpi"),
            ("mpiexec.hydra", "mpicc.mpich"),
            ("srun", "mpicc"),
        ] {
            assert_eq!(name_for(OsStr::new(launcher)), compiler);
        }
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let words = [OsString::from("mpirun")];
        let failure = Compiler::find(Some(OsStr::new("/nowhere/mpicc")), &words).unwrap_err();
        let told = failure.to_string();
        assert!(
            told.contains("/nowhere/mpicc") && told.contains("--mpicc"),
            "{told}"
        );
    }
}
