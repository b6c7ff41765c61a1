//! The arguments of an action: checked numbers, and sizes of datatypes.

use std::str::SplitAsciiWhitespace;

/// Maximum length of a message in bytes.
const MOST_BYTES: u64 = 1 << 50;
/// Maximum computing time in nanoseconds.
pub(super) const MOST_TIME: f64 = (1u64 << 59) as f64;

/// In place of a rank: any source, or `MPI_PROC_NULL`.
pub(super) const ANY_SOURCE: i64 = -333;
/// In place of a tag: any.
pub(super) const ANY_TAG: i64 = -444;

/// Sizes of the datatypes in bytes by SimGrid's number; 0 for numbers without a known type.
const SIZES: [u64; 60] = [
    8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8, 8,
    16, 16, 8, 8, 8, 16, 16, 4, 4, 8, 16, 8, 16, 16, 4, 2, 4, 8, 16, 32, 0, 0, 0, 0, 0, 0, 1, 0, 8,
];

/// The words of a line after the action.
pub(super) struct Arguments<'a> {
    words: SplitAsciiWhitespace<'a>,
    /// Number of ranks.
    pub ranks: usize,
    /// Size of elements without a datatype.
    pub default_size: u64,
}

impl<'a> Arguments<'a> {
    pub fn new(words: SplitAsciiWhitespace<'a>, ranks: usize, default_size: u64) -> Arguments<'a> {
        Arguments {
            words,
            ranks,
            default_size,
        }
    }

    pub fn word(&mut self) -> Result<&'a str, String> {
        let word = self.words.next();
        word.ok_or_else(|| "too few arguments".to_owned())
    }

    pub fn optional(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// Returns an error if there are more arguments.
    pub fn end(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(_) => Err("too many arguments".to_owned()),
        }
    }

    /// Parses a number of elements. SimGrid may print large ones as 1e+07.
    pub fn count(&mut self) -> Result<u64, String> {
        count(self.word()?)
    }

    /// Parses a number of elements for each rank.
    pub fn counts(&mut self) -> Result<Vec<u64>, String> {
        (0..self.ranks).map(|_| self.count()).collect()
    }

    /// Parses an amount of computing or time.
    pub fn amount(&mut self) -> Result<f64, String> {
        let word = self.word()?;
        match word.parse::<f64>() {
            Ok(amount) if (0.0..=MOST_TIME).contains(&amount) => Ok(amount),
            _ => Err(format!("{word} is not an amount")),
        }
    }

    pub fn signed(&mut self) -> Result<i64, String> {
        let word = self.word()?;
        let number = word.parse::<i32>().map(i64::from);
        number.map_err(|_| format!("{word} is not an integer"))
    }

    /// Parses a rank; `None` for any or none.
    pub fn peer(&mut self) -> Result<Option<usize>, String> {
        match self.signed()? {
            ANY_SOURCE => Ok(None),
            number => rank(number, self.ranks).map(Some),
        }
    }

    /// Parses a tag; `None` for any.
    pub fn tag(&mut self) -> Result<Option<u32>, String> {
        match self.signed()? {
            ANY_TAG => Ok(None),
            number => match u32::try_from(number) {
                Ok(tag) => Ok(Some(tag)),
                Err(_) => Err(format!("{number} is not a tag")),
            },
        }
    }

    /// Parses a root; rank 0 if there is none.
    pub fn root(&mut self) -> Result<usize, String> {
        match self.optional() {
            None => Ok(0),
            Some(word) => match word.parse::<i64>() {
                Ok(number) => rank(number, self.ranks),
                Err(_) => Err(format!("{word} is not a rank")),
            },
        }
    }

    /// Returns the bytes of `count` elements of a datatype.
    pub fn bytes(&self, count: u64, datatype: Option<&str>) -> Result<u64, String> {
        let size = match datatype {
            _ if count == 0 => 0,
            None => self.default_size,
            Some("-1" | "") => {
                return Err("its datatype is derived, and its size is not in the trace".to_owned());
            }
            Some(word) => {
                let index = word.parse::<usize>().ok();
                let size = index.and_then(|index| SIZES.get(index)).copied();
                size.filter(|&size| size > 0)
                    .ok_or_else(|| format!("datatype {word} is unknown"))?
            }
        };
        checked(count, size)
    }
}

fn checked(count: u64, size: u64) -> Result<u64, String> {
    let bytes = count.checked_mul(size).filter(|&bytes| bytes <= MOST_BYTES);
    bytes.ok_or_else(|| format!("{count} elements of {size} bytes are too much"))
}

fn count(word: &str) -> Result<u64, String> {
    if let Ok(count) = word.parse::<u64>() {
        return Ok(count);
    }
    match word.parse::<f64>() {
        Ok(count) if (0.0..=MOST_BYTES as f64).contains(&count) && count.fract() == 0.0 => {
            Ok(count as u64)
        }
        _ => Err(format!("{word} is not a number of elements")),
    }
}

fn rank(number: i64, ranks: usize) -> Result<usize, String> {
    let rank = usize::try_from(number).ok().filter(|&rank| rank < ranks);
    rank.ok_or_else(|| format!("there is no rank {number} among {ranks}"))
}
