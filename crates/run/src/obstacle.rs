//! Detects commands that cannot use the adapter: the program's dynamic linker loads it, so a
//! program without one, or whose linker ignores the environment, never does, and neither does a
//! program that is started without the environment.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid, getuid};

/// Bytes of a file to read: the header and the program headers that linkers place directly after
/// it.
const BEGINNING: u64 = 4096;
/// Type of the program header that names the dynamic linker (elf(5), PT_INTERP).
const INTERPRETER: u32 = 3;

/// Bits of a file's mode (inode(7)).
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// Extended attribute with the capabilities of a program (capabilities(7)).
const CAPABILITIES: &str = "security.capability";

/// Returns why the command cannot use the adapter, if so.
pub fn obstacle(words: &[OsString]) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    starts_anew(name, arguments).or_else(|| obstacle_of(name))
}

/// Returns why the programs that a command starts do not inherit the variables of the dynamic
/// linker, if so.
fn starts_anew(name: &OsStr, arguments: &[OsString]) -> Option<String> {
    let name = Path::new(name).file_name()?.to_str()?;
    let first = arguments.first().and_then(|word| word.to_str());
    let is_anew = match name {
        "sudo" | "doas" | "pkexec" | "ssh" | "systemd-run" | "machinectl" => true,
        "docker" | "podman" => matches!(first, Some("run" | "exec" | "create" | "start")),
        "env" => matches!(first, Some("-" | "-i" | "--ignore-environment")),
        "su" | "runuser" => matches!(first, Some("-" | "-l" | "--login")),
        _ => false,
    };
    is_anew.then(|| {
        format!(
            "{name} does not pass LD_PRELOAD to the program that it starts, so put it first: \
             {name} ... verbena run -- CMD"
        )
    })
}

/// Returns why the program `name` cannot use the adapter, if so.
fn obstacle_of(name: &OsStr) -> Option<String> {
    let path = found(name)?;
    let file = File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    let mode = metadata.permissions().mode();
    let changes_user = mode & SETUID != 0 && metadata.uid() != geteuid().as_raw();
    let changes_group = mode & SETGID != 0 && metadata.gid() != getegid().as_raw();
    if changes_user || changes_group {
        return Some(format!(
            "{} changes its user (setuid), so the linker ignores LD_PRELOAD",
            path.display()
        ));
    }
    // Root has all capabilities anyway, for which the kernel demands no secure execution.
    let mut none: [u8; 0] = [];
    if !getuid().is_root() && rustix::fs::getxattr(&path, CAPABILITIES, &mut none).is_ok() {
        return Some(format!(
            "{} has file capabilities, so the linker ignores LD_PRELOAD",
            path.display()
        ));
    }
    let mut beginning = Vec::new();
    file.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    is_static(&beginning).then(|| format!("{} is linked statically", path.display()))
}

/// Returns the path at which execvp(3) would find the program.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether these are the first bytes of a 64-bit program without a dynamic linker. A script
/// is not one.
fn is_static(beginning: &[u8]) -> bool {
    let half = |at: usize| {
        let bytes = beginning.get(at..at + 2)?;
        Some(usize::from(u16::from_le_bytes(bytes.try_into().ok()?)))
    };
    let kind = |at: usize| {
        let bytes = beginning.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    // Magic number, 64 bits, little-endian.
    if !beginning.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    // e_phoff, of which linkers use at most four bytes; e_phentsize; e_phnum.
    let (Some(at), Some(size), Some(count)) = (kind(32), half(54), half(56)) else {
        return false;
    };
    let headers = (0..count).map(|index| kind(at as usize + index * size));
    // Headers beyond the bytes read cannot be checked and count as a dynamic linker.
    headers
        .map(|kind| kind.unwrap_or(INTERPRETER))
        .all(|kind| kind != INTERPRETER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with one header of a type.
    fn program(kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    #[test]
    fn only_a_program_without_an_interpreter_is_static() {
        assert!(is_static(&program(1)));
        assert!(!is_static(&program(INTERPRETER)));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(&program(1)[..66]));
        assert!(!is_static(b""));
    }

    #[test]
    fn no_obstacle_is_reported_for_the_shell() {
        for name in ["sh", "/bin/sh", "no-such-program", "env", "su"] {
            assert_eq!(starts_anew(OsStr::new(name), &[]), None);
        }
        for name in ["sh", "/bin/sh", "no-such-program"] {
            assert_eq!(obstacle(&[name.into()]), None);
        }
        assert_eq!(obstacle(&[]), None);
    }

    #[test]
    fn a_launcher_without_the_environment_is_an_obstacle() {
        for line in [
            "sudo -E x",
            "/usr/bin/sudo x",
            "env -i PATH=/bin x",
            "su - root -c x",
            "ssh host x",
            "docker run image",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let text = obstacle(&words).expect(line);
            assert!(text.contains("verbena run -- CMD"), "{text}");
        }
        for line in ["env A=B x", "su root -c x", "docker ps"] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(starts_anew(&words[0], &words[1..]), None, "{line}");
        }
    }
}
