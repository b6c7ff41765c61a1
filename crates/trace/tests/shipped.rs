//! The shipped traces are those that papers/traces/README.md tells of: LAMMPS of other than 20 steps, or a section elsewhere, has other sums.

use std::path::Path;
use verbena_trace::{Summary, Trace};

/// Calls, messages, their bytes, and bytes given to collective operations.
const SHIPPED: [(&str, [u64; 4]); 14] = [
    ("hpl-1", [6, 0, 0, 0]),
    ("hpl-16", [283_944, 95_881, 57_055_342_624, 0]),
    ("hpl-2", [577, 226, 844_581_768, 0]),
    ("hpl-26", [390_258, 132_311, 148_531_279_816, 0]),
    ("hpl-4", [128_312, 43_028, 4_252_186_592, 0]),
    ("hpl-8", [187_984, 63_243, 14_535_006_904, 0]),
    ("lammps-rhodo-1", [161, 0, 0, 5_144]),
    ("lammps-rhodo-16", [83_200, 27_088, 405_128_760, 82_304]),
    ("lammps-rhodo-2", [2_266, 656, 72_335_728, 10_288]),
    ("lammps-rhodo-4", [9_260, 2_904, 185_601_072, 20_576]),
    ("lammps-rhodo-8", [32_476, 10_492, 292_811_336, 41_152]),
    ("nas-is-2", [64, 0, 0, 335_626_720]),
    ("nas-is-4", [128, 0, 0, 335_709_120]),
    ("nas-is-8", [256, 0, 0, 335_873_920]),
];

#[test]
fn shipped_traces_come_to_what_is_told_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/traces");
    for (name, expected) in SHIPPED {
        let trace = Trace::open(&folder.join(format!("{name}.trace"))).unwrap();
        let all = Summary::of(&trace).all;
        let found = [all.calls, all.messages, all.bytes, all.collective_bytes];
        assert_eq!(found, expected, "{name}");
    }
}
