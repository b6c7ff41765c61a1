//! The memory that the control groups of this process leave to it (cgroups(7)).

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Limits from which version 1 means "no limit": it has the largest number of pages instead of a
/// word.
const UNLIMITED: u64 = 1 << 60;

/// The files of a version's memory controller.
struct Controller {
    limit: &'static str,
    usage: &'static str,
    /// Name of the pages that the kernel gives up first, in `memory.stat`.
    reclaimable: &'static str,
}

const VERSION_1: Controller = Controller {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

const VERSION_2: Controller = Controller {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};

/// Returns the bytes that this process may still use below the limits of its control groups and of
/// all above; `None` without a limit. `root` is the directory with `proc` and `sys`.
pub(crate) fn available(root: &Path) -> Option<u64> {
    let groups = read_to_string(root.join("proc/self/cgroup")).ok()?;
    let left = groups.lines().flat_map(|line| of_group(root, line));
    left.min()
}

/// Returns the bytes that the groups on the path of a line of `/proc/self/cgroup` leave.
fn of_group(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let mounted = root.join("sys/fs/cgroup");
    let (controller, mounts) = match controllers {
        // Systems with both versions mount the second one below the first.
        "" => (VERSION_2, vec![mounted.clone(), mounted.join("unified")]),
        names if names.split(',').any(|name| name == "memory") => {
            (VERSION_1, vec![mounted.join("memory")])
        }
        _ => return Vec::new(),
    };
    let groups = mounts.iter().flat_map(|mount| upwards(mount, path));
    groups
        .filter_map(|group| controller.left_of(&group))
        .collect()
}

/// Returns the directories of a group and of all above, up to the mount.
fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let own = Path::new(path.trim_start_matches('/'));
    own.ancestors().map(|group| mount.join(group)).collect()
}

impl Controller {
    /// Returns the bytes that a group leaves; `None` without a limit.
    fn left_of(&self, group: &Path) -> Option<u64> {
        let number = |file: &str| {
            let text = read_to_string(group.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let limit = number(self.limit).filter(|limit| *limit < UNLIMITED)?;
        let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
        let reclaimable = stat.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            value.parse().ok().filter(|_| name == self.reclaimable)
        });
        let used = number(self.usage)?.saturating_sub(reclaimable.unwrap_or(0));
        Some(limit.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// A directory with files, removed at the end.
    struct Root(PathBuf);

    impl Root {
        fn of(name: &str, files: &[(&str, &str)]) -> Root {
            let process = std::process::id();
            let root = std::env::temp_dir().join(format!("control-group-{name}-{process}"));
            for (file, text) in files {
                let file = root.join(file);
                create_dir_all(file.parent().unwrap()).unwrap();
                write(file, text).unwrap();
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_smallest_rest_of_all_groups_above_counts() {
        let root = Root::of(
            "second",
            &[
                ("proc/self/cgroup", "0::/job/step\n"),
                ("sys/fs/cgroup/job/step/memory.max", "max\n"),
                ("sys/fs/cgroup/job/step/memory.current", "10\n"),
                ("sys/fs/cgroup/job/memory.max", "1000\n"),
                ("sys/fs/cgroup/job/memory.current", "700\n"),
                (
                    "sys/fs/cgroup/job/memory.stat",
                    "anon 500\ninactive_file 150\n",
                ),
            ],
        );
        assert_eq!(available(&root.0), Some(450));
    }

    #[test]
    fn version_1_has_a_directory_of_its_own_and_a_large_number_for_no_limit() {
        let limit = |number: &str| {
            let root = Root::of(
                "first",
                &[
                    ("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/a\n0::/\n"),
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", number),
                    ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "600\n"),
                    (
                        "sys/fs/cgroup/memory/a/memory.stat",
                        "inactive_file 1\ntotal_inactive_file 100\n",
                    ),
                ],
            );
            available(&root.0)
        };
        assert_eq!(limit("2000\n"), Some(1500));
        assert_eq!(limit("400\n"), Some(0));
        assert_eq!(limit("9223372036854771712\n"), None);
    }

    #[test]
    fn a_system_without_control_groups_has_no_limit() {
        let root = Root::of("none", &[("proc/self/other", "")]);
        assert_eq!(available(&root.0), None);
    }
}
