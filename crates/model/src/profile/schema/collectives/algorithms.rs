//! The algorithms of each collective operation, as profiles name them. `mpi/rounds` implements
//! them.

/// An algorithm of an operation.
pub trait Algorithm: Copy + 'static {
    /// The words for the algorithms in a profile.
    const WORDS: &'static [(&'static str, Self)];
    /// Returns the additional keys of a choice that this algorithm uses.
    fn takes(self) -> &'static [&'static str];
}

/// Declares an operation's algorithms: each one's word in a file, and the keys that it uses.
macro_rules! algorithms {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$own:meta])* $variant:ident = $word:literal $([$($takes:literal),*])?),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$own])* $variant),* }

        impl Algorithm for $name {
            const WORDS: &'static [(&'static str, $name)] = &[$(($word, $name::$variant)),*];
            fn takes(self) -> &'static [&'static str] {
                match self { $($name::$variant => &[$($($takes),*)?]),* }
            }
        }
    };
}

algorithms! {
    /// Barrier.
    Barrier {
        /// A token to the rank at distance 1, 2, 4 and so on (Hensgen, Finkel, Manber; Open MPI
        /// calls it Bruck's).
        Dissemination = "dissemination",
        /// A token exchanged with the rank whose number differs in one bit.
        RecursiveDoubling = "recursive-doubling",
        /// Up and down a binomial tree.
        Tree = "tree",
        /// All ranks to rank 0, and back.
        Linear = "linear",
    }
}

algorithms! {
    /// Broadcast.
    Broadcast {
        /// From the root to each rank.
        Linear = "linear" ["at_once"],
        /// From each rank to the next, in segments: a pipeline.
        Chain = "chain" ["segment"],
        /// Down a binary tree.
        Binary = "binary" ["segment"],
        /// One half down each side of a binary tree, then an exchange between the sides.
        SplitBinary = "split-binary" ["segment"],
        /// Down a binomial tree, to the children one after another.
        Binomial = "binomial",
        /// Down a tree by digits of a radix, to all children at once.
        Knomial = "knomial" ["segment", "radix"],
        /// Scatter, then all-gather by recursive doubling (around a ring, if the number of ranks is
        /// no power of two).
        ScatterDoubling = "scatter-doubling",
        /// Scatter, then all-gather around a ring.
        ScatterRing = "scatter-ring",
    }
}

algorithms! {
    /// Reduction to a root.
    Reduce {
        /// From each rank to the root.
        Linear = "linear" ["at_once"],
        /// From each rank to the next, in segments.
        Chain = "chain" ["segment"],
        /// Up a binary tree.
        Binary = "binary" ["segment"],
        /// Up a binomial tree, from the children one after another.
        Binomial = "binomial",
        /// Up a tree by digits of a radix, from all children at once.
        Knomial = "knomial" ["segment", "radix"],
        /// Each rank combines a part, and the root gathers the parts.
        Rabenseifner = "rabenseifner",
    }
}

algorithms! {
    /// All-reduce.
    AllReduce {
        /// The whole message in each step.
        RecursiveDoubling = "recursive-doubling",
        /// Each rank combines a part, and all ranks gather the parts.
        Rabenseifner = "rabenseifner",
        /// One block per rank passes around a ring twice: to be combined, then to be gathered.
        Ring = "ring",
        /// As `Ring`, with the blocks combined in segments.
        SegmentedRing = "segmented-ring" ["segment"],
        /// A reduction and a broadcast, each by the library's own choice.
        ReduceBroadcast = "reduce-broadcast",
    }
}

algorithms! {
    /// All-gather.
    AllGather {
        /// Twice as much in each step (Bruck's algorithm, if the number of ranks is no power of
        /// two).
        RecursiveDoubling = "recursive-doubling",
        /// The same for any number of ranks; the last step sends the remainder.
        Bruck = "bruck",
        /// Around a ring.
        Ring = "ring",
        /// With the neighbour on one side and then on the other, two parts at a time (around a
        /// ring, if the number of ranks is odd).
        NeighborExchange = "neighbor-exchange",
    }
}

algorithms! {
    /// All-to-all.
    AllToAll {
        /// Forwarded through other ranks, in fewer and longer messages.
        Bruck = "bruck",
        /// One partner after another.
        Pairwise = "pairwise",
        /// All partners at once, or `at_once` of them.
        Linear = "linear" ["at_once"],
    }
}

algorithms! {
    /// Reduce-scatter.
    ReduceScatter {
        /// Sends the half that other ranks need to one of them, then half of the rest, and so on.
        RecursiveHalving = "recursive-halving",
        /// Sends each rank its part, one after another.
        Pairwise = "pairwise",
        /// One part per rank passes around a ring.
        Ring = "ring",
        /// Reduction to one rank, which then scatters the parts.
        ReduceThenScatter = "reduce-then-scatter",
    }
}

algorithms! {
    /// Scatter or gather.
    Rooted {
        /// Along a binomial tree.
        Binomial = "binomial",
        /// The root communicates with all ranks at once, or with `at_once` of them.
        Linear = "linear" ["at_once"],
    }
}
