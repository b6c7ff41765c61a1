//! Parses text of libfabric's fi_pingpong and of fabtests. Their MB is 10^6 bytes; k and m in sizes
//! are powers of 1,024.

use super::lines::Line;
use super::points::{parameters, point, rate, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::{Columns, Figure, Row};
use verbena_measure::result::Point;

/// Title made from `--as`, because the text does not contain the test's name.
const TITLE: &str = "fabtests: ";
/// Columns of sizes and counts such as `1.2k`, `=10` and `0.00s`.
const WORDS: [&str; 8] = [
    "name", "bytes", "iters", "#sent", "#ack", "total", "time", "xfers",
];

/// Returns a test's title for its name in `--as`.
pub fn title(name: &str) -> Option<String> {
    let known = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (known && !name.is_empty()).then(|| format!("{TITLE}{}", name.trim_start_matches("fi_")))
}

/// Begins a test at the head of its table, or at its title.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    if let Some(name) = line.text.strip_prefix(TITLE) {
        let name = Some(name.replace('_', "-"));
        return Some(Ok(Box::new(Test {
            name,
            columns: None,
            points: Vec::new(),
        })));
    }
    let columns = head(line)?;
    let name = columns.has("#ack").then(|| "pingpong".to_owned());
    if name.is_none() && !columns.has("name") {
        return Some(Err(
            "the text does not name the test; --as fabtests:rdm_tagged_bw, for example, does"
                .to_owned(),
        ));
    }
    Some(Ok(Box::new(Test {
        name,
        columns: Some(columns),
        points: Vec::new(),
    })))
}

fn head(line: &Line<'_>) -> Option<Columns> {
    let words: Vec<&str> = line.text.split_whitespace().collect();
    let is_head = words.contains(&"bytes") && words.contains(&"usec/xfer");
    is_head.then(|| Columns::named(words.iter().map(|word| (*word).to_owned())))
}

struct Test {
    name: Option<String>,
    columns: Option<Columns>,
    points: Vec<Point>,
}

impl Test {
    fn point(&self, row: &Row<'_>) -> Result<Point, String> {
        let name = self.name.as_deref().or(row.word("name"));
        let name = name
            .ok_or("the row does not name its test")?
            .replace('_', "-");
        let size = size(row.word("bytes").unwrap_or_default())?;
        let own = row.need("usec/xfer")?.times(1000.0);
        let mut metrics = vec![time("average-time", own.value)];
        if let Some(told) = row.get("mb/sec").map(|told| told.times(1e6)) {
            row.agree(
                told,
                own.rate_over(size),
                "MB/sec is not the size over the time",
            )?;
            metrics.push(rate(told.value));
        }
        let named = parameters([("size", size.into())]);
        Ok(point(&format!("fabtests.{name}"), named, metrics))
    }
}

impl Section for Test {
    fn keeps(&self, line: &Line<'_>) -> bool {
        self.name.is_some() && head(line).is_some() && self.columns.is_none()
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        if let Some(columns) = head(line) {
            self.columns = Some(columns);
            return Ok(Seen::Known);
        }
        let Some(columns) = &self.columns else {
            return Ok(Seen::Unknown);
        };
        let named = columns.has("name");
        let text = line.text;
        let digits = |word: Option<&str>| {
            word.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut words = text.split_whitespace();
        if !digits(words.nth(usize::from(named))) {
            return Ok(Seen::Unknown);
        }
        let row = columns.any_row(text, &WORDS)?;
        let point = self.point(&row)?;
        self.points.push(point);
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }
}

/// Converts `64`, `4k`, `1m` to bytes.
fn size(word: &str) -> Result<f64, String> {
    let (digits, unit) = match word.char_indices().last() {
        Some((at, 'k' | 'K')) => (&word[..at], 1024.0),
        Some((at, 'm' | 'M')) => (&word[..at], 1_048_576.0),
        Some((at, 'g' | 'G')) => (&word[..at], 1_073_741_824.0),
        _ => (word, 1.0),
    };
    Ok(Figure::read(digits)?.value * unit)
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    const TEXT: &str = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      10      =10      1.2k        0.00s      5.58      11.47       0.09
4k      10      =10      80k         0.00s    512.00       8.00       0.12
";
    /// Rows posted in ofiwg/libfabric pull request 7951.
    const NAMED: &str = "\
name        bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec
msg_req     64      1k      62k         0.00s     14.85       4.31       0.23
tag_req     256     1k      250k        0.00s     60.35       4.24       0.24
";

    #[test]
    fn sizes_have_units_and_names_are_kept() {
        let found = points(TEXT);
        let key = crate::gather::key(&found[1].benchmark, &found[1].parameters);
        assert_eq!(key, "fabtests.pingpong size=4096");
        assert_eq!(found[1].metrics[0].value, 8000.0);
        assert_eq!(points(NAMED)[1].benchmark, "fabtests.tag-req");
    }

    #[test]
    fn a_test_without_a_name_is_refused() {
        let text = NAMED
            .replace("name ", "")
            .replace("msg_req", "")
            .replace("tag_req", "");
        assert!(
            refused(&text).contains("--as fabtests:"),
            "{}",
            refused(&text)
        );
        let wrong = refused(&TEXT.replace("5.58", "55.8"));
        assert!(
            wrong.contains("line 2") && wrong.contains("MB/sec"),
            "{wrong}"
        );
    }
}
