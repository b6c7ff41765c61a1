//! The buffers of a shared receive queue, and which of them are posted.
//!
//! A connection can hold one receive for as long as it lives: that of a message whose last packet
//! does not come. So with many connections more receives are posted, and others always find some.

use crate::connection;

/// Receives that are posted for a few connections.
const COMMON: usize = 128;
/// Receives that stay when each connection holds one.
const FREE: usize = 64;
/// Buffers of a queue.
pub const MOST: usize = connection::MOST + FREE;

/// Buffers by number.
#[derive(Debug)]
pub struct Receives {
    unposted: Vec<u32>,
    posted: usize,
    connections: usize,
}

impl Receives {
    /// Returns the buffers of a queue, none of which is posted.
    pub fn new() -> Receives {
        Receives {
            unposted: (0..MOST as u32).rev().collect(),
            posted: 0,
            connections: 0,
        }
    }

    /// Counts a new connection.
    pub fn open(&mut self) {
        self.connections += 1;
    }

    /// Counts the end of a connection.
    pub fn close(&mut self) {
        self.connections = self.connections.saturating_sub(1);
    }

    /// Returns the next buffer to post, and counts it as posted.
    pub fn next(&mut self) -> Option<u32> {
        let wanted = COMMON.max(self.connections + FREE);
        let next = self.unposted.pop_if(|_| self.posted < wanted)?;
        self.posted += 1;
        Some(next)
    }

    /// Counts a receive that has completed. Its buffer is in use until it is released.
    pub fn complete(&mut self) {
        self.posted = self.posted.saturating_sub(1);
    }

    /// Takes back a buffer whose message has been used.
    pub fn release(&mut self, buffer: u32) {
        self.unposted.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn post(receives: &mut Receives, queue: &mut VecDeque<u32>) {
        queue.extend(std::iter::from_fn(|| receives.next()));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Open,
        /// A connection ends; a receive that it holds is flushed.
        Close(usize),
        /// A message starts that holds a receive.
        Start(usize),
        /// A message arrives as a whole, or one that had started ends.
        Whole(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let at = 0..connection::MOST;
        let step = prop_oneof![
            6 => Just(Step::Open),
            1 => at.clone().prop_map(Step::Close),
            6 => at.clone().prop_map(Step::Start),
            3 => at.prop_map(Step::Whole),
        ];
        prop::collection::vec(step, 0..1000)
    }

    proptest! {
        #[test]
        fn unfinished_messages_leave_receives_for_others(steps in steps()) {
            let (mut receives, mut queue) = (Receives::new(), VecDeque::new());
            let mut held: Vec<Option<u32>> = Vec::new();
            post(&mut receives, &mut queue);
            prop_assert_eq!(queue.len(), COMMON);
            for step in steps {
                match step {
                    Step::Open if held.len() < connection::MOST => {
                        held.push(None);
                        receives.open();
                    }
                    Step::Open => {}
                    Step::Close(at) if at < held.len() => {
                        receives.close();
                        if let Some(buffer) = held.swap_remove(at) {
                            receives.complete();
                            receives.release(buffer);
                        }
                    }
                    Step::Start(at) if at < held.len() => {
                        held[at] = held[at].take().or_else(|| queue.pop_front());
                    }
                    Step::Whole(at) if at < held.len() => {
                        let buffer = held[at].take().or_else(|| queue.pop_front());
                        receives.complete();
                        receives.release(buffer.unwrap());
                    }
                    _ => {}
                }
                post(&mut receives, &mut queue);
                prop_assert!(queue.len() >= FREE);
                let of_messages = held.iter().flatten();
                let mut all: Vec<u32> = queue.iter().chain(of_messages).copied().collect();
                all.extend(&receives.unposted);
                all.sort_unstable();
                prop_assert_eq!(all, (0..MOST as u32).collect::<Vec<_>>());
            }
        }
    }
}
