//! Compares the shipped libraries' choices of collective algorithms with their sources.

use verbena_model::profile::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Library, Mpi, Overrides, Profile,
    ProfileKind, Reduce, ReduceScatter, Rooted,
};

fn library(name: &str) -> Mpi {
    let shipped = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    match shipped.profile(ProfileKind::Mpi, name) {
        Some(Profile::Mpi(mpi)) => mpi.clone(),
        _ => panic!("{name} is shipped"),
    }
}

macro_rules! chosen {
    ($library:expr, $operation:ident, $bytes:expr, $ranks:expr) => {{
        let choice = $library.collectives.$operation.of($bytes, $ranks);
        let choice = choice.expect("there is one for every message");
        (choice.algorithm, choice.segment.map(|bytes| bytes.0))
    }};
}

#[test]
fn a_library_without_choices_selects_no_algorithm() {
    let mvapich = library("mvapich-0.9.9");
    assert!(mvapich.collectives.all_reduce.of(8, 4).is_none());
}

/// coll_tuned_decision_fixed.c of Open MPI 1.6.5.
#[test]
fn open_mpi_1_8_chooses_its_published_algorithms() {
    let open = library("openmpi-1.8");
    assert_eq!(chosen!(open, barrier, 0, 8).0, Barrier::RecursiveDoubling);
    assert_eq!(chosen!(open, barrier, 0, 12).0, Barrier::Dissemination);
    assert_eq!(
        chosen!(open, all_reduce, 9999, 16).0,
        AllReduce::RecursiveDoubling
    );
    assert_eq!(chosen!(open, all_reduce, 10_000, 16).0, AllReduce::Ring);
    assert_eq!(
        chosen!(open, all_reduce, 10_000, 2000).0,
        AllReduce::ReduceBroadcast
    );
    let sixteen = 16 << 20;
    assert_eq!(chosen!(open, all_reduce, sixteen, 16).0, AllReduce::Ring);
    assert_eq!(
        chosen!(open, all_reduce, sixteen + 16, 16),
        (AllReduce::SegmentedRing, Some(1 << 20))
    );
    assert_eq!(chosen!(open, broadcast, 2047, 16).0, Broadcast::Knomial);
    assert_eq!(
        chosen!(open, broadcast, 2048, 16),
        (Broadcast::SplitBinary, Some(1024))
    );
    // From 8.6 MB on, 16 ranks are fewer than 2.1102 + 1.6134e-6 per byte.
    assert_eq!(
        chosen!(open, broadcast, 9_000_000, 16),
        (Broadcast::Chain, Some(131_072))
    );
    assert_eq!(
        chosen!(open, broadcast, 8_000_000, 16),
        (Broadcast::Chain, Some(65_536))
    );
    assert_eq!(
        chosen!(open, broadcast, 1_000_000, 12),
        (Broadcast::SplitBinary, Some(8192))
    );
    assert_eq!(
        chosen!(open, broadcast, 400_000, 13),
        (Broadcast::Chain, Some(8192))
    );
    assert_eq!(chosen!(open, reduce, 511, 7).0, Reduce::Linear);
    assert_eq!(
        chosen!(open, reduce, 4096, 16),
        (Reduce::Knomial, Some(1024))
    );
    assert_eq!(
        chosen!(open, reduce, 65_536, 16),
        (Reduce::Chain, Some(1024))
    );
    assert_eq!(
        chosen!(open, reduce, 1 << 20, 64),
        (Reduce::Chain, Some(1024))
    );
    assert_eq!(
        chosen!(open, all_gather, 3124, 16).0,
        AllGather::RecursiveDoubling
    );
    assert_eq!(
        chosen!(open, all_gather, 3125, 16).0,
        AllGather::NeighborExchange
    );
    assert_eq!(chosen!(open, all_gather, 1000, 15).0, AllGather::Bruck);
    assert_eq!(chosen!(open, all_gather, 10_000, 15).0, AllGather::Ring);
    assert_eq!(chosen!(open, all_to_all, 199, 13).0, AllToAll::Bruck);
    assert_eq!(chosen!(open, all_to_all, 199, 12).0, AllToAll::Linear);
    assert_eq!(chosen!(open, all_to_all, 3000, 12).0, AllToAll::Pairwise);
    assert_eq!(
        chosen!(open, reduce_scatter, 1 << 14, 16).0,
        ReduceScatter::RecursiveHalving
    );
    assert_eq!(
        chosen!(open, reduce_scatter, 1 << 14, 12).0,
        ReduceScatter::Ring
    );
    assert_eq!(chosen!(open, scatter, 299, 11).0, Rooted::Binomial);
    assert_eq!(chosen!(open, gather, 6000, 61).0, Rooted::Binomial);
    assert_eq!(chosen!(open, gather, 6000, 60).0, Rooted::Linear);
}

/// coll_tuned_decision_fixed.c of Open MPI 5.0.
#[test]
fn open_mpi_5_chooses_its_published_algorithms() {
    let open = library("openmpi-5");
    for (ranks, barrier) in [
        (3, Barrier::RecursiveDoubling),
        (4, Barrier::Linear),
        (63, Barrier::RecursiveDoubling),
        (64, Barrier::Dissemination),
        (256, Barrier::Tree),
        (4096, Barrier::Dissemination),
    ] {
        assert_eq!(chosen!(open, barrier, 0, ranks).0, barrier, "{ranks}");
    }
    assert_eq!(
        chosen!(open, all_reduce, 8191, 8).0,
        AllReduce::RecursiveDoubling
    );
    assert_eq!(
        chosen!(open, all_reduce, 8192, 8).0,
        AllReduce::Rabenseifner
    );
    assert_eq!(
        chosen!(open, all_reduce, 100_000, 200).0,
        AllReduce::ReduceBroadcast
    );
    assert_eq!(chosen!(open, all_reduce, 65_536, 2).0, AllReduce::Ring);
    assert_eq!(
        chosen!(open, broadcast, 1 << 20, 16).0,
        Broadcast::ScatterDoubling
    );
    assert_eq!(
        chosen!(open, broadcast, 20_000, 512).0,
        Broadcast::SplitBinary
    );
    assert_eq!(chosen!(open, broadcast, 16, 3), (Broadcast::Chain, None));
    assert_eq!(chosen!(open, reduce, 1 << 20, 8).0, Reduce::Knomial);
    assert_eq!(
        chosen!(open, all_gather, 1 << 20, 31).0,
        AllGather::RecursiveDoubling
    );
    assert_eq!(
        chosen!(open, all_gather, 4096, 48).0,
        AllGather::NeighborExchange
    );
    assert_eq!(chosen!(open, all_gather, 65_536, 48).0, AllGather::Ring);
    assert_eq!(chosen!(open, all_to_all, 511, 32).0, AllToAll::Bruck);
    assert_eq!(chosen!(open, all_to_all, 512, 32).0, AllToAll::Linear);
    assert_eq!(
        chosen!(open, all_to_all, 1 << 20, 300).0,
        AllToAll::Pairwise
    );
    // By the size of all ranks' data together.
    assert_eq!(
        chosen!(open, reduce_scatter, 16_383, 16).0,
        ReduceScatter::RecursiveHalving
    );
    assert_eq!(
        chosen!(open, reduce_scatter, 16_384, 16).0,
        ReduceScatter::Ring
    );
    assert_eq!(chosen!(open, scatter, 16_384, 9).0, Rooted::Linear);
    assert_eq!(chosen!(open, gather, 1 << 20, 9).0, Rooted::Binomial);
}

/// MPICH's variables and generic.json.
#[test]
fn mpich_chooses_its_published_algorithms() {
    let mpich = library("mpich");
    assert_eq!(chosen!(mpich, broadcast, 12_287, 16).0, Broadcast::Binomial);
    assert_eq!(chosen!(mpich, broadcast, 1 << 20, 7).0, Broadcast::Binomial);
    assert_eq!(
        chosen!(mpich, broadcast, 12_288, 16).0,
        Broadcast::ScatterDoubling
    );
    assert_eq!(
        chosen!(mpich, broadcast, 12_288, 15).0,
        Broadcast::ScatterRing
    );
    assert_eq!(
        chosen!(mpich, broadcast, 524_288, 16).0,
        Broadcast::ScatterRing
    );
    assert_eq!(
        chosen!(mpich, all_reduce, 2048, 16).0,
        AllReduce::RecursiveDoubling
    );
    assert_eq!(
        chosen!(mpich, all_reduce, 2049, 16).0,
        AllReduce::Rabenseifner
    );
    assert_eq!(
        chosen!(mpich, all_reduce, 4096, 1024).0,
        AllReduce::RecursiveDoubling
    );
    assert_eq!(
        chosen!(mpich, all_gather, 32_767, 16).0,
        AllGather::RecursiveDoubling
    );
    assert_eq!(chosen!(mpich, all_gather, 32_768, 16).0, AllGather::Ring);
    assert_eq!(chosen!(mpich, all_gather, 5000, 15).0, AllGather::Bruck);
    assert_eq!(chosen!(mpich, all_to_all, 256, 8).0, AllToAll::Bruck);
    assert_eq!(chosen!(mpich, all_to_all, 256, 7).0, AllToAll::Linear);
    assert_eq!(chosen!(mpich, all_to_all, 32_769, 8).0, AllToAll::Pairwise);
}
