//! Measured curves from files: output of perftest and of the OSU benchmarks, and our own results.

use super::{AnchorError, MeasuredCurve, Settings, Unit, meaning};
use std::collections::BTreeMap;
use std::path::Path;
use verbena_measure::result::{Point, Value};
use verbena_report::import::{self, Hints};
use verbena_report::run_directory::{self, Loaded};

/// Largest file in bytes.
const LARGEST: u64 = 16 << 20;
/// perftest's default limits of inline messages by benchmark, in bytes.
const INLINE: [(&str, u32); 2] = [("latency.write", 220), ("latency.send", 236)];
/// perftest's default number of messages per completion (`--cq-mod`).
const SIGNAL_EVERY: u64 = 100;
/// The supported files.
const EXPECTED: &str = "expected output of ib_write_lat, ib_write_bw, ib_send_lat, ib_send_bw, \
     ib_read_lat, ib_read_bw, osu_latency, osu_bw or osu_mbw_mr, or a directory of \
     `verbena bench --out`";

/// Reads the curves of a file or run directory, in their order, with notes on points left out.
///
/// # Errors
///
/// If it cannot be read, is too large, or has no figure that can be an anchor.
pub fn read(path: &Path) -> Result<(Vec<MeasuredCurve>, Vec<String>), AnchorError> {
    let wrong = |reason: String| AnchorError::File {
        path: path.display().to_string(),
        reason,
    };
    let (points, mut notes, settings) = match own(path).map_err(wrong)? {
        Some(run) => (run.points, Vec::new(), PerftestSettings::default()),
        None => {
            let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let text = String::from_utf8_lossy(&bytes);
            let read = import::parse(&text, &Hints::default());
            let (points, notes) = read.map_err(|reason| wrong(format!("{reason}; {EXPECTED}")))?;
            (points, notes, PerftestSettings::of(&text))
        }
    };
    let curves = curves(points, &settings, &mut notes);
    match curves.is_empty() {
        true => Err(wrong(match notes.as_slice() {
            [] => format!("no figures in it; {EXPECTED}"),
            notes => format!("{}; {EXPECTED}", notes.join("; ")),
        })),
        false => Ok((curves, notes)),
    }
}

/// Loads our own results; `None` if the file is another tool's.
fn own(path: &Path) -> Result<Option<Loaded>, String> {
    let file = match path.is_dir() {
        true => {
            let runs = run_directory::runs_at(path);
            let [run] = runs.as_slice() else {
                return Err(format!("{} runs in it; name one of them", runs.len()));
            };
            run.join(run_directory::RESULTS)
        }
        false => path.to_owned(),
    };
    let length = std::fs::metadata(&file).map_err(|error| match path.is_dir() {
        true => format!("no results in it; {EXPECTED}"),
        false => error.to_string(),
    })?;
    if !length.is_file() {
        return Err("neither a file nor a directory of results".to_owned());
    }
    if length.len() > LARGEST {
        let most = LARGEST >> 20;
        return Err(format!("larger than {most} MiB; {EXPECTED}"));
    }
    if !path.is_dir() && path.extension().is_none_or(|end| end != "jsonl") {
        return Ok(None);
    }
    let run = run_directory::load(&file).map_err(|error| error.to_string())?;
    match run.run.fabric.as_str() {
        "model" => Err("results of a model; an anchor is a measurement".to_owned()),
        _ => Ok(Some(run)),
    }
}

/// perftest's settings that its rows do not show.
#[derive(Debug, Default, PartialEq, Eq)]
struct PerftestSettings {
    is_perftest: bool,
    inline: Vec<u32>,
    signal_every: Vec<u64>,
}

impl PerftestSettings {
    fn of(text: &str) -> PerftestSettings {
        let numbers = |names: [&str; 2]| {
            let mut found: Vec<u64> = Vec::new();
            let lines = text.lines().filter_map(|line| {
                let at = names
                    .iter()
                    .find_map(|name| Some(line.find(name)? + name.len()))?;
                let value = line[at..].trim_start_matches([' ', '\t', ':', '"']);
                let end = value.find(|c: char| !c.is_ascii_digit());
                value[..end.unwrap_or(value.len())].parse::<u64>().ok()
            });
            found.extend(lines);
            found.sort_unstable();
            found.dedup();
            found
        };
        let inline = numbers(["Max inline data", "Max_inline_data"]);
        PerftestSettings {
            is_perftest: text.contains("#bytes") || text.contains("test_info"),
            inline: inline
                .iter()
                .filter_map(|n| u32::try_from(*n).ok())
                .collect(),
            signal_every: numbers(["CQ Moderation", "CQ_Moderation"]),
        }
    }

    /// Returns the settings of a benchmark: those of the file if it has one test's, otherwise
    /// perftest's defaults.
    fn settings(&self, benchmark: &str, transport: Option<String>) -> Settings {
        let mut settings = Settings {
            transport,
            ..Settings::default()
        };
        if self.is_perftest {
            let default = INLINE.iter().find(|(name, _)| *name == benchmark);
            let default = default.map_or(0, |(_, bytes)| *bytes);
            settings.inline = Some(match self.inline.as_slice() {
                [one] => *one,
                _ => default,
            });
            if benchmark.starts_with("bandwidth.") {
                settings.signal_every = Some(match self.signal_every.as_slice() {
                    [one] => (*one).max(1),
                    _ => SIGNAL_EVERY,
                });
            }
        }
        settings
    }
}

/// Groups points by benchmark and transport.
fn curves(
    points: Vec<Point>,
    settings: &PerftestSettings,
    notes: &mut Vec<String>,
) -> Vec<MeasuredCurve> {
    let mut order: Vec<(String, Option<String>)> = Vec::new();
    let mut groups: BTreeMap<(String, Option<String>), BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for point in points {
        let reason = match usable(&point) {
            Ok((bytes, transport, figure)) => {
                let key = (point.benchmark, transport);
                if !order.contains(&key) {
                    order.push(key.clone());
                }
                let of_size = groups.entry(key).or_default();
                of_size.entry(bytes).or_default().push(figure);
                continue;
            }
            Err(reason) => reason,
        };
        *left_out.entry(reason).or_default() += 1;
    }
    notes.extend(left_out.iter().map(|(reason, count)| match count {
        1 => format!("1 point was left out: {reason}"),
        _ => format!("{count} points were left out: {reason}"),
    }));
    let curve = |key: (String, Option<String>)| {
        let points = groups.get(&key)?;
        let (benchmark, transport) = key;
        let (unit, _) = meaning(&benchmark, transport.as_deref())?;
        let mean = |figures: &Vec<f64>| figures.iter().sum::<f64>() / figures.len() as f64;
        Some(MeasuredCurve {
            settings: settings.settings(&benchmark, transport),
            benchmark,
            unit,
            points: points
                .iter()
                .map(|(bytes, all)| (*bytes, mean(all)))
                .collect(),
        })
    };
    order.into_iter().filter_map(curve).collect()
}

/// Returns size, transport if it is not rc, and figure of a point.
///
/// # Errors
///
/// The reason why it cannot be used.
fn usable(point: &Point) -> Result<(u64, Option<String>, f64), String> {
    let name = &point.benchmark;
    let word = |name: &str| match point.parameters.get(name) {
        Some(Value::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    let number = |name: &str| match point.parameters.get(name) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let transport = word("transport").filter(|one| !["rc", "mpi"].contains(one));
    let Some((unit, _)) = meaning(name, transport) else {
        return Err(format!("{name} cannot be an anchor"));
    };
    for several in ["queue-pairs", "pairs", "processes"] {
        let most = if several == "processes" { 2.0 } else { 1.0 };
        if number(several).is_some_and(|count| count > most) {
            return Err(format!("{name} with several {several}"));
        }
    }
    let other = [
        ("ways", "both"),
        ("receive-queue", "shared"),
        ("memory", "gpu"),
    ];
    if let Some((name, value)) = other.iter().find(|(name, value)| word(name) == Some(value)) {
        return Err(format!("{}, {name} {value}", point.benchmark));
    }
    let bytes = number("size").filter(|size| *size >= 0.0 && size.fract() == 0.0);
    let bytes = bytes.ok_or_else(|| format!("{name} without a size"))? as u64;
    let names: &[&str] = match unit {
        Unit::Micros => &["one-way-latency", "completion-latency"],
        Unit::Megabytes => &["cached-bandwidth", "bandwidth"],
    };
    let metric = names
        .iter()
        .find_map(|wanted| point.metrics.iter().find(|metric| metric.name == *wanted));
    let metric = metric.ok_or_else(|| format!("{name} without {}", names[0]))?;
    let figure = match unit {
        Unit::Micros => metric.value / 1e3,
        Unit::Megabytes => metric.value / 1e6,
    };
    match figure > 0.0 && figure.is_finite() {
        true => Ok((bytes, transport.map(str::to_owned), figure)),
        false => Err(format!("{name} of {bytes} B is not above zero")),
    }
}

#[cfg(test)]
#[path = "file_test.rs"]
mod tests;
