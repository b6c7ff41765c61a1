//! NetPIPE's text. Its Mbps is 2^20 bits a second; half a round trip is its time.

use super::lines::Line;
use super::section::{Begun, Context, Section, Seen};
use super::table::Figure;
use super::{parameters, point, rate, time};
use verbena_measure::result::Point;

/// Begins a run at its first row.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let starts = line.text == "Now starting the main loop" || row(line.text).is_some();
    let own = |line: &Line<'_>| -> Result<Box<dyn Section>, String> {
        let mut run = Run(Vec::new());
        run.line(line)?;
        Ok(Box::new(run))
    };
    starts.then(|| own(line))
}

struct Run(Vec<Point>);

impl Section for Run {
    fn keeps(&self, line: &Line<'_>) -> bool {
        row(line.text).is_some_and(|row| row[0] != "0:") || self.0.is_empty()
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        if line.text == "Now starting the main loop" {
            return Ok(Seen::Known);
        }
        let Some(row) = row(line.text) else {
            return match line.text.contains(" times -->") {
                true => Err("the row is cut short".to_owned()),
                false => Ok(Seen::Unknown),
            };
        };
        let size = Figure::read(row[1])?;
        let told = Figure::read(row[6])?.times(1_048_576.0 / 8.0);
        let own = Figure::read(row[9])?.times(1000.0);
        if !told.agrees(own.rate_over(size.value)) {
            return Err("inconsistent: Mbps is not the size over the time".to_owned());
        }
        let metrics = vec![time("one-way-latency", own.value), rate(told.value)];
        let named = parameters([("size", size.value.into())]);
        self.0.push(point("netpipe.ping-pong", named, metrics));
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.0)
    }
}

/// The words of `0: 1 bytes 135957 times --> 7.33 Mbps in 1.04 usec`.
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

    /// As NPopenmpi 3.7.2 printed it here.
    const TEXT: &str = "\
Now starting the main loop
  0:       1 bytes 135957 times -->      7.33 Mbps in       1.04 usec
  1:       2 bytes  96102 times -->     24.05 Mbps in       0.63 usec
";

    #[test]
    fn its_megabits_are_binary() {
        let found = points(TEXT);
        assert_eq!((found.len(), found[1].metrics[0].value), (2, 630.0));
        assert!((found[1].metrics[1].value - 24.05 * 131_072.0).abs() < 1.0);
        let wrong = refused(&TEXT.replace("24.05", "240.5"));
        assert!(
            wrong.contains("line 3") && wrong.contains("Mbps"),
            "{wrong}"
        );
    }
}
