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

/// Returns that the command cannot use the adapter, and why, if so. `subcommand` is the one of
/// `verbena` that runs it.
pub fn obstacle(subcommand: &str, words: &[OsString]) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    starts_anew(subcommand, name, arguments).or_else(|| obstacle_of(name))
}

/// Options of env(1) that take a value.
const OF_ENV: [&str; 8] = [
    "u",
    "unset",
    "C",
    "chdir",
    "S",
    "split-string",
    "a",
    "argv0",
];
/// Options of su(1) and runuser(1) that take a value.
const OF_SU: [&str; 13] = [
    "c",
    "command",
    "session-command",
    "s",
    "shell",
    "g",
    "group",
    "G",
    "supp-group",
    "u",
    "user",
    "w",
    "whitelist-environment",
];

/// Options of systemd-run(1) that take a value, as far as they come before --scope in practice.
const OF_SYSTEMD_RUN: [&str; 15] = [
    "p",
    "property",
    "u",
    "unit",
    "slice",
    "description",
    "E",
    "setenv",
    "uid",
    "gid",
    "nice",
    "working-directory",
    "M",
    "machine",
    "host",
];

/// Returns that the programs that a command starts cannot use the adapter because they do not
/// inherit the variables of the dynamic linker, if so.
fn starts_anew(subcommand: &str, name: &OsStr, arguments: &[OsString]) -> Option<String> {
    let name = Path::new(name).file_name()?.to_str()?;
    // A word may be a whole command, as for ssh.
    let is_verbena = |word: &OsString| {
        let text = word.to_str().unwrap_or_default();
        let mut parts = text.split_whitespace().map(Path::new);
        parts.any(|part| part.file_name() == Some(OsStr::new("verbena")))
    };
    if arguments.iter().any(is_verbena) {
        return None;
    }
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let is_anew = match name {
        "sudo" | "doas" | "pkexec" | "ssh" | "machinectl" => true,
        // With --scope the program is a child with the same environment.
        "systemd-run" => {
            let mut options = leading(&words, &OF_SYSTEMD_RUN).into_iter();
            !options.any(|(name, _)| name == "scope")
        }
        "docker" | "podman" => {
            let first = words.first().copied();
            matches!(first, Some("run" | "exec" | "create" | "start"))
        }
        "env" => {
            let mut options = leading(&words, &OF_ENV).into_iter();
            options.any(|(name, value)| match name {
                "-" | "i" | "ignore-environment" => true,
                "u" | "unset" => value == "LD_PRELOAD",
                _ => false,
            })
        }
        "su" | "runuser" => {
            let mut options = leading(&words, &OF_SU).into_iter();
            options.any(|(name, _)| matches!(name, "-" | "l" | "login"))
        }
        _ => false,
    };
    is_anew.then(|| {
        format!(
            "the program that {name} starts will not use the adapter: {name} does not pass \
             LD_PRELOAD on; put {name} first: {name} ... verbena {subcommand} -- CMD"
        )
    })
}

/// Returns the options before the first other word, without dashes, each with its value; a single
/// dash is an option. `valued` are the options that take a value.
fn leading<'a>(words: &[&'a str], valued: &[&str]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if word == "-" {
            found.push((word, ""));
        } else if word == "--" {
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            found.push(match long.split_once('=') {
                Some(option) => option,
                None if valued.contains(&long) => (long, words.next().unwrap_or("")),
                None => (long, ""),
            });
        } else if let Some(letters) = word.strip_prefix('-') {
            for (at, letter) in letters.char_indices() {
                let end = at + letter.len_utf8();
                let (name, rest) = (&letters[at..end], &letters[end..]);
                if valued.contains(&name) {
                    let value = match rest {
                        "" => words.next().unwrap_or(""),
                        rest => rest,
                    };
                    found.push((name, value));
                    break;
                }
                found.push((name, ""));
            }
        } else {
            break;
        }
    }
    found
}

/// Returns that the program `name` cannot use the adapter, and why, if so.
fn obstacle_of(name: &OsStr) -> Option<String> {
    let path = found(name)?;
    let file = File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    let mode = metadata.permissions().mode();
    let changes_user = mode & SETUID != 0 && metadata.uid() != geteuid().as_raw();
    let changes_group = mode & SETGID != 0 && metadata.gid() != getegid().as_raw();
    if changes_user || changes_group {
        return Some(format!(
            "{} will not use the adapter: it changes its user (setuid), so the linker ignores \
             LD_PRELOAD",
            path.display()
        ));
    }
    // Root has all capabilities anyway, for which the kernel demands no secure execution.
    let mut none: [u8; 0] = [];
    if !getuid().is_root() && rustix::fs::getxattr(&path, CAPABILITIES, &mut none).is_ok() {
        return Some(format!(
            "{} will not use the adapter: it has file capabilities, so the linker ignores \
             LD_PRELOAD",
            path.display()
        ));
    }
    let mut beginning = Vec::new();
    file.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    is_static(&beginning).then(|| {
        let path = path.display();
        format!("{path} will not use the adapter: it is linked statically")
    })
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
            assert_eq!(starts_anew("run", OsStr::new(name), &[]), None);
        }
        for name in ["sh", "/bin/sh", "no-such-program"] {
            assert_eq!(obstacle("run", &[name.into()]), None);
        }
        assert_eq!(obstacle("run", &[]), None);
    }

    #[test]
    fn a_launcher_without_the_environment_is_an_obstacle() {
        for line in [
            "sudo -E x",
            "/usr/bin/sudo x",
            "env -i PATH=/bin x",
            "env -u HOME -vi x",
            "env -uLD_PRELOAD x",
            "env --chdir / --ignore-environment x",
            "su - root -c x",
            "su -s /bin/sh -l root",
            "systemd-run --user x",
            "ssh host x",
            "docker run image",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let text = obstacle("trace", &words).expect(line);
            assert!(text.contains("verbena trace -- CMD"), "{text}");
        }
        for line in [
            "env A=B x",
            "env -u i x -i",
            "su root -c x",
            "docker ps",
            "systemd-run --user --scope x",
            "sudo -E /usr/bin/verbena run -- x",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(starts_anew("run", &words[0], &words[1..]), None, "{line}");
        }
    }
}
