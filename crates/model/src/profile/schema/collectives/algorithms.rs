//! The algorithms of each operation that a profile can name. What a rank does in them is in `mpi/rounds`.

/// An algorithm of an operation, as profiles name it.
pub trait Algorithm: Copy + 'static {
    /// The words.
    const WORDS: &'static [(&'static str, Self)];
    /// Which of a choice's further values it goes by.
    fn takes(self) -> &'static [&'static str];
}

/// Declares an operation's algorithms: the word in a file, and what it goes by.
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
    /// How all wait for all.
    Barrier {
        /// A token to the rank at distance 1, 2, 4 behind (Hensgen, Finkel, Manber; Open MPI calls it Bruck's).
        Dissemination = "dissemination",
        /// A token to and from the rank whose number differs in one bit.
        RecursiveDoubling = "recursive-doubling",
        /// Up a binomial tree and down.
        Tree = "tree",
        /// All to rank 0, and back.
        Linear = "linear",
    }
}

algorithms! {
    /// How all get what one has.
    Broadcast {
        /// From the root to each.
        Linear = "linear" ["at_once"],
        /// From each to the next, in pieces: a pipeline.
        Chain = "chain" ["segment"],
        /// Down a binary tree.
        Binary = "binary" ["segment"],
        /// A half down either side of a binary tree, then exchanged between the sides.
        SplitBinary = "split-binary" ["segment"],
        /// Down a binomial tree, to one after the other.
        Binomial = "binomial",
        /// Down a tree by digits of a radix, to all at once.
        Knomial = "knomial" ["segment", "radix"],
        /// A part to each, which all gather by recursive doubling (round a ring, if the ranks are no power of two).
        ScatterDoubling = "scatter-doubling",
        /// A part to each, which all gather round a ring.
        ScatterRing = "scatter-ring",
    }
}

algorithms! {
    /// How one gets the combination of what all have.
    Reduce {
        /// From each to the root.
        Linear = "linear" ["at_once"],
        /// From each to the next, in pieces.
        Chain = "chain" ["segment"],
        /// Up a binary tree.
        Binary = "binary" ["segment"],
        /// Up a binomial tree, from one after the other.
        Binomial = "binomial",
        /// Up a tree by digits of a radix, from all at once.
        Knomial = "knomial" ["segment", "radix"],
        /// Each combines a part, and the root gathers them.
        Rabenseifner = "rabenseifner",
    }
}

algorithms! {
    /// How all get the combination of what all have.
    AllReduce {
        /// All of it at each step.
        RecursiveDoubling = "recursive-doubling",
        /// Each combines a part, and all gather them.
        Rabenseifner = "rabenseifner",
        /// A block for each goes round a ring, and once more.
        Ring = "ring",
        /// The same, combined in pieces of the blocks.
        SegmentedRing = "segmented-ring" ["segment"],
        /// A reduction and a broadcast, as the library chooses them.
        ReduceBroadcast = "reduce-broadcast",
    }
}

algorithms! {
    /// How all get what each has.
    AllGather {
        /// Twice as much at each step (Bruck's way, if the ranks are no power of two).
        RecursiveDoubling = "recursive-doubling",
        /// The same for any number of ranks, the last step with what lacks.
        Bruck = "bruck",
        /// Round a ring.
        Ring = "ring",
        /// With the neighbor of one side and then of the other, two parts at a time (round a ring, if the ranks are odd).
        NeighborExchange = "neighbor-exchange",
    }
}

algorithms! {
    /// How each gets something of each.
    AllToAll {
        /// By way of others, in few and longer messages.
        Bruck = "bruck",
        /// With one after the other.
        Pairwise = "pairwise",
        /// With all at once, or with so many.
        Linear = "linear" ["at_once"],
    }
}

algorithms! {
    /// How each gets a part of the combination of what all have.
    ReduceScatter {
        /// The half that is for others goes to one of them, then half of that.
        RecursiveHalving = "recursive-halving",
        /// To each its part, one after the other.
        Pairwise = "pairwise",
        /// A part for each goes round a ring.
        Ring = "ring",
        /// To one, and from there a part to each.
        ReduceThenScatter = "reduce-then-scatter",
    }
}

algorithms! {
    /// How one sends a part to each, or gets one of each.
    Rooted {
        /// A binomial tree.
        Binomial = "binomial",
        /// The root with all at once, or with so many.
        Linear = "linear" ["at_once"],
    }
}
