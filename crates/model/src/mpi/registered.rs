//! The buffers that a rank has registered.

/// Sizes of the registered buffers, the most recently used last.
#[derive(Debug, Default)]
pub(super) struct Registered(Vec<u64>);

impl Registered {
    /// Registers a buffer, with at most `most` kept; returns whether it was registered already.
    pub fn touch(&mut self, bytes: u64, most: usize) -> bool {
        let known = self.0.iter().position(|&known| known == bytes);
        if let Some(known) = known {
            self.0.remove(known);
        }
        self.0.push(bytes);
        if self.0.len() > most {
            self.0.remove(0);
        }
        known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_buffer_is_evicted() {
        let mut registered = Registered::default();
        let mut touch = |bytes| registered.touch(bytes, 2);
        assert_eq!(
            [1, 2, 1, 3, 1, 2].map(&mut touch),
            [false, false, true, false, true, false]
        );
    }
}
