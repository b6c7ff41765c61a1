//! Saved machines of the user: `$XDG_CONFIG_HOME/verbena/machines/NAME.toml`.

use crate::Failure;
use crate::suggestion::did_you_mean;
use std::env;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use verbena_calibrate::anchor::SavedMachine;

/// Beginning of a model's name that refers to a saved machine.
pub const PREFIX: &str = "machine:";
/// Ending of the files.
const ENDING: &str = "toml";
/// Longest name in bytes.
const LONGEST: usize = 64;
/// Largest file in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the directory of the machines.
///
/// # Errors
///
/// Fails if neither XDG_CONFIG_HOME nor HOME is set.
pub fn directory() -> Result<PathBuf, Failure> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|path| path.is_absolute());
    let config = config.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
    match config {
        Some(config) => Ok(config.join("verbena/machines")),
        None => Err(Failure::Input(
            "no directory for machines: set XDG_CONFIG_HOME or HOME".to_owned(),
        )),
    }
}

/// Checks a name.
fn check(name: &str) -> Result<(), Failure> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_sound = !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match is_sound {
        true => Ok(()),
        false => Err(Failure::Input(format!(
            "{name:?} is no name for a machine: use up to {LONGEST} letters, digits, `.`, `_`, `-`"
        ))),
    }
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.{ENDING}"))
}

/// Returns the names of the machines, sorted; none if there is no directory.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub fn names(directory: &Path) -> Result<Vec<String>, Failure> {
    let failed = |source| Failure::Directory {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let is_ours = path.extension().is_some_and(|ending| ending == ENDING);
        names.extend(
            name.filter(|name| is_ours && check(name).is_ok())
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// Loads a machine.
///
/// # Errors
///
/// Fails if there is none of this name, or its file is invalid.
pub fn load(directory: &Path, name: &str) -> Result<SavedMachine, Failure> {
    check(name)?;
    let path = path(directory, name);
    let wrong = |reason: String| Failure::Input(format!("{}: {reason}", path.display()));
    let file = match fs::File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown(directory, name)),
        file => file.map_err(|error| wrong(error.to_string()))?,
    };
    let mut text = String::new();
    let read = file.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    SavedMachine::parse(&text).map_err(wrong)
}

/// Returns the failure for a name without a machine.
fn unknown(directory: &Path, name: &str) -> Failure {
    let known = names(directory).unwrap_or_default();
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    Failure::Input(format!(
        "no machine {name:?}{meant}; `verbena machine list` names the saved ones"
    ))
}

/// Saves a machine, and returns its file. An existing one is kept unless `replaces`.
///
/// # Errors
///
/// Fails on an invalid name, on an existing machine, or if the file cannot be written.
pub fn save(
    directory: &Path,
    name: &str,
    machine: &SavedMachine,
    replaces: bool,
) -> Result<PathBuf, Failure> {
    check(name)?;
    fs::create_dir_all(directory).map_err(|source| Failure::Directory {
        path: directory.to_owned(),
        source,
    })?;
    let path = path(directory, name);
    let scratch = directory.join(format!(".{name}.{}", std::process::id()));
    let written = written(&scratch, &path, &machine.text(), replaces);
    let _ = fs::remove_file(&scratch);
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::Input(format!(
            "there is a machine {name:?} already; give another name, or --replace"
        ))),
        written => written.map(|()| path).map_err(|source| Failure::System {
            doing: "save the machine",
            source,
        }),
    }
}

/// Writes a file as a whole or not at all.
fn written(scratch: &Path, path: &Path, text: &str, replaces: bool) -> io::Result<()> {
    let mut file = fs::File::create(scratch)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    match replaces {
        true => fs::rename(scratch, path),
        // A link, unlike a rename, fails if the name is taken.
        false => fs::hard_link(scratch, path),
    }
}

/// Removes a machine.
///
/// # Errors
///
/// Fails if there is none of this name, or it cannot be removed.
pub fn remove(directory: &Path, name: &str) -> Result<(), Failure> {
    check(name)?;
    match fs::remove_file(path(directory, name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown(directory, name)),
        removed => removed.map_err(|source| Failure::System {
            doing: "remove the machine",
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_calibrate::anchor::Measured;

    #[test]
    fn machines_are_saved_listed_and_removed() {
        let name = format!("verbena-machines-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        assert_eq!(names(&directory).unwrap(), Vec::<String>::new());
        let measured = Measured::of(&["latency.write:8=1.88us"]).unwrap();
        let machine = SavedMachine::new("connectx6-hdr", &[], &measured);
        save(&directory, "mine", &machine, false).unwrap();
        let again = save(&directory, "mine", &machine, false).unwrap_err();
        assert!(again.to_string().contains("--replace"), "{again}");
        save(&directory, "mine", &machine, true).unwrap();
        assert_eq!(names(&directory).unwrap(), ["mine"]);
        assert_eq!(load(&directory, "mine").unwrap(), machine);
        let wrong = load(&directory, "mime").unwrap_err();
        assert!(wrong.to_string().contains("mine"), "{wrong}");
        for name in ["", "../mine", ".mine", "a b", "a/b"] {
            assert!(save(&directory, name, &machine, true).is_err(), "{name}");
        }
        remove(&directory, "mine").unwrap();
        assert!(remove(&directory, "mine").is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(directory).unwrap();
    }
}
