//! The shipped traces match papers/traces/README.md: LAMMPS with another number of steps, or
//! another section, has other sums.

use std::path::Path;
use verbena_mpi_trace::{Summary, Trace};

/// Calls, messages, their bytes, and bytes given to collective operations.
const SHIPPED: [(&str, [u64; 4]); 28] = [
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
    ("lattice-qcd-1", [25, 0, 0, 176]),
    ("lattice-qcd-16", [6_736, 2_816, 103_809_024, 2_816]),
    ("lattice-qcd-2", [490, 176, 17_301_504, 352]),
    ("lattice-qcd-4", [980, 352, 34_603_008, 704]),
    ("lattice-qcd-8", [3_368, 1_408, 69_206_016, 1_408]),
    ("nas-cg-2", [7_116, 2_370, 43_692_960, 16]),
    ("nas-cg-4", [16_572, 5_520, 131_065_920, 32]),
    ("nas-cg-8", [61_584, 20_520, 218_503_680, 64]),
    ("nas-is-2", [64, 0, 0, 335_626_720]),
    ("nas-is-4", [128, 0, 0, 335_709_120]),
    ("nas-is-8", [256, 0, 0, 335_873_920]),
    ("nas-lu-2", [2_548, 1_260, 9_628_800, 96]),
    ("nas-lu-4", [10_176, 5_040, 19_257_600, 192]),
    ("nas-lu-8", [25_432, 12_600, 38_515_200, 384]),
    ("nas-mg-2", [1_126, 372, 36_477_568, 48]),
    ("nas-mg-4", [4_484, 1_488, 72_955_136, 96]),
    ("nas-mg-8", [13_432, 4_464, 109_444_608, 192]),
];

#[test]
fn shipped_traces_have_the_documented_totals() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/traces");
    for (name, expected) in SHIPPED {
        let trace = Trace::open(&folder.join(format!("{name}.trace"))).unwrap();
        let all = Summary::of(&trace).all;
        let found = [all.calls, all.messages, all.bytes, all.collective_bytes];
        assert_eq!(found, expected, "{name}");
    }
}
