//! Parses the measuring program's output, one fact per line:
//!
//! | line | meaning |
//! |---|---|
//! | `verbena-mpi 1 RANKS LIBRARY` | header; comes first |
//! | `unbound` | a process has no exclusive processor |
//! | `point SIZE [ROWS COLUMNS]` | a point begins |
//! | `warmup OPERATIONS FIRST` | operations before counting; the first one in nanoseconds |
//! | `sampled BATCH SHARE SKEW` | operations per batch, the clock's share of one, start skew |
//! | `batches RANK COUNT NANOS...` | means of batches by a process |
//! | `singles RANK COUNT NANOS...` | single operations by a process |
//! | `rates NAME MESSAGES WARMUP` | messages per process in each block that follows |
//! | `span BLOCK RANK START END` | active time of a process, relative to the agreed start |
//! | `footprint BYTES` | size of the buffers used in rotation by the preceding blocks |
//! | `wrong TEXT` | the point ends: received data differed from sent data |
//! | `end` | the point ends |
//! | `moved BYTES` | total payload of all processes; comes last |
//!
//! The library may print other lines in between. A malformed line that begins like one of these is
//! an error.

use verbena_workloads::rates::Span;

/// Most processes of a job.
const MOST_RANKS: usize = 1024;
/// Most values of a process in one line.
const MOST_VALUES: usize = 1 << 15;
/// Most blocks of a rate.
const MOST_BLOCKS: usize = 64;
/// Longest accepted time: one day, in nanoseconds.
const LONGEST: f64 = 86_400e9;

/// Nanoseconds by process.
pub type ByRank = Vec<Vec<f64>>;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// `in-turn` or `cached`.
    pub name: String,
    /// Messages per process and block.
    pub messages: u64,
    /// Messages before counting.
    pub warmup: u64,
    /// Active times by block.
    pub blocks: Vec<Vec<Span>>,
}

/// A point as printed by the program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrintedPoint {
    pub size: usize,
    pub shape: Option<[usize; 2]>,
    pub warmup: u64,
    pub first: Option<f64>,
    pub batch: u32,
    pub clock_share: f64,
    pub skew: f64,
    pub singles: ByRank,
    pub batches: ByRank,
    pub rates: Vec<Rates>,
    pub footprint: Option<u64>,
    pub wrong: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Number of processes, and the library's version string.
    Begun(usize, String),
    /// Not every process has an exclusive processor.
    Unbound,
    Point(Box<PrintedPoint>),
    /// Payload in bytes.
    Moved(u64),
}

#[derive(Debug, Default)]
pub struct Reader {
    ranks: usize,
    open: Option<PrintedPoint>,
}

impl Reader {
    /// Parses a line; returns the fact that it completes, if any.
    ///
    /// # Errors
    ///
    /// States the defect of the line.
    pub fn take(&mut self, line: &str) -> Result<Option<Fact>, String> {
        let mut words = Words(line.split_ascii_whitespace());
        let Some(first) = words.0.next() else {
            return Ok(None);
        };
        let refused = |reason: String| {
            let start: String = line.chars().take(60).collect();
            format!("unexpected output of the measuring program, {start:?}: {reason}")
        };
        match first {
            "verbena-mpi" => self.begin(&mut words).map(Some).map_err(refused),
            _ if self.ranks == 0 => Ok(None),
            "unbound" => words.end().map(|()| Some(Fact::Unbound)).map_err(refused),
            "moved" => words
                .count(u64::MAX)
                .map(|bytes| Some(Fact::Moved(bytes)))
                .map_err(refused),
            "point" => self.point(&mut words).map(|()| None).map_err(refused),
            "wrong" | "end" => {
                let mut told = self.open.take().ok_or_else(|| refused(no_point()))?;
                let reason = line.trim().strip_prefix("wrong").map(str::trim);
                told.wrong = reason.map(str::to_owned);
                Ok(Some(Fact::Point(Box::new(told))))
            }
            "warmup" | "sampled" | "batches" | "singles" | "rates" | "span" | "footprint" => {
                let ranks = self.ranks;
                let told = self.open.as_mut().ok_or_else(|| refused(no_point()))?;
                told.detail(first, &mut words, ranks).map_err(refused)?;
                Ok(None)
            }
            // Other output of the library.
            _ => Ok(None),
        }
    }

    fn begin(&mut self, words: &mut Words<'_>) -> Result<Fact, String> {
        match words.count(u64::MAX)? {
            1 => {}
            version => return Err(format!("expected version 1, found {version}")),
        }
        if self.ranks != 0 {
            return Err("it has already begun".to_owned());
        }
        self.ranks = words.index(MOST_RANKS + 1)?;
        if self.ranks == 0 {
            return Err("no process".to_owned());
        }
        let library: Vec<&str> = words.0.by_ref().collect();
        Ok(Fact::Begun(self.ranks, library.join(" ")))
    }

    fn point(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        if self.open.is_some() {
            return Err("the point before has no end".to_owned());
        }
        let size = words.index(1 << 31)?;
        let shape = match words.0.clone().next() {
            None => None,
            Some(_) => Some([words.index(MOST_RANKS + 1)?, words.index(MOST_RANKS + 1)?]),
        };
        words.end()?;
        let empty = vec![Vec::new(); self.ranks];
        self.open = Some(PrintedPoint {
            size,
            shape,
            batch: 1,
            singles: empty.clone(),
            batches: empty,
            ..PrintedPoint::default()
        });
        Ok(())
    }
}

fn no_point() -> String {
    "no point has begun".to_owned()
}

impl PrintedPoint {
    fn detail(&mut self, name: &str, words: &mut Words<'_>, ranks: usize) -> Result<(), String> {
        match name {
            "warmup" => {
                self.warmup = words.count(u64::MAX)?;
                self.first = Some(words.nanos()?).filter(|first| *first > 0.0);
            }
            "sampled" => {
                self.batch = words.count(u64::from(u32::MAX))? as u32;
                self.clock_share = words.nanos()?;
                self.skew = words.nanos()?;
            }
            "batches" => words.values(ranks, &mut self.batches)?,
            "singles" => words.values(ranks, &mut self.singles)?,
            "rates" => self.rates.push(Rates {
                name: words.word()?.to_owned(),
                messages: words.count(u64::MAX)?,
                warmup: words.count(u64::MAX)?,
                blocks: Vec::new(),
            }),
            "span" => {
                let rates = self.rates.last_mut().ok_or("no rates were announced")?;
                let block = words.index(MOST_BLOCKS)?;
                let (rank, start, end) = (words.index(ranks)?, words.nanos()?, words.nanos()?);
                if rates.blocks.len() <= block {
                    rates.blocks.resize(block + 1, Vec::new());
                }
                let spans = &mut rates.blocks[block];
                if spans.iter().any(|span| span.0 == rank) || end < start {
                    return Err("given twice, or ended before it began".to_owned());
                }
                spans.push((rank, start, end));
            }
            _ => self.footprint = Some(words.count(u64::MAX)?),
        }
        words.end()
    }
}

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "it is cut short".to_owned())
    }

    fn end(&mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(format!("{word:?} is one word too many")),
        }
    }

    fn count(&mut self, most: u64) -> Result<u64, String> {
        let word = self.word()?;
        let number = word
            .parse()
            .map_err(|_| format!("{word:?} is not a count"))?;
        match number <= most {
            true => Ok(number),
            false => Err(format!("{number} is more than {most}")),
        }
    }

    /// Parses a number below `limit`.
    fn index(&mut self, limit: usize) -> Result<usize, String> {
        self.count(limit as u64 - 1).map(|number| number as usize)
    }

    fn nanos(&mut self) -> Result<f64, String> {
        let word = self.word()?;
        let number: f64 = word
            .parse()
            .map_err(|_| format!("{word:?} is not a time"))?;
        match (0.0..=LONGEST).contains(&number) {
            true => Ok(number),
            false => Err(format!("{word} ns is not between 0 and a day")),
        }
    }

    /// Parses `RANK COUNT NANOS...`.
    fn values(&mut self, ranks: usize, all: &mut ByRank) -> Result<(), String> {
        let rank = self.index(ranks)?;
        let count = self.index(MOST_VALUES + 1)?;
        if !all[rank].is_empty() {
            return Err(format!("process {rank} was given before"));
        }
        all[rank] = (0..count).map(|_| self.nanos()).collect::<Result<_, _>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Fact>, String> {
        let mut reader = Reader::default();
        let mut facts = Vec::new();
        for line in text.lines() {
            facts.extend(reader.take(line)?);
        }
        Ok(facts)
    }

    const HEAD: &str = "verbena-mpi 1 2 Open MPI v4.1.4, package\n";

    #[test]
    fn a_point_with_times_is_parsed() {
        let text = format!(
            "hello from a library\n{HEAD}unbound\npoint 8\nwarmup 63 741.5\nsampled 7 0.069 20.0\n\
             batches 0 2 1.5 2\n\
             btl: some warning\nsingles 0 3 1 2 3\nend\nmoved 1024\n"
        );
        let facts = all(&text).unwrap();
        assert_eq!(
            facts[0],
            Fact::Begun(2, "Open MPI v4.1.4, package".to_owned())
        );
        assert_eq!((&facts[1], &facts[3]), (&Fact::Unbound, &Fact::Moved(1024)));
        let Fact::Point(told) = &facts[2] else {
            panic!("{facts:?}");
        };
        assert_eq!(
            (told.size, told.warmup, told.batch, told.first),
            (8, 63, 7, Some(741.5))
        );
        assert_eq!(told.singles, [vec![1.0, 2.0, 3.0], vec![]]);
        assert_eq!(told.batches[0], [1.5, 2.0]);
    }

    #[test]
    fn points_with_rates_and_with_wrong_data_are_parsed() {
        let text = format!(
            "{HEAD}point 8 1 2\nrates in-turn 64 128\nspan 0 0 1 5\nspan 0 1 2 6\nspan 1 0 1 5\n\
             footprint 4096\nend\n\
             point 16\nwrong process 1: byte 3 of 16 of a message is 0x00, expected 0x07\n"
        );
        let facts = all(&text).unwrap();
        let Fact::Point(told) = &facts[1] else {
            panic!("{facts:?}");
        };
        assert_eq!((told.shape, told.footprint), (Some([1, 2]), Some(4096)));
        assert_eq!(
            told.rates[0].blocks,
            [vec![(0, 1.0, 5.0), (1, 2.0, 6.0)], vec![(0, 1.0, 5.0)]]
        );
        let Fact::Point(told) = &facts[2] else {
            panic!("{facts:?}");
        };
        assert!(
            told.wrong
                .as_deref()
                .unwrap()
                .starts_with("process 1: byte 3")
        );
    }

    #[test]
    fn truncated_and_out_of_range_lines_are_refused() {
        for (line, reason) in [
            ("verbena-mpi 2 2 x", "version 1"),
            ("verbena-mpi 1 9999 x", "more than 1024"),
            ("verbena-mpi 1 0 x", "no process"),
        ] {
            let said = all(line).unwrap_err();
            assert!(said.contains(reason), "{line}: {said}");
        }
        for (line, reason) in [
            ("point", "cut short"),
            ("point 99999999999", "more than"),
            ("point 8 1", "cut short"),
            ("point 8 1 2 3", "too many"),
            ("end", "no point"),
            ("singles 0 1 1", "no point"),
            ("point 8\npoint 8", "no end"),
            ("point 8\nsingles 2 1 1", "more than 1"),
            ("point 8\nsingles 0 3 1 2", "cut short"),
            ("point 8\nsingles 0 1 1 2", "too many"),
            ("point 8\nsingles 0 1 -1", "between 0"),
            ("point 8\nsingles 0 1 NaN", "between 0"),
            ("point 8\nsingles 0 1 inf", "between 0"),
            ("point 8\nsingles 0 99999 1", "more than 32768"),
            ("point 8\nsingles 0 1 1\nsingles 0 1 1", "given before"),
            ("point 8\nspan 0 0 1 2", "no rates"),
            ("point 8\nrates x 1 1\nspan 64 0 1 2", "more than 63"),
            ("point 8\nrates x 1 1\nspan 0 0 2 1", "ended before"),
            (
                "point 8\nrates x 1 1\nspan 0 0 1 2\nspan 0 0 1 2",
                "given twice",
            ),
            ("moved x", "not a count"),
        ] {
            let said = all(&format!("{HEAD}{line}")).unwrap_err();
            assert!(said.contains(reason), "{line}: {said}");
        }
    }
}
