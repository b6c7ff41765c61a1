//! The user's MPI library: compiler and launcher, which must belong to the same library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use verbena_bench::Failure;

/// Libraries that can be measured. Their binary interfaces differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiKind {
    /// Open MPI.
    Openmpi,
    /// MPICH.
    Mpich,
}

impl MpiKind {
    const ALL: [MpiKind; 2] = [MpiKind::Openmpi, MpiKind::Mpich];

    /// Returns the name as written by its authors.
    pub fn title(self) -> &'static str {
        match self {
            MpiKind::Openmpi => "Open MPI",
            MpiKind::Mpich => "MPICH",
        }
    }

    /// Returns the suffix of its programs' names in distributions with several MPI libraries.
    fn suffix(self) -> &'static str {
        match self {
            MpiKind::Openmpi => ".openmpi",
            MpiKind::Mpich => ".mpich",
        }
    }

    /// Returns the names of Debian's packages.
    fn packages(self) -> &'static str {
        match self {
            MpiKind::Openmpi => "openmpi-bin and libopenmpi-dev",
            MpiKind::Mpich => "mpich and libmpich-dev",
        }
    }
}

/// An installed library.
#[derive(Debug, Clone)]
pub struct Library {
    /// Its kind.
    pub kind: MpiKind,
    /// Version as reported by the compiler.
    pub version: String,
    /// The compiler wrapper.
    pub mpicc: PathBuf,
    /// The command that the compiler wrapper runs: headers, libraries, options.
    pub runs: String,
    /// The launcher.
    pub mpirun: PathBuf,
}

impl Library {
    /// Finds the requested library, or the one that `mpicc` belongs to.
    ///
    /// # Errors
    ///
    /// Fails if it has no compiler or no launcher.
    pub fn find(wanted: Option<MpiKind>) -> Result<Library, Failure> {
        let names = match wanted {
            Some(kind) => vec![format!("mpicc{}", kind.suffix()), "mpicc".to_owned()],
            None => {
                let named = MpiKind::ALL.map(|kind| format!("mpicc{}", kind.suffix()));
                [vec!["mpicc".to_owned()], named.to_vec()].concat()
            }
        };
        let compilers: Vec<PathBuf> = names.iter().filter_map(|name| in_path(name)).collect();
        let found = compilers.iter().find_map(|mpicc| {
            let (kind, version) = compiler(mpicc)?;
            wanted
                .is_none_or(|wanted| wanted == kind)
                .then_some((mpicc, kind, version))
        });
        let Some((mpicc, kind, version)) = found else {
            return Err(Failure::Input(no_compiler(wanted, &compilers)));
        };
        let mpirun = launcher(mpicc, kind).ok_or_else(|| {
            Failure::Input(format!(
                "{} belongs to {}, whose mpirun is neither beside it nor in PATH; install both: \
                 on Debian the packages {}",
                mpicc.display(),
                kind.title(),
                kind.packages()
            ))
        })?;
        Ok(Library {
            kind,
            version,
            mpicc: mpicc.clone(),
            runs: said(mpicc, "-show").unwrap_or_default(),
            mpirun,
        })
    }
}

fn no_compiler(wanted: Option<MpiKind>, found: &[PathBuf]) -> String {
    let what = wanted.map_or("Open MPI or MPICH", MpiKind::title);
    let packages = match wanted {
        Some(kind) => kind.packages().to_owned(),
        None => format!(
            "{}, or {}",
            MpiKind::Openmpi.packages(),
            MpiKind::Mpich.packages()
        ),
    };
    let there = match found {
        [] => "there is no mpicc in PATH".to_owned(),
        [one, ..] => format!("{} belongs to another library", one.display()),
    };
    format!(
        "mpi.* needs the compiler of {what} to measure the library from inside, but {there}; \
         install it: on Debian the packages {packages}"
    )
}

/// Returns the library of a compiler, and its version.
fn compiler(mpicc: &Path) -> Option<(MpiKind, String)> {
    let open = said(mpicc, "--showme:version").and_then(|text| after(&text, "Open MPI "));
    if let Some(version) = open {
        return Some((MpiKind::Openmpi, format!("Open MPI {version}")));
    }
    let version = after(&said(mpicc, "-v")?, "MPICH version ")?;
    Some((MpiKind::Mpich, format!("MPICH {version}")))
}

/// Returns the word after `words`.
fn after(text: &str, words: &str) -> Option<String> {
    let rest = &text[text.find(words)? + words.len()..];
    rest.split_whitespace().next().map(str::to_owned)
}

/// Finds the launcher of the same library: beside the compiler, with the compiler's own or the
/// library's suffix, otherwise in PATH.
fn launcher(mpicc: &Path, kind: MpiKind) -> Option<PathBuf> {
    let suffixed = format!("mpirun{}", kind.suffix());
    let name = mpicc.file_name()?.to_str()?.replace("mpicc", "mpirun");
    let beside = [&name, &suffixed].map(|name| Some(mpicc.with_file_name(name)));
    let elsewhere = [&suffixed, "mpirun"].map(in_path);
    let all = beside.into_iter().chain(elsewhere).flatten();
    all.into_iter()
        .find(|mpirun| said(mpirun, "--version").is_some_and(|text| launches(&text, kind)))
}

fn launches(version: &str, kind: MpiKind) -> bool {
    let words: &[&str] = match kind {
        MpiKind::Openmpi => &["Open MPI", "OpenRTE", "PRRTE"],
        MpiKind::Mpich => &["HYDRA"],
    };
    words.iter().any(|word| version.contains(word))
}

/// Runs a program with one argument and returns its output on both streams; `None` if it cannot be
/// run.
fn said(program: &Path, word: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(word)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let both = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut all = env::split_paths(&path).map(|directory| directory.join(name));
    all.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_compilers_and_launchers() {
        let open = "mpicc.openmpi: Open MPI 4.1.4 (Language: C)\n";
        assert_eq!(after(open, "Open MPI ").as_deref(), Some("4.1.4"));
        let mpich = "mpicc for MPICH version 4.0.2\nUsing built-in specs.";
        assert_eq!(after(mpich, "MPICH version ").as_deref(), Some("4.0.2"));
        assert_eq!(after("gcc version 12", "Open MPI "), None);
        assert!(launches("mpirun.openmpi (OpenRTE) 4.1.4", MpiKind::Openmpi));
        assert!(launches(
            "HYDRA build details:\n Version: 4.0.2",
            MpiKind::Mpich
        ));
        assert!(!launches("HYDRA build details:", MpiKind::Openmpi));
    }

    #[test]
    fn a_missing_compiler_is_named_with_its_package() {
        let text = no_compiler(Some(MpiKind::Mpich), &[]);
        assert!(
            text.contains("no mpicc in PATH") && text.contains("libmpich-dev"),
            "{text}"
        );
        let text = no_compiler(Some(MpiKind::Openmpi), &[PathBuf::from("/usr/bin/mpicc")]);
        assert!(
            text.contains("/usr/bin/mpicc belongs to another library"),
            "{text}"
        );
    }
}
