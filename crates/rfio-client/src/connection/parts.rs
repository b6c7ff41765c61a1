//! Allocates the parts of a memory area to requests, so that no two requests in flight share one.

use crate::area::PARTS;

/// The parts of one area.
#[derive(Debug, Default)]
pub struct Parts {
    taken: [bool; PARTS],
}

impl Parts {
    /// Takes the first free part.
    pub fn take(&mut self) -> Option<usize> {
        let part = self.taken.iter().position(|taken| !taken)?;
        self.taken[part] = true;
        Some(part)
    }

    /// Frees a part.
    pub fn free(&mut self, part: usize) {
        self.taken[part] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_once_and_reused_when_freed() {
        let mut parts = Parts::default();
        for part in 0..PARTS {
            assert_eq!(parts.take(), Some(part));
        }
        assert_eq!(parts.take(), None);
        parts.free(1);
        assert_eq!((parts.take(), parts.take()), (Some(1), None));
    }
}
