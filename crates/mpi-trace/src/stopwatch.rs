//! Duration of a program from `MPI_Init` to `MPI_Finalize` without recording, as reported by the
//! recorder library.

use crate::Error;
use std::fs;
use std::path::Path;

/// Environment variable with the directory for the times. [`crate::recorder::DIRECTORY`] takes
/// precedence.
pub const DIRECTORY: &str = "VERBENA_STOPWATCH";

/// Times of a rank in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Elapsed time.
    pub passed: u64,
    /// Processor time of all its threads.
    pub worked: u64,
}

/// Reads the times of the ranks, in order.
///
/// # Errors
///
/// Returns an error if a file is missing, unreadable or invalid.
pub fn read(directory: &Path, ranks: usize) -> Result<Vec<Taken>, Error> {
    (0..ranks).map(|rank| of_rank(directory, rank)).collect()
}

fn of_rank(directory: &Path, rank: usize) -> Result<Taken, Error> {
    let path = directory.join(format!("rank-{rank}.time"));
    let text = fs::read_to_string(&path).map_err(|source| Error::Unreadable {
        path: path.clone(),
        source,
    })?;
    taken(&text).ok_or(Error::Senseless {
        path,
        reason: "it is not two numbers".to_owned(),
    })
}

fn taken(text: &str) -> Option<Taken> {
    let (passed, worked) = text.trim_end().split_once(' ')?;
    Some(Taken {
        passed: passed.parse().ok()?,
        worked: worked.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_of_two_numbers_is_a_time() {
        let both = Taken {
            passed: 12,
            worked: 3,
        };
        assert_eq!(taken("12 3\n"), Some(both));
        for text in ["", "12", "12 x", "-1 3", "1 2 3"] {
            assert_eq!(taken(text), None, "{text:?}");
        }
    }
}
