//! Converts results of other tools to runs, for comparison with ours. Data that a format does not
//! contain stay unknown: no percentile is invented, and `n` and launches are those of the file. A
//! measurement equivalent to one of our benchmarks gets its name and parameters, and is comparable
//! with it; any other gets its own name.
//!
//! A text is parsed in sections: a line that is unique to a tool begins one,
//! and the section parses its table by column names. Unknown lines are counted and reported.

mod fabtests;
mod imb;
pub mod iperf3;
pub mod lines;
mod nccl;
mod netpipe;
pub mod osu;
pub mod perftest;
mod perftest_json;
mod points;
mod qperf;
mod section;
mod table;
mod ucx;

pub use points::Parsed;
pub use section::Hints;

use crate::error::{Error, Result};
use crate::gather::key;
use crate::run_directory::Loaded;
use crate::schema::{End, Run, VERSION};
use lines::Line;
use section::{Begun, Context, Section, Seen};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use verbena_measure::result::Point;

/// The largest accepted file in bytes; output of the tools is some kilobytes.
const LARGEST: u64 = 64 << 20;
/// Characters of a line that a message quotes.
const SHOWN: usize = 60;
/// The supported tools, as messages name them.
const KNOWN: &str = "neither text or JSON of perftest or iperf3, nor text of OSU's benchmarks, \
                     IMB, nccl-tests, ucx_perftest, qperf, NetPIPE or fabtests";

/// The points of another tool's file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// The points as a run.
    pub run: Loaded,
    /// Omitted or ambiguous content.
    pub warnings: Vec<String>,
}

impl Hints {
    /// Parses the user's hints about a file: `TOOL:TEST` for a text without its title, and a number
    /// of processes.
    ///
    /// # Errors
    ///
    /// If there is no such tool or test.
    pub fn of(test: Option<&str>, processes: Option<u32>) -> std::result::Result<Hints, String> {
        let title = |test: &str| {
            let (tool, name) = test.split_once(':').unwrap_or((test, ""));
            let title = match tool {
                "perftest" => perftest::title(name),
                "osu" => osu::title(name),
                "nccl" => nccl::title(name),
                "ucx" => ucx::title(name),
                "netpipe" => netpipe::title(name),
                "fabtests" => fabtests::title(name),
                _ => None,
            };
            title.ok_or_else(|| {
                format!(
                    "{test:?} is not a test; write e.g. perftest:write-bw (write, write-imm, \
                     read, send, atomic; lat, bw, bibw), \
                    osu:allreduce, nccl:all_reduce, ucx:tag_lat:8, netpipe:ping-pong, \
                    fabtests:rdm_tagged_bw"
                )
            })
        };
        Ok(Hints {
            title: test.map(title).transpose()?,
            processes,
        })
    }
}

/// Imports a file of another tool; detects the format by its content.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is too large, or has no valid results of a known
/// tool.
pub fn import(path: &Path, hints: &Hints) -> Result<Imported> {
    let wrong = |reason: String| Error::Import {
        path: path.to_owned(),
        reason,
    };
    let (points, warnings) = parse(&text(path)?, hints).map_err(wrong)?;
    let label = path
        .file_stem()
        .map_or_else(|| "import".into(), |stem| stem.to_string_lossy());
    let launches = points.iter().map(|point| point.launch + 1).max();
    let run = Loaded {
        run: Run {
            schema: VERSION,
            label: label.into_owned(),
            fabric: "import".to_owned(),
            launches: launches.unwrap_or(1),
            command: format!("imported from {}", path.display()),
            ..Run::default()
        },
        points,
        end: Some(End {
            outcome: "complete".to_owned(),
            seconds: 0.0,
            reason: None,
        }),
        ..Loaded::default()
    };
    Ok(Imported { run, warnings })
}

/// Parses a text to points and warnings.
///
/// # Errors
///
/// If there is no point, or one is invalid; the error states the line.
pub fn parse(text: &str, hints: &Hints) -> std::result::Result<(Vec<Point>, Vec<String>), String> {
    let json = perftest::parse_json(text).or_else(|| iperf3::parse_json(text));
    let (points, warnings) = match json {
        Some(points) => (points?, Vec::new()),
        None => Reader::default().read(text, hints)?,
    };
    if points
        .iter()
        .all(|point| !point.parameters.contains_key("processes"))
        && hints.processes.is_some()
        && !points
            .iter()
            .any(|point| point.parameters.contains_key("pairs"))
    {
        let reason = "--processes: no collective operation is in the file".to_owned();
        return Ok((in_launches(points), [warnings, vec![reason]].concat()));
    }
    Ok((in_launches(points), warnings))
}

/// Numbers repeated measurements as further launches.
fn in_launches(mut points: Vec<Point>) -> Vec<Point> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for point in &mut points {
        let again = seen
            .entry(key(&point.benchmark, &point.parameters))
            .or_default();
        point.launch = *again;
        *again += 1;
    }
    points
}

#[derive(Default)]
struct Reader<'a> {
    points: Vec<Point>,
    /// The first unknown lines, to quote them, and the number of all.
    unknown: Vec<Line<'a>>,
    count: usize,
    /// Sections without a result: their first line, and probable reason.
    empty: Vec<(usize, &'static str)>,
}

/// A section and its first line.
type Open = (usize, Box<dyn Section>);

impl<'a> Reader<'a> {
    fn read(
        mut self,
        text: &'a str,
        hints: &'a Hints,
    ) -> std::result::Result<(Vec<Point>, Vec<String>), String> {
        let mut any = false;
        let mut twice = 0;
        let streams = lines::by_process(text);
        for lines in &streams {
            let before = self.points.len();
            any |= self.process(lines, hints)?;
            // Both ends of a test print the same result; it counts once.
            let (earlier, mine) = self.points.split_at(before);
            let kept: Vec<Point> = mine
                .iter()
                .filter(|point| !earlier.contains(point))
                .cloned()
                .collect();
            twice += mine.len() - kept.len();
            self.points.truncate(before);
            self.points.extend(kept);
        }
        if !any {
            return Err(unknown(text));
        }
        if self.points.is_empty() {
            let (line, why) = self.empty.first().copied().unwrap_or((1, ""));
            return Err(format!("line {line}: a test without a result; {why}"));
        }
        Ok((self.points.clone(), self.warnings(twice)))
    }

    /// Parses the lines of one process; returns whether they had a section.
    fn process(
        &mut self,
        lines: &[Line<'a>],
        hints: &'a Hints,
    ) -> std::result::Result<bool, String> {
        let mut before: Vec<Line<'a>> = Vec::new();
        let mut open: Option<Open> = None;
        let mut any = false;
        let given = hints.title.as_deref();
        let title = given.map(|text| Line { number: 0, text });
        for line in title.into_iter().chain(lines.iter().copied()) {
            let at = |reason: String| format!("line {}: {reason}", line.number);
            let kept = open
                .as_ref()
                .is_some_and(|(_, section)| section.keeps(&line));
            let context = Context {
                hints,
                before: &before,
            };
            if let Some(begun) = begin(&line, &context).filter(|_| !kept) {
                self.close(open.take())?;
                open = Some((line.number, begun.map_err(at)?));
                (any, before) = (true, Vec::new());
                continue;
            }
            let seen = match &mut open {
                Some((_, section)) => section.line(&line).map_err(at)?,
                None => self.without_section(&line).map_err(at)?,
            };
            let around =
                perftest::is_around(&line) || ucx::is_around(&line) || netpipe::is_around(&line);
            if seen == Seen::Unknown && !line.is_rule() && !around {
                self.count += 1;
                if self.unknown.len() < 3 {
                    self.unknown.push(line);
                }
            }
            // Enough for perftest's output about memory before its title.
            if open.is_none() && before.len() < 1000 {
                before.push(line);
            }
        }
        self.close(open)?;
        Ok(any)
    }

    /// Handles a line before any section. The head of a table without a title is refused, because
    /// its test is unknown.
    fn without_section(&self, line: &Line<'_>) -> std::result::Result<Seen, String> {
        let example = if perftest::is_head(line) {
            "perftest:write-bw"
        } else if osu::is_head(line) {
            "osu:allreduce"
        } else {
            return Ok(Seen::Unknown);
        };
        Err(format!(
            "a table without the title that names its test; --as {example}, for example, does"
        ))
    }

    fn close(&mut self, open: Option<Open>) -> std::result::Result<(), String> {
        let Some((number, section)) = open else {
            return Ok(());
        };
        let why = section.without_result();
        let points = section
            .end()
            .map_err(|reason| format!("line {number}: {reason}"))?;
        if points.is_empty() {
            self.empty.push((number, why));
        }
        self.points.extend(points);
        Ok(())
    }

    fn warnings(&self, twice: usize) -> Vec<String> {
        let mut all = Vec::new();
        for (line, why) in self.empty.iter().take(3) {
            all.push(format!("line {line}: a test without a result; {why}"));
        }
        if self.empty.len() > 3 {
            all.push(format!(
                "{} more tests without a result",
                self.empty.len() - 3
            ));
        }
        if twice > 0 {
            all.push(format!(
                "{twice} results that two processes printed alike count once"
            ));
        }
        if self.count > 0 {
            let lines: Vec<String> = self.unknown.iter().map(shown).collect();
            let more = if self.count > lines.len() {
                ", ..."
            } else {
                ""
            };
            let count = self.count;
            let s = if count == 1 { " was" } else { "s were" };
            all.push(format!(
                "{count} line{s} not understood: {}{more}",
                lines.join(", ")
            ));
        }
        all
    }
}

fn shown(line: &Line<'_>) -> String {
    let start: String = line.text.chars().take(SHOWN).collect();
    let cut = if start.len() < line.text.len() {
        "..."
    } else {
        ""
    };
    format!("{} {start:?}{cut}", line.number)
}

/// Begins a section of the tool to which the line belongs.
fn begin(line: &Line<'_>, context: &Context<'_>) -> Begun {
    perftest::begin(line, context)
        .or_else(|| osu::begin(line, context))
        .or_else(|| imb::begin(line, context))
        .or_else(|| nccl::begin(line, context))
        .or_else(|| ucx::begin(line, context))
        .or_else(|| fabtests::begin(line, context))
        .or_else(|| netpipe::begin(line, context))
        .or_else(|| qperf::begin(line, context))
        .or_else(|| iperf3::begin(line, context))
}

/// Reads a file's text. Bytes that are not UTF-8 (a host name, a comment) do not affect figures.
fn text(path: &Path) -> Result<String> {
    let wrong = |reason: String| Error::Import {
        path: path.to_owned(),
        reason,
    };
    let io = |e| Error::io(path, e);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(wrong(format!(
            "larger than {most} MiB, too large for a tool's output; a run of Verbena is read from \
             a file that ends in .jsonl"
        )));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(wrong(
            "text in UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`".to_owned(),
        ));
    }
    if bytes.contains(&0) {
        return Err(wrong("not text: it holds zero bytes".to_owned()));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// Returns the reason why a text matches none of the formats.
fn unknown(text: &str) -> String {
    if text.trim().is_empty() {
        return "the file is empty".to_owned();
    }
    if text.trim_start().starts_with("{\"record\":") {
        return format!(
            "{KNOWN}; a run of Verbena is read from a file that ends in .jsonl, or from its \
             directory"
        );
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Err(error) if text.trim_start().starts_with('{') => {
            return format!("invalid JSON: {error}");
        }
        _ => {}
    }
    let row = lines::by_process(text).into_iter().flatten().find(|line| {
        table::begins_with_number(line.text) && line.text.contains(char::is_whitespace)
    });
    match row {
        Some(line) => format!(
            "line {}: figures without a table heading; include the line that names the test, or \
             at least the line of columns, and name the test with --as",
            line.number
        ),
        None => KNOWN.to_owned(),
    }
}

#[cfg(test)]
mod variants_test;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Described;

    /// Returns the points of a text without warnings.
    pub fn points(text: &str) -> Vec<Point> {
        let (points, warnings) = parse(text, &Hints::default()).expect("points");
        assert!(warnings.is_empty(), "{warnings:?}");
        points
    }

    /// Returns the reason why a text is refused.
    pub fn refused(text: &str) -> String {
        parse(text, &Hints::default()).expect_err("refused")
    }

    fn refused_file(name: &str, content: &[u8]) -> String {
        let name = format!("verbena-import-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        let message = import(&path, &Hints::default()).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        message
    }

    /// A benchmark with a point, and one without.
    fn described() -> Vec<Described> {
        let of = |name: &str, group: &str| Described {
            name: name.to_owned(),
            group: group.to_owned(),
            answers: String::new(),
            source: String::new(),
            axis: "size".to_owned(),
        };
        vec![
            of("latency.read", "Latency"),
            of("mpi.latency", "Imported"),
            of("mpi.barrier-latency", "Imported"),
        ]
    }

    #[test]
    fn a_point_without_a_size_has_no_empty_chart() {
        let text = "# OSU MPI Barrier Latency Test v5.9\n# Avg Latency(us)\n 1.84\n";
        let points = points(text);
        let run = Loaded {
            points,
            ..Loaded::default()
        };
        let page = crate::html::page(&[run], &described(), &crate::html::Beside::default());
        assert!(page.contains("1.84 us"));
        assert!(!page.contains("<svg"));
    }

    #[test]
    fn a_complete_file_is_a_complete_run() {
        let name = format!("verbena-import-{}-whole", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(
            &path,
            "# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n8 1.2\n",
        )
        .unwrap();
        let loaded = import(&path, &Hints::default()).unwrap().run;
        std::fs::remove_file(&path).unwrap();
        assert_eq!(loaded.points.len(), 1);
        let page = crate::html::page(&[loaded], &described(), &crate::html::Beside::default());
        assert!(!page.contains("cut short"));
        assert!(page.contains("import · 1 launch</span>"));
        assert!(
            page.contains("id=\"group0\"") && !page.contains("id=\"group1\""),
            "an empty group"
        );
    }

    #[test]
    fn refused_files_have_a_reason() {
        assert!(refused_file("empty", b" \n").contains("empty"));
        assert!(refused_file("binary", b"\x7fELF\0\0").contains("not text"));
        assert!(refused_file("utf16", b"\xff\xfe#\0").contains("iconv"));
        assert!(refused_file("json", b"{\"start\": {").contains("line 1"));
        assert!(refused_file("ours", b"{\"record\":\"run\",\"schema\":1}").contains(".jsonl"));
        assert!(refused_file("else", b"hello").contains("neither text or JSON of perftest"));
    }
}
