//! Checks the installed RDMA components: the kernel's adapters, the libraries that programs are
//! linked against, and test programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::finding::Finding;

const ADAPTERS: &str = "/sys/class/infiniband";

pub fn findings() -> Vec<Finding> {
    vec![
        adapters(Path::new(ADAPTERS)),
        library(
            "libibverbs",
            "libibverbs.so.1",
            "none needed: `verbena run` provides Verbena's; the system's is for RDMA hardware",
        ),
        library(
            "librdmacm",
            "librdmacm.so.1",
            "programs that use rdma_connect need it: install librdmacm1 (Debian), \
             librdmacm (Fedora)",
        ),
        programs(
            "ping-pongs",
            &["ibv_rc_pingpong", "ibv_devinfo"],
            "install ibverbs-utils (Debian), libibverbs-utils (Fedora) to try the adapter",
        ),
        programs(
            "perftest",
            &["ib_write_bw", "ib_write_lat"],
            "install perftest to use its benchmarks; `verbena bench` does not need it",
        ),
    ]
}

fn adapters(place: &Path) -> Finding {
    let subject = "adapters";
    let mut names: Vec<String> = fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() {
        return Finding::missing(subject, "the kernel has no RDMA adapter")
            .advise("none needed: `verbena run` provides one in software");
    }
    Finding::ok(
        subject,
        format!("{}: `--on hardware:DEVICE` measures one", names.join(", ")),
    )
}

/// Reports where the dynamic linker would find a library; the file name includes the version.
fn library(subject: &'static str, name: &str, advice: &str) -> Finding {
    match places()
        .iter()
        .map(|place| place.join(name))
        .find(|file| file.exists())
    {
        Some(file) => {
            let real = file.canonicalize().unwrap_or(file);
            Finding::ok(subject, real.display().to_string())
        }
        None => Finding::missing(subject, format!("no {name} among the system's libraries"))
            .advise(advice),
    }
}

/// Returns the dynamic linker's directories: those in its cache, then its defaults (ld.so(8)).
fn places() -> Vec<PathBuf> {
    let architecture = env::consts::ARCH;
    let mut places: Vec<PathBuf> = ["/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .iter()
        .find_map(|ldconfig| Command::new(ldconfig).arg("-p").output().ok())
        .map(|output| cached(&String::from_utf8_lossy(&output.stdout)))
        .unwrap_or_default();
    for known in ["/lib64", "/usr/lib64", "/lib", "/usr/lib"] {
        places.push(known.into());
        places.push(format!("{known}/{architecture}-linux-gnu").into());
    }
    places
}

/// Returns the directories in the output of `ldconfig -p`.
fn cached(text: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in text.lines() {
        let file = line
            .split_once(" => ")
            .map(|(_, file)| Path::new(file.trim()));
        let place = file.and_then(Path::parent).map(Path::to_path_buf);
        if let Some(place) = place.filter(|place| !found.contains(place)) {
            found.push(place);
        }
    }
    found
}

fn programs(subject: &'static str, names: &[&str], advice: &str) -> Finding {
    let path = env::var_os("PATH").unwrap_or_default();
    let find = |name: &&str| {
        env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|file| file.is_file())
    };
    let (found, absent): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| find(name).is_some());
    match absent.as_slice() {
        [] => {
            let first = names.first().and_then(find);
            let version = first.as_deref().and_then(version);
            let version =
                version.map_or_else(String::new, |version| format!(", version {version}"));
            Finding::ok(subject, format!("{}{version}", found.join(", ")))
        }
        absent => {
            Finding::missing(subject, format!("no {} in PATH", absent.join(", "))).advise(advice)
        }
    }
}

/// Returns the version that a perftest program prints; other programs do not print one.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("Version:"))?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linker_cache_directories_keep_their_order() {
        let text = "3 libs found in cache `/etc/ld.so.cache'\n\
            \tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1\n\
            \tliba.so (libc6,x86-64) => /opt/a/lib/liba.so\n\
            \tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6\n\
            Cache generated by: ldconfig\n";
        let expected: [PathBuf; 2] = ["/lib/x86_64-linux-gnu".into(), "/opt/a/lib".into()];
        assert_eq!(cached(text), expected);
    }

    #[test]
    fn adapters_are_named() {
        let place = env::temp_dir().join(format!("verbena-adapters-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        use crate::doctor::finding::State;
        assert_eq!(adapters(&place).state, State::Missing);
        for name in ["mlx5_1", "mlx5_0"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        let found = adapters(&place);
        assert_eq!(found.state, State::Ok);
        assert!(found.found.starts_with("mlx5_0, mlx5_1: "), "{found:?}");
        fs::remove_dir_all(place).unwrap();
    }
}
