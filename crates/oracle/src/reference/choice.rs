//! Choices: where the contract allows more than one outcome, the reference asks for a number, and
//! [`every`] runs a function once for each combination of answers.

/// The answers of one run.
#[derive(Default)]
pub struct Choices {
    answers: Vec<(usize, usize)>,
    asked: usize,
}

impl Choices {
    /// Returns one of `0..of`; over all runs every answer occurs.
    pub fn pick(&mut self, of: usize) -> usize {
        debug_assert!(of > 0);
        if self.asked == self.answers.len() {
            self.answers.push((0, of));
        }
        let (answer, _) = self.answers[self.asked];
        self.asked += 1;
        answer
    }

    /// Returns one of several values.
    pub fn among<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.pick(values.len())]
    }

    /// Advances to the next combination; returns false if there is none.
    fn turn(&mut self) -> bool {
        self.answers.truncate(self.asked);
        self.asked = 0;
        while let Some((answer, of)) = self.answers.pop() {
            if answer + 1 < of {
                self.answers.push((answer + 1, of));
                return true;
            }
        }
        false
    }
}

/// Returns the results of `run` on a copy of `start`, for each combination of choices.
pub fn every<T: Clone>(start: &T, mut run: impl FnMut(&mut T, &mut Choices)) -> Vec<T> {
    let mut choices = Choices::default();
    let mut results = Vec::new();
    loop {
        let mut value = start.clone();
        run(&mut value, &mut choices);
        results.push(value);
        if !choices.turn() {
            return results;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_explored_once() {
        let results = every(&Vec::new(), |value: &mut Vec<usize>, choices| {
            value.push(choices.pick(2));
            if value[0] == 1 {
                value.push(choices.pick(3));
            }
        });
        assert_eq!(results, [vec![0], vec![1, 0], vec![1, 1], vec![1, 2]]);
    }
}
