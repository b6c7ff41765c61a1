//! Parses NetPIPE's text, and the rows of size, rate and time that it writes to a file (`-o`). Its
//! Mbps is 2^20 bits a second; its time is half a round trip.

use super::lines::Line;
use super::points::{parameters, point, rate, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::Figure;
use verbena_measure::result::Point;

/// Bytes a second per Mbps.
const MEGABIT: f64 = 1_048_576.0 / 8.0;

/// Title made from `--as netpipe:ping-pong`.
const TITLE: &str = "NetPIPE: ping-pong";

/// Returns a file's title for the name in `--as`.
pub fn title(name: &str) -> Option<String> {
    (name == "ping-pong").then(|| TITLE.to_owned())
}

/// Returns whether the line is printed before a run.
pub fn is_around(line: &Line<'_>) -> bool {
    line.text.starts_with("Sending output to ")
}

/// Begins a run at its first row.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let starts =
        [TITLE, "Now starting the main loop"].contains(&line.text) || row(line.text).is_some();
    let own = |line: &Line<'_>| -> Result<Box<dyn Section>, String> {
        let mut run = Run {
            points: Vec::new(),
            is_file: line.text == TITLE,
        };
        run.line(line)?;
        Ok(Box::new(run))
    };
    starts.then(|| own(line))
}

struct Run {
    points: Vec<Point>,
    /// Whether its rows are those of a file.
    is_file: bool,
}

impl Run {
    /// Adds a row: bytes, rate in Mbps, time in nanoseconds.
    fn take(&mut self, size: Figure, rate_in_mbps: Figure, own: Figure) -> Result<Seen, String> {
        let told = rate_in_mbps.times(MEGABIT);
        if !told.agrees(own.rate_over(size.value)) {
            return Err("inconsistent: Mbps is not the size over the time".to_owned());
        }
        let metrics = vec![time("one-way-latency", own.value), rate(told.value)];
        let named = parameters([("size", size.value.into())]);
        self.points.push(point("netpipe.ping-pong", named, metrics));
        Ok(Seen::Known)
    }
}

impl Section for Run {
    fn keeps(&self, line: &Line<'_>) -> bool {
        row(line.text).is_some_and(|row| row[0] != "0:") || self.points.is_empty()
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        if [TITLE, "Now starting the main loop"].contains(&line.text) {
            return Ok(Seen::Known);
        }
        if self.is_file {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            return match words[..] {
                [size, rate, seconds] => {
                    let own = Figure::read(seconds)?.times(1e9);
                    self.take(Figure::read(size)?, Figure::read(rate)?, own)
                }
                _ => Ok(Seen::Unknown),
            };
        }
        let Some(row) = row(line.text) else {
            return match line.text.contains(" times -->") {
                true => Err("the row is cut short".to_owned()),
                false => Ok(Seen::Unknown),
            };
        };
        let own = Figure::read(row[9])?.times(1000.0);
        self.take(Figure::read(row[1])?, Figure::read(row[6])?, own)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }
}

/// Splits `0: 1 bytes 135957 times --> 7.33 Mbps in 1.04 usec` into words.
fn row(text: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_row = words.len() == 11
        && words[2] == "bytes"
        && [words[4], words[5], words[7], words[10]] == ["times", "-->", "Mbps", "usec"];
    is_row.then_some(words)
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    /// Output of NPopenmpi 3.7.2, recorded here.
    const TEXT: &str = "\
Now starting the main loop
  0:       1 bytes 135957 times -->      7.33 Mbps in       1.04 usec
  1:       2 bytes  96102 times -->     24.05 Mbps in       0.63 usec
";

    #[test]
    fn megabits_are_binary() {
        let found = points(TEXT);
        assert_eq!((found.len(), found[1].metrics[0].value), (2, 630.0));
        assert!((found[1].metrics[1].value - 24.05 * 131_072.0).abs() < 1.0);
        let wrong = refused(&TEXT.replace("24.05", "240.5"));
        assert!(
            wrong.contains("line 3") && wrong.contains("Mbps"),
            "{wrong}"
        );
    }

    /// The rows that it wrote to a file.
    const FILE: &str = "\
       1 21.207826   0.00000036
       2 8.169276   0.00000187
";

    #[test]
    fn a_result_file_is_imported_when_named() {
        assert!(refused(FILE).contains("--as"), "{}", refused(FILE));
        let hints = crate::import::Hints::of(Some("netpipe:ping-pong"), None).unwrap();
        let (found, warnings) = crate::import::parse(FILE, &hints).unwrap();
        assert_eq!((found.len(), warnings.len()), (2, 0));
        assert!((found[1].metrics[0].value - 1870.0).abs() < 1e-6);
        assert!((found[1].metrics[1].value - 8.169276 * super::MEGABIT).abs() < 1e-6);
    }
}
