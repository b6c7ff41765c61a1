//! Blocks in slices, and which of them count (rule 5).

use std::ops::Range;
use verbena_measure::recorder::Recorder;

/// With fewer undisturbed slices all count: the median of so little says less than one of much that was disturbed.
const FEWEST_SLICES: usize = 5;

/// How a block is made up, the same in every process.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Samples in it.
    pub samples: u64,
    /// Operations a sample.
    pub batch: u32,
    /// Samples between two looks at the processor.
    pub slice: u64,
}

impl Shape {
    /// Slices of a block.
    pub fn slices(&self) -> usize {
        self.samples.div_ceil(self.slice) as usize
    }
}

/// What this process saw in a block.
pub struct Block {
    pub shape: Shape,
    /// The number of its first operation.
    pub first: u64,
    /// When it began, in nanoseconds after the agreed instant.
    pub start: f64,
    /// Ticks of each sample; of a process that is not timed, none.
    pub samples: Vec<u64>,
    /// By slice, whether this processor was disturbed; nothing where nobody looked.
    pub disturbed: Vec<bool>,
}

impl Block {
    /// Of this shape, with memory for the samples that was written once, so that no page is first touched between two
    /// readings of the clock.
    pub fn new(shape: Shape) -> Block {
        let mut samples = vec![u64::MAX; shape.samples as usize];
        samples.clear();
        Block {
            shape,
            first: 0,
            start: f64::NAN,
            samples,
            disturbed: Vec::new(),
        }
    }

    /// Forgets the last one.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.disturbed.clear();
    }
}

/// The slices of all blocks so far.
pub struct Tally {
    counted: Part,
    aside: Part,
}

/// Some slices: their samples, and the numbers of their operations in the same order.
struct Part {
    slices: usize,
    samples: Recorder,
    operations: Vec<Range<u64>>,
}

/// What counts in the end.
pub struct Settled {
    pub samples: Recorder,
    /// The numbers of the operations that count, in the order of the samples.
    pub operations: Vec<Range<u64>>,
    /// Slices that do not.
    pub set_aside: u32,
    /// Whether what counts is less than was wanted, so that chance decided which slices seemed undisturbed.
    pub disturbed: bool,
}

impl Part {
    fn new(room: usize) -> Part {
        Part {
            slices: 0,
            samples: Recorder::new(room),
            operations: Vec::new(),
        }
    }

    fn take(&mut self, operations: Range<u64>, samples: &[u64]) {
        self.slices += 1;
        samples.iter().for_each(|&ticks| self.samples.record(ticks));
        match self.operations.last_mut() {
            Some(last) if last.end == operations.start => last.end = operations.end,
            _ => self.operations.push(operations),
        }
    }
}

impl Tally {
    /// With room for so many samples one by one.
    pub fn new(room: usize) -> Tally {
        Tally {
            counted: Part::new(room),
            aside: Part::new(room),
        }
    }

    /// Takes a block; `disturbed` says by slice whether any process's processor was.
    pub fn take(&mut self, block: &Block, disturbed: &[bool]) {
        let Shape {
            samples,
            batch,
            slice,
        } = block.shape;
        for index in 0..block.shape.slices() {
            let from = index as u64 * slice;
            let to = (from + slice).min(samples);
            let part = match disturbed.get(index) {
                Some(true) => &mut self.aside,
                _ => &mut self.counted,
            };
            let operation = |sample: u64| block.first + sample * u64::from(batch);
            let kept = block.samples.len();
            let within = (from as usize).min(kept)..(to as usize).min(kept);
            part.take(operation(from)..operation(to), &block.samples[within]);
        }
    }

    /// Slices that count so far.
    pub fn slices(&self) -> usize {
        self.counted.slices
    }

    /// Samples that count so far.
    pub fn samples(&self) -> &[u64] {
        self.counted.samples.samples()
    }

    /// What counts, when at least `wanted` slices should.
    pub fn settle(self, wanted: usize) -> Settled {
        let Tally { mut counted, aside } = self;
        let disturbed = counted.slices < wanted && aside.slices > 0;
        let all = disturbed && counted.slices < FEWEST_SLICES;
        if all {
            counted.samples.absorb(&aside.samples);
            counted.operations.extend(aside.operations);
        }
        Settled {
            samples: counted.samples,
            operations: counted.operations,
            set_aside: if all { 0 } else { aside.slices as u32 },
            disturbed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        samples: 25,
        batch: 2,
        slice: 2,
    };

    fn block(first: u64) -> Block {
        let mut block = Block::new(SHAPE);
        block.first = first;
        block.samples.extend(0..SHAPE.samples);
        block
    }

    #[test]
    fn disturbed_slices_go_whatever_their_values() {
        let mut tally = Tally::new(100);
        let disturbed = |index: usize| (0..13).map(|i| i == index).collect::<Vec<bool>>();
        tally.take(&block(100), &disturbed(1));
        tally.take(&block(150), &disturbed(12));
        assert_eq!(tally.slices(), 24);
        let settled = tally.settle(24);
        assert!(!settled.disturbed);
        assert_eq!(settled.set_aside, 2);
        let numbers = [100..104, 108..198];
        assert_eq!(settled.operations, numbers);
        let samples = settled.samples.samples();
        assert_eq!(samples.len(), 23 + 24);
        assert_eq!(samples[..4], [0, 1, 4, 5]);
        assert!(
            !samples[23..].contains(&24),
            "the last slice is a short one"
        );
    }

    #[test]
    fn with_next_to_nothing_undisturbed_all_count() {
        let mut tally = Tally::new(100);
        let disturbed: Vec<bool> = (0..13).map(|i| i != 3).collect();
        tally.take(&block(0), &disturbed);
        let settled = tally.settle(13);
        assert!(settled.disturbed);
        assert_eq!(settled.set_aside, 0);
        assert_eq!(settled.samples.count(), 25);
        let operations: u64 = settled.operations.iter().map(|o| o.end - o.start).sum();
        assert_eq!(operations, 50);
    }

    #[test]
    fn less_than_wanted_counts_and_is_said() {
        let mut tally = Tally::new(100);
        let disturbed: Vec<bool> = (0..13).map(|i| i >= 6).collect();
        tally.take(&block(0), &disturbed);
        let settled = tally.settle(13);
        assert!(settled.disturbed);
        assert_eq!(settled.set_aside, 7);
        assert_eq!(settled.samples.count(), 12);
    }

    #[test]
    fn processes_that_are_not_timed_know_the_operations() {
        let mut tally = Tally::new(1);
        let mut block = block(0);
        block.clear();
        tally.take(&block, &[]);
        let settled = tally.settle(13);
        assert_eq!(settled.operations.len(), 1);
        assert_eq!(settled.operations[0], 0..50);
        assert_eq!(settled.samples.count(), 0);
    }
}
