//! Processor topology of a host from sysfs (Linux' ABI/stable/sysfs-devices-system-cpu and
//! sysfs-devices-node): which processors are threads of one core, and which are on the NUMA node of
//! the adapter.

use std::fs;
use std::path::Path;

/// The sysfs directory of processors and nodes.
pub const SYSTEM: &str = "/sys/devices/system";

/// Returns processors in the order in which measuring processes should use them: one thread of each
/// core before the second thread of any, because both spin and would halve each other's speed;
/// among those, processors on the adapter's node `near` first. Without data in sysfs the order is
/// unchanged.
pub fn in_order_of_use(processors: &[usize], near: Option<u32>, system: &Path) -> Vec<usize> {
    let node = near.map_or_else(Vec::new, |near| {
        list(&system.join(format!("node/node{near}/cpulist")))
    });
    let mut ordered = processors.to_vec();
    ordered.sort_by_key(|processor| {
        let siblings =
            list(&system.join(format!("cpu/cpu{processor}/topology/thread_siblings_list")));
        // If the launcher left only some threads of a core, the first available one counts as the
        // first.
        let mut ours = siblings
            .iter()
            .filter(|sibling| processors.contains(sibling));
        let thread = ours.position(|sibling| sibling == processor).unwrap_or(0);
        (thread, !node.contains(processor))
    });
    ordered
}

/// Reads a list of numbers and ranges, `0-3,8`; empty if the file is missing or malformed.
fn list(path: &Path) -> Vec<usize> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let ranges = text.trim().split(',').map(range);
    ranges
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default()
        .concat()
}

fn range(text: &str) -> Option<Vec<usize>> {
    const MOST: usize = libc::CPU_SETSIZE as usize;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < MOST).then(|| (first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A host with `nodes` nodes of `cores` cores with two threads each, in Linux's numbering: the
    /// first threads of all cores first.
    fn host(nodes: usize, cores: usize) -> PathBuf {
        let name = format!("verbena-topology-{nodes}-{cores}-{}", std::process::id());
        let system = std::env::temp_dir().join(name);
        let all = nodes * cores;
        for core in 0..all {
            for thread in [core, core + all] {
                let topology = system.join(format!("cpu/cpu{thread}/topology"));
                fs::create_dir_all(&topology).unwrap();
                let siblings = format!("{core},{}\n", core + all);
                fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
            }
        }
        for node in 0..nodes {
            let directory = system.join(format!("node/node{node}"));
            fs::create_dir_all(&directory).unwrap();
            let (first, last) = (node * cores, (node + 1) * cores - 1);
            let cpus = format!("{first}-{last},{}-{}\n", first + all, last + all);
            fs::write(directory.join("cpulist"), cpus).unwrap();
        }
        system
    }

    #[test]
    fn cores_precede_hyperthreads_and_near_nodes_come_first() {
        let system = host(2, 2);
        let all: Vec<usize> = (0..8).collect();
        let of = |processors: &[usize], near| in_order_of_use(processors, near, &system);
        assert_eq!(of(&all, None), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(&all, Some(1)), [2, 3, 0, 1, 6, 7, 4, 5]);
        // A launcher left one core and the second thread of another.
        assert_eq!(of(&[0, 4, 7], None), [0, 7, 4]);
        assert_eq!(of(&[0, 4, 7], Some(1)), [7, 0, 4]);
        // A missing node contains no processor.
        assert_eq!(of(&all, Some(9)), all);
        fs::remove_dir_all(system).unwrap();
    }

    #[test]
    fn an_unknown_topology_keeps_the_order() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(in_order_of_use(&[3, 1, 2], Some(0), nowhere), [3, 1, 2]);
    }

    #[test]
    fn malformed_cpu_lists_are_refused() {
        assert_eq!(range("3-5"), Some(vec![3, 4, 5]));
        assert_eq!(range("7"), Some(vec![7]));
        for text in ["", "a", "5-3", "1-", "-", "0-4294967295", "1-2-3"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
