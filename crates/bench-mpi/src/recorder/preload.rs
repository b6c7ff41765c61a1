//! Preloads the recorder's library.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Preloads a library before those that the command preloads already.
pub fn put_before(command: &mut Command, library: &Path) {
    let others = command.get_envs().find(|(name, _)| *name == PRELOAD);
    let others = others.and_then(|(_, value)| value).map(OsStr::to_owned);
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others {
        all.push(":");
        all.push(others);
    }
    command.env(PRELOAD, all);
}

const PRELOAD: &str = "LD_PRELOAD";
