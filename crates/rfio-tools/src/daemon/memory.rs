//! Determines the memory available to the daemon: the machine's, or the limit of its control group
//! (cgroups(7)).

use std::fs;
use std::path::Path;

/// The default block cache is this fraction of the memory.
const PART: u64 = 16;
const LEAST: u64 = 256 << 20;
const MOST: u64 = 4 << 30;

/// Returns the default of `--cache`, in bytes.
pub fn default_cache() -> u64 {
    share(memory())
}

/// Returns a sixteenth of the memory; at least 256 MiB but no more than a quarter, and at most
/// 4 GiB, which is as much as readers of one machine use.
fn share(memory: u64) -> u64 {
    (memory / PART).clamp(LEAST.min(memory / 4), MOST)
}

/// Checks that a cache that is allocated at the start fits the memory: the kernel would end
/// processes otherwise.
///
/// # Errors
/// The reason, for the user.
pub fn check(cache: u64) -> Result<(), String> {
    match memory() {
        memory if cache > memory => Err(format!(
            "--cache is {cache} bytes, and this machine or control group has {memory}; give less, \
             or --cache-pages when-used"
        )),
        _ => Ok(()),
    }
}

fn memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = of_machine(&machine).unwrap_or(LEAST * PART);
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits(&group, Path::new("/sys/fs/cgroup")).fold(machine, u64::min)
}

/// Parses /proc/meminfo, whose unit is 1024 bytes.
fn of_machine(text: &str) -> Option<u64> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the memory limits of a control group and its ancestors. `groups` is the content of
/// /proc/PID/cgroup. In a container the group's own directory is the root.
fn limits(groups: &str, root: &Path) -> impl Iterator<Item = u64> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (hierarchy, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        files.extend(
            path.ancestors()
                .map(|group| hierarchy.join(group).join(name)),
        );
    }
    // "max" does not parse and so is no limit; a number above the machine's memory has no effect.
    files
        .into_iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_larger_than_the_memory_is_refused() {
        assert_eq!(check(memory()), Ok(()));
        let refused = check(u64::MAX).unwrap_err();
        assert!(refused.contains("--cache-pages when-used"), "{refused}");
    }

    #[test]
    fn the_default_cache_grows_with_memory_within_bounds() {
        const GIB: u64 = 1 << 30;
        assert_eq!(share(512 << 20), 128 << 20);
        assert_eq!(share(2 * GIB), 256 << 20);
        assert_eq!(share(24 * GIB), 24 * GIB / 16);
        assert_eq!(share(1024 * GIB), 4 * GIB);
    }

    #[test]
    fn total_memory_is_read_from_meminfo() {
        let text = "MemFree:  5 kB\nMemTotal:       24660188 kB\nMemFree:        1 kB\n";
        assert_eq!(of_machine(text), Some(24_660_188 << 10));
        assert_eq!(of_machine("MemTotal: many kB\n"), None);
        assert_eq!(of_machine(""), None);
    }

    #[test]
    fn the_tightest_cgroup_limit_applies() {
        let root = std::env::temp_dir().join(format!("verbena-cgroup-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("a/b/memory.max", "max\n");
        put("a/memory.max", "3000000\n");
        put("memory/c/memory.limit_in_bytes", "2000000\n");
        put("cpu/d/memory.limit_in_bytes", "1\n");
        let found = |groups| limits(groups, &root).min();
        assert_eq!(found("0::/a/b\n"), Some(3_000_000));
        assert_eq!(
            found("5:cpu:/d\n4:hugetlb,memory:/c\n0::/a\n"),
            Some(2_000_000)
        );
        assert_eq!(found("0::/elsewhere\nno line\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
