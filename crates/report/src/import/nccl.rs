//! Parses text of nccl-tests and rccl-tests. A row has two results, out of place and in place;
//! their GB is 10^9 bytes. Old versions do not name the operation.

use super::lines::Line;
use super::points::{parameters, point, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::{Columns, Row};
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, Point};

/// Beginning of the line that names the operation.
const TITLE: &str = "# Collective test starting: ";
/// Columns with words, or -1 for no root.
const WORDS: [&str; 6] = [
    "type",
    "redop",
    "root",
    "#wrong",
    "error",
    "in-place #wrong",
];

/// Returns an operation's title for its name in `--as`.
pub fn title(name: &str) -> Option<String> {
    let known = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (known && !name.is_empty()).then(|| format!("{TITLE}{name}"))
}

/// Begins a test at its name, or at its settings.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let named = line.text.strip_prefix(TITLE);
    let settings = line.text.starts_with("# nThread ") || line.text.starts_with("# nthread ");
    if named.is_none() && !settings {
        return None;
    }
    let name = named.map(|name| name.trim().trim_end_matches("_perf").replace('_', "-"));
    Some(Ok(Box::new(Test {
        name,
        ranks: 0,
        columns: None,
        points: Vec::new(),
    })))
}

struct Test {
    name: Option<String>,
    ranks: u32,
    columns: Option<Columns>,
    points: Vec<Point>,
}

impl Test {
    fn points(&self, row: &Row<'_>) -> Result<Vec<Point>, String> {
        let name = self.name.as_ref().ok_or(
            "the text does not name the operation; --as nccl:all_reduce, for example, does",
        )?;
        let size = row.need("size")?;
        let mut all = Vec::new();
        for (place, before) in [("out", ""), ("in", "in-place ")] {
            let get = |column: &str| row.get(&format!("{before}{column}"));
            let wrong = ["#wrong", "error"]
                .iter()
                .find_map(|column| row.word(&format!("{before}{column}")))
                .and_then(|word| word.parse::<f64>().ok());
            if wrong.is_some_and(|wrong| wrong > 1e-2) {
                return Err("its data were wrong".to_owned());
            }
            let Some(told) = get("time") else { continue };
            let told = told.times(1000.0);
            let mut metrics = vec![time("average-time", told.value)];
            for (column, metric) in [("algbw", "bandwidth"), ("busbw", "bus-bandwidth")] {
                let Some(rate) = get(column).map(|rate| rate.times(1e9)) else {
                    continue;
                };
                if column == "algbw" && told.value > 0.0 {
                    let what = "algbw is not the size over the time";
                    row.agree(rate, told.rate_over(size.value), what)?;
                }
                metrics.push(Metric::figure(
                    metric,
                    "bytes/s",
                    Better::Higher,
                    rate.value,
                ));
            }
            let mut named = parameters([("size", size.value.into()), ("place", place.into())]);
            for column in ["type", "redop"] {
                let word = row.word(column).filter(|word| *word != "none");
                named.extend(word.map(|word| (column.to_owned(), word.into())));
            }
            if self.ranks > 0 {
                named.insert("processes".to_owned(), self.ranks.into());
            }
            all.push(point(&format!("nccl.{name}"), named, metrics));
        }
        Ok(all)
    }
}

impl Section for Test {
    fn keeps(&self, line: &Line<'_>) -> bool {
        self.points.is_empty() && !line.text.starts_with(TITLE)
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        if let Some(comment) = line.text.strip_prefix('#') {
            let words: Vec<&str> = comment.split_whitespace().collect();
            if words.first() == Some(&"Rank") {
                self.ranks += 1;
            } else if words.starts_with(&["size", "count"]) {
                self.columns = Some(columns(&words));
            } else if words.contains(&"(us)") && !words.contains(&"(GB/s)") {
                return Err("rates in another unit than GB/s".to_owned());
            }
            return Ok(Seen::Known);
        }
        let Some(columns) = &self.columns else {
            return Ok(Seen::Unknown);
        };
        let Some(row) = columns.row(line.text, &WORDS) else {
            return Ok(Seen::Unknown);
        };
        let points = self.points(&row?)?;
        self.points.extend(points);
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }
}

/// Returns the columns: repeated names belong to the in-place result.
fn columns(words: &[&str]) -> Columns {
    let names = words
        .iter()
        .enumerate()
        .map(|(at, word)| match words[..at].contains(word) {
            true => format!("in-place {word}"),
            false => (*word).to_owned(),
        });
    Columns::named(names)
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    /// Rows posted in microsoft/mscclpp pull request 507.
    const TEXT: &str = "\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 65536 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#   Rank  0 Group  0 Pid  10 on a device  0 [0x00] GPU
#   Rank  1 Group  0 Pid  11 on a device  1 [0x01] GPU
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1     5.45    0.19    0.33      0     5.35    0.19    0.33      0
       32768          8192     float     sum      -1     7.45    4.40    7.70      0     7.39    4.43    7.76    N/A
# Out of bounds values : 0 OK
";

    #[test]
    fn both_results_of_a_row_are_kept_apart() {
        let found = points(TEXT);
        let key = |at: usize| crate::gather::key(&found[at].benchmark, &found[at].parameters);
        let rest = "processes=2 redop=sum size=32768 type=float";
        assert_eq!(key(2), format!("nccl.all-reduce place=out {rest}"));
        assert_eq!(key(3), format!("nccl.all-reduce place=in {rest}"));
        let values: Vec<f64> = found[3].metrics.iter().map(|metric| metric.value).collect();
        assert_eq!(values, [7390.0, 4.43e9, 7.76e9]);
    }

    #[test]
    fn unnamed_operations_and_wrong_data_are_refused() {
        let unnamed = refused(TEXT.split_once('\n').unwrap().1);
        assert!(unnamed.contains("--as nccl:all_reduce"), "{unnamed}");
        let wrong = refused(&TEXT.replace("0.33      0     5.35", "0.33      7     5.35"));
        assert!(
            wrong.contains("line 8") && wrong.contains("wrong"),
            "{wrong}"
        );
        let rate = refused(&TEXT.replace("4.40", "44.0"));
        assert!(rate.contains("line 9") && rate.contains("algbw"), "{rate}");
    }
}
