//! Tests the choices of every shipped library: all members agree on the messages, and terminate.

use super::super::Member;
use super::chosen_by_size::group;
use crate::profile::{Library, Mpi, Overrides, Profile, ProfileKind};
use proptest::prelude::*;
use std::sync::LazyLock;

static LIBRARIES: LazyLock<Vec<Mpi>> = LazyLock::new(|| {
    let shipped = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let names = [
        "mvapich-0.9.9",
        "mvapich2",
        "openmpi-1.8",
        "openmpi-5",
        "mpich",
    ];
    let library = |name| match shipped.profile(ProfileKind::Mpi, name) {
        Some(Profile::Mpi(mpi)) => mpi.clone(),
        _ => panic!("{name} is shipped"),
    };
    names.map(library).into()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shipped_libraries_inform_all_required_ranks(
        size in 1..70usize, root in 0..70usize, power in 0..23u32, more in 0..1000u64) {
        let (root, bytes) = (root % size, (1 << power) - 1 + more);
        for library in LIBRARIES.iter() {
            let hears_all = |known: &[Vec<bool>]| known.iter().flatten().all(|known| *known);
            let root_heard = |known: &[Vec<bool>]| known[root].iter().all(|known| *known);
            let heard_root = |known: &[Vec<bool>]| known.iter().all(|known| known[root]);
            let play = |rounds: &dyn Fn(Member) -> Vec<super::super::Round>| group(size, rounds);
            prop_assert!(hears_all(&play(&|one| one.barrier_of(library))));
            prop_assert!(hears_all(&play(&|one| one.all_reduce(bytes, library))));
            prop_assert!(hears_all(&play(&|one| one.all_gather(bytes, library))));
            prop_assert!(hears_all(&play(&|one| one.all_to_all(bytes, library))));
            prop_assert!(hears_all(&play(&|one| one.reduce_scatter_of(bytes, library))));
            prop_assert!(heard_root(&play(&|one| one.broadcast(root, bytes, library))));
            prop_assert!(heard_root(&play(&|one| one.scatter_of(root, bytes, library))));
            prop_assert!(root_heard(&play(&|one| one.reduce_of(root, bytes, library))));
            prop_assert!(root_heard(&play(&|one| one.gather_of(root, bytes, library))));
        }
    }
}
