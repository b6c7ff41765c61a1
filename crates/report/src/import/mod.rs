//! Foreign results turned into runs, so that what people already have can be laid beside. What a foreign format does not
//! say stays unknown: no percentile is made up, `n` and launches are what the file has. What is measured as one of our
//! benchmarks measures it gets that benchmark's name and parameters, and so can be compared with it; everything else gets
//! a name of its own.

pub mod iperf3;
pub mod osu;
pub mod perftest;
mod perftest_json;
mod row;

use crate::error::{Error, Result};
use crate::meaning::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use crate::schema::{End, Run, VERSION};
use std::io::Read;
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};

/// What a parser makes of a text: nothing when it is another format, otherwise points, or what is wrong with them.
pub type Parsed = Option<std::result::Result<Vec<Point>, String>>;

/// The largest file that is read; the tools' own output is some kilobytes.
const LARGEST: u64 = 64 << 20;

/// Reads a foreign file, telling the format by its content.
pub fn import(path: &Path) -> Result<Loaded> {
    let wrong = |reason: String| Error::Import {
        path: path.to_owned(),
        reason,
    };
    let text = text(path)?;
    let points = perftest::parse(&text)
        .or_else(|| osu::parse(&text))
        .or_else(|| iperf3::parse(&text))
        .unwrap_or_else(|| Err(unknown(&text)))
        .map_err(wrong)?;
    let label = path
        .file_stem()
        .map_or_else(|| "import".into(), |stem| stem.to_string_lossy());
    Ok(Loaded {
        run: Run {
            schema: VERSION,
            label: label.into_owned(),
            fabric: "import".to_owned(),
            launches: 1,
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
    })
}

/// A file's text. Bytes that are not UTF-8 (a host's name, a comment) do no harm to figures.
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
            "larger than {most} MiB, no tool's output; a run of ours is read from a file that ends in .jsonl"
        )));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(wrong(
            "text in UTF-16; `iconv -f UTF-16 -t UTF-8` makes it readable".to_owned(),
        ));
    }
    if bytes.contains(&0) {
        return Err(wrong("not text: it holds zero bytes".to_owned()));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// Why a text is none of the formats.
fn unknown(text: &str) -> String {
    let known = "neither perftest's text or JSON, nor OSU's text, nor iperf3's text or JSON";
    if text.trim().is_empty() {
        return "the file is empty".to_owned();
    }
    let ours = text.trim_start().starts_with("{\"record\":");
    match serde_json::from_str::<serde_json::Value>(text) {
        _ if ours => {
            format!(
                "{known}; a run of ours is read from a file that ends in .jsonl, or from its directory"
            )
        }
        Err(error) if text.trim_start().starts_with('{') => {
            format!("JSON that cannot be read: {error}")
        }
        _ => known.to_owned(),
    }
}

/// A point with what a foreign row tells.
fn point(benchmark: &str, parameters: Parameters, metrics: Vec<Metric>) -> Point {
    Point {
        benchmark: benchmark.to_owned(),
        launch: 0,
        parameters,
        metrics,
        pairs: Vec::new(),
        conduct: Conduct::default(),
        warnings: Vec::new(),
    }
}

/// Parameters by name.
fn parameters<const N: usize>(named: [(&str, Value); N]) -> Parameters {
    named.map(|(name, value)| (name.to_owned(), value)).into()
}

fn time(name: &str, nanos: f64) -> Metric {
    Metric::figure(name, "ns", Better::Lower, nanos)
}

/// A stream of the same bytes: over one buffer that stays in the caches, which perftest and OSU send again and again.
fn cached_rate(bytes_per_second: f64) -> Metric {
    Metric::figure(
        CACHED_BANDWIDTH,
        "bytes/s",
        Better::Higher,
        bytes_per_second,
    )
}

/// A stream of which nothing of the kind is known.
fn rate(bytes_per_second: f64) -> Metric {
    Metric::figure("bandwidth", "bytes/s", Better::Higher, bytes_per_second)
}

fn messages(a_second: f64) -> Metric {
    Metric::figure("message-rate", "1/s", Better::Higher, a_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Described;

    fn refused(name: &str, content: &[u8]) -> String {
        let name = format!("verbena-import-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        let message = import(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        message
    }

    /// A benchmark of which there is a point and one of which there is none.
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
        let points = osu::parse(text).unwrap().unwrap();
        let run = Loaded {
            points,
            ..Loaded::default()
        };
        let page = crate::html::page(&[run], &described(), &crate::html::Beside::default());
        assert!(page.contains("1.84 us"));
        assert!(!page.contains("<svg"));
    }

    #[test]
    fn a_whole_file_is_not_a_run_cut_short() {
        let name = format!("verbena-import-{}-whole", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(
            &path,
            "# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n8 1.2\n",
        )
        .unwrap();
        let loaded = import(&path).unwrap();
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
    fn what_is_wrong_with_a_file_is_said() {
        assert!(refused("empty", b" \n").contains("empty"));
        assert!(refused("binary", b"\x7fELF\0\0").contains("not text"));
        assert!(refused("utf16", b"\xff\xfe#\0").contains("iconv"));
        assert!(refused("json", b"{\"start\": {").contains("line 1"));
        assert!(refused("ours", b"{\"record\":\"run\",\"schema\":1}").contains(".jsonl"));
        assert!(refused("else", b"hello").contains("neither perftest's"));
    }
}
