//! Outputs of the OSU, Intel and NCCL benchmarks in the variants of their options and versions,
//! with random figures and prefixes of launchers and mail: each figure is parsed as printed, and
//! rows that contradict themselves are refused.

use crate::gather::key;
use crate::import::{Hints, parse};
use proptest::prelude::*;
use verbena_measure::result::Point;

/// A printed output, and the expected points: a benchmark's key and its metrics, one line per
/// point.
#[derive(Debug, Clone, Default)]
struct Output {
    text: String,
    said: Vec<String>,
}

impl Output {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn says(&mut self, key: &str, metrics: &[(&str, f64)]) {
        self.said.push(in_words(key, metrics.iter().copied()));
    }
}

/// Describes a point; figures have nine digits, because units are converted in binary.
fn in_words<'a>(key: &str, metrics: impl Iterator<Item = (&'a str, f64)>) -> String {
    let metrics: Vec<String> = metrics
        .map(|(name, value)| format!("{name} {value:.8e}"))
        .collect();
    format!("{key}: {}", metrics.join(", "))
}

fn words_of(points: &[Point]) -> Vec<String> {
    let words = |point: &Point| {
        let metrics = point.metrics.iter();
        let metrics = metrics.map(|metric| (metric.name.as_str(), metric.value));
        in_words(&key(&point.benchmark, &point.parameters), metrics)
    };
    points.iter().map(words).collect()
}

/// A time in hundredths of a microsecond for each size.
type Times = Vec<u64>;

fn printed(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn nanos(hundredths: u64) -> f64 {
    let microseconds: f64 = printed(hundredths).parse().unwrap();
    microseconds * 1000.0
}

fn size(at: usize) -> u64 {
    1 << at
}

/// OSU's blocking and nonblocking collectives, by title and by our name.
const OSU_COLLECTIVES: [(&str, &str); 12] = [
    ("Allgather", "allgather"),
    ("Allgatherv", "allgatherv"),
    ("Allreduce", "allreduce"),
    ("All-to-All Personalized Exchange", "alltoall"),
    ("All-to-Allv Personalized Exchange", "all-to-allv"),
    ("Broadcast", "broadcast"),
    ("Gather", "gather"),
    ("Gatherv", "gatherv"),
    ("Reduce", "reduce"),
    ("Reduce_scatter", "reduce-scatter"),
    ("Scatter", "scatter"),
    ("Scatterv", "scatterv"),
];
const VERSIONS: [&str; 4] = ["v3.8", "v5.9", "v6.2", "v7.4"];
const LIBRARIES: [(&str, &str); 3] = [
    ("MPI", "mpi"),
    ("MPI-CUDA", "mpi-cuda"),
    ("MPI-ROCM", "mpi-rocm"),
];

/// `-f` prints minimum, maximum and repetitions, `-c` the result of data validation.
#[derive(Debug, Clone, Copy)]
struct Options {
    full: bool,
    checked: bool,
}

fn osu_collective(at: usize, library: usize, options: Options, times: &Times) -> Output {
    let (title, name) = OSU_COLLECTIVES[at % OSU_COLLECTIVES.len()];
    let (told, library) = LIBRARIES[library % LIBRARIES.len()];
    let version = VERSIONS[at % VERSIONS.len()];
    let mut output = Output::default();
    output.line(&format!("# OSU {told} {title} Latency Test {version}"));
    if version > "v7" {
        output.line("# Datatype: MPI_CHAR.");
    }
    let mut head = "# Size       Avg Latency(us)".to_owned();
    if options.full {
        head += "   Min Latency(us)   Max Latency(us)  Iterations";
    }
    if options.checked {
        head += "  Validation";
    }
    output.line(&head);
    for (at, time) in times.iter().enumerate() {
        let mut row = format!("{:<10}{:>18}", size(at), printed(*time));
        if options.full {
            row += &format!(
                "{:>18}{:>18}{:>12}",
                printed(time / 2),
                printed(2 * time),
                1000
            );
        }
        if options.checked {
            row += "        Pass";
        }
        output.line(&row);
        let key = format!(
            "{library}.{name}-latency processes=4 size={} transport={library}",
            size(at)
        );
        output.says(&key, &[("average-time", nanos(*time))]);
    }
    output
}

fn osu_nonblocking(at: usize, full: bool, times: &Times) -> Output {
    let (title, name) = OSU_COLLECTIVES[at % OSU_COLLECTIVES.len()];
    let mut output = Output::default();
    output.line(&format!("# OSU MPI Non-blocking {title} Latency Test v7.3"));
    output.line("# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait");
    output.line("");
    output.line(match full {
        true => {
            "# Size  Overall(us)  Compute(us)  Coll. Init(us)  MPI_Test(us)  MPI_Wait(us)  \
             Pure Comm.(us)  Min Comm.(us)  Max Comm.(us)  Overlap(%)"
        }
        false => {
            "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)"
        }
    });
    for (at, time) in times.iter().enumerate() {
        let (overall, computed) = (printed(2 * time + 7), printed(time + 5));
        let between = match full {
            true => format!("{0}  {0}  {0}", printed(time / 3)),
            false => String::new(),
        };
        let around = match full {
            true => format!("{}  {}", printed(time / 2), printed(2 * time)),
            false => String::new(),
        };
        output.line(&format!(
            "{}  {overall}  {computed}  {between}  {}  {around}  44.29",
            size(at),
            printed(*time)
        ));
        let key = format!(
            "mpi.nonblocking-{name}-latency processes=4 size={} transport=mpi",
            size(at)
        );
        let metrics = [
            ("average-time", nanos(*time)),
            ("overall-time", nanos(2 * time + 7)),
        ];
        output.says(&key, &metrics);
    }
    output
}

/// OSU's tests between two processes: title, head, our name, its metric.
const OSU_PAIRS: [(&str, &str, &str, &str); 6] = [
    (" Latency", "Latency (us)", "mpi.latency", "one-way-latency"),
    (
        "_Put Latency",
        "Latency (us)",
        "mpi.put-latency",
        "completion-latency",
    ),
    (
        "_Get latency",
        "Latency (us)",
        "mpi.get-latency",
        "completion-latency",
    ),
    (
        " Bandwidth",
        "Bandwidth (MB/s)",
        "mpi.bandwidth",
        "cached-bandwidth",
    ),
    (
        " Bi-Directional Bandwidth",
        "Bandwidth (MB/s)",
        "mpi.bandwidth-both",
        "cached-bandwidth",
    ),
    (
        "_Put Bandwidth",
        "Bandwidth (MB/s)",
        "mpi.put-bandwidth",
        "cached-bandwidth",
    ),
];

fn osu_pair(at: usize, figures: &Times) -> Output {
    let (title, head, name, metric) = OSU_PAIRS[at % OSU_PAIRS.len()];
    let mut output = Output::default();
    let version = VERSIONS[at % VERSIONS.len()];
    output.line(&format!("# OSU MPI{title} Test {version}"));
    if title.starts_with('_') {
        output.line("# Window creation: MPI_Win_allocate");
        output.line("# Synchronization: MPI_Win_flush");
    }
    output.line(&format!("# Size          {head}"));
    for (at, figure) in figures.iter().enumerate() {
        output.line(&format!("{:<10}{:>18}", size(at), printed(*figure)));
        let value = match metric {
            "cached-bandwidth" => nanos(*figure) * 1000.0,
            _ => nanos(*figure),
        };
        let key = format!("{name} size={} transport=mpi", size(at));
        output.says(&key, &[(metric, value)]);
    }
    output
}

const IMB_COLLECTIVES: [(&str, &str); 8] = [
    ("Allreduce", "allreduce"),
    ("Reduce_scatter", "reduce-scatter"),
    ("Allgatherv", "allgatherv"),
    ("Alltoall", "alltoall"),
    ("Bcast", "bcast"),
    ("Gather", "gather"),
    ("Scatter", "scatter"),
    ("Exchange", "exchange"),
];

fn imb(at: usize, nonblocking: bool, times: &Times) -> Output {
    let (title, name) = IMB_COLLECTIVES[at % IMB_COLLECTIVES.len()];
    let before = if nonblocking { "I" } else { "" };
    let mut output = Output::default();
    let rule = "#----------------------------------------------------------------";
    output.line(rule);
    output.line(&format!(
        "# Benchmarking {before}{}",
        match nonblocking {
            true => title.to_lowercase(),
            false => title.to_owned(),
        }
    ));
    output.line("# #processes = 4 ");
    output.line("# ( 12 additional processes waiting in MPI_Barrier)");
    output.line(rule);
    output.line(match nonblocking {
        true => "       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]",
        false => "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]",
    });
    for (at, time) in times.iter().enumerate() {
        let figures = match nonblocking {
            true => [2 * time + 7, *time, time + 3].map(printed).join("  ") + "  50.00",
            false => [time / 2, 2 * time, *time].map(printed).join("  "),
        };
        output.line(&format!("{:>13}         1000  {figures}", size(at)));
        let name = format!("imb.{}{name}", before.to_lowercase());
        let key = format!("{name} processes=4 size={} transport=mpi", size(at));
        let mut metrics = vec![("average-time", nanos(*time))];
        if nonblocking {
            metrics.push(("overall-time", nanos(2 * time + 7)));
        }
        output.says(&key, &metrics);
    }
    output
}

const NCCL: [(&str, &str, &str); 5] = [
    ("all_reduce", "all-reduce", "sum"),
    ("all_gather", "all-gather", "none"),
    ("reduce_scatter", "reduce-scatter", "sum"),
    ("alltoall", "alltoall", "none"),
    ("sendrecv", "sendrecv", "none"),
];

fn nccl(at: usize, old: bool, times: &Times) -> Output {
    let (title, name, operation) = NCCL[at % NCCL.len()];
    let mut output = Output::default();
    output.line(&format!("# Collective test starting: {title}_perf"));
    let settings = "# nThread 1 nGpus 4 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5";
    output.line(&match old {
        true => format!("{settings} iters: 20 validation: 1 "),
        false => format!("{settings} iters: 20 agg iters: 1 validation: 1 graph: 0"),
    });
    output.line("#");
    output.line("# Using devices");
    for rank in 0..4 {
        output.line(&format!(
            "#  Rank  {rank} Group  0 Pid  4{rank} on   node17 device  {rank} [0x07] NVIDIA A100"
        ));
    }
    output.line("#");
    let wrong = if old { "error" } else { "#wrong" };
    let half = format!("time   algbw   busbw  {wrong}");
    output.line(
        "#                                          out-of-place                    in-place",
    );
    output.line(&format!(
        "#       size         count      type   redop    root  {half}  {half}"
    ));
    output.line("#        (B)    (elements)    (us)  (GB/s)  (GB/s)    (us)  (GB/s)  (GB/s)");
    for (at, time) in times.iter().enumerate() {
        let bytes = size(at) << 10;
        let rate = |time: u64| format!("{:.2}", bytes as f64 / nanos(time));
        let half = |time: u64| {
            let (rate, right) = (rate(time), if old { "0e+00" } else { "0" });
            format!("{}  {rate}  {rate}  {right}", printed(time))
        };
        let (out, within) = (*time, time + 11);
        output.line(&format!(
            "{bytes:>12} {:>12}     float  {operation:>6}      -1  {}  {}",
            bytes / 4,
            half(out),
            half(within)
        ));
        for (place, time) in [("out", out), ("in", within)] {
            let redop = match operation {
                "none" => String::new(),
                operation => format!("redop={operation} "),
            };
            let key =
                format!("nccl.{name} place={place} processes=4 {redop}size={bytes} type=float");
            let rate = rate(time).parse::<f64>().unwrap() * 1e9;
            let metrics = [
                ("average-time", nanos(time)),
                ("bandwidth", rate),
                ("bus-bandwidth", rate),
            ];
            output.says(&key, &metrics);
        }
    }
    output.line("# Out of bounds values : 0 OK");
    output.line("# Avg bus bandwidth    : 4.1234 ");
    output.line("#");
    output
}

fn output() -> impl Strategy<Value = Output> {
    let times = proptest::collection::vec(100u64..5_000_000, 1..12);
    (0usize..7, 0usize..24, 0usize..3, any::<[bool; 2]>(), times).prop_map(
        |(kind, at, library, [full, checked], times)| match kind {
            0 | 1 => osu_collective(at, library, Options { full, checked }, &times),
            2 => osu_nonblocking(at, full, &times),
            3 => osu_pair(at, &times),
            4 => imb(at, full, &times),
            _ => nccl(at, full, &times),
        },
    )
}

/// Prefixes of lines, and line ends.
const PASSED_ON: [(&str, &str); 5] = [
    ("", "\n"),
    ("", "\r\n"),
    ("[1,0]<stdout>:", "\n"),
    ("[0] ", "\n"),
    ("> > ", "\n"),
];

fn passed_on(text: &str, way: usize) -> String {
    let (before, end) = PASSED_ON[way];
    let lines = text.lines();
    lines.map(|line| format!("{before}{line}{end}")).collect()
}

/// Returns hints with the number of processes, which OSU's collectives do not print.
fn hints(text: &str) -> Hints {
    let is_collective = text.contains("Avg Latency") || text.contains("Pure Comm");
    Hints::of(None, is_collective.then_some(4)).unwrap()
}

proptest! {
    #[test]
    fn every_figure_is_imported_as_printed(output in output(), way in 0..PASSED_ON.len()) {
        let text = passed_on(&output.text, way);
        let (points, warnings) = parse(&text, &hints(&text)).unwrap();
        prop_assert_eq!(words_of(&points), output.said, "{}", text);
        prop_assert!(warnings.is_empty(), "{:?}", warnings);
    }

    #[test]
    fn several_outputs_in_one_file_are_separated(
        outputs in proptest::collection::vec(output(), 2..4),
    ) {
        let text: String = outputs.iter().map(|output| output.text.as_str()).collect();
        let (points, _) = parse(&text, &hints(&text)).unwrap();
        let mut found = words_of(&points);
        let mut said: Vec<String> = outputs.into_iter().flat_map(|output| output.said).collect();
        for words in [&mut found, &mut said] {
            words.sort();
            words.dedup();
        }
        prop_assert_eq!(found, said, "{}", text);
    }

    #[test]
    fn truncated_and_negative_rows_are_refused(
        output in output(),
        row in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let lines: Vec<&str> = output.text.lines().collect();
        let is_row =
            |line: &str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        let rows: Vec<usize> = (0..lines.len()).filter(|at| is_row(lines[*at])).collect();
        let at = rows[row.index(rows.len())];
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        let damaged = match cut {
            true => words[..words.len() - 1].join(" "),
            // Only the figures in the second half of a row are parsed.
            false => {
                let negative = |(place, word): (usize, &&str)| {
                    match word.contains('.') && place + 1 >= words.len() / 2 {
                        true => format!("-{word}"),
                        false => (*word).to_owned(),
                    }
                };
                words.iter().enumerate().map(negative).collect::<Vec<_>>().join(" ")
            }
        };
        let mut all: Vec<&str> = lines.clone();
        all[at] = &damaged;
        let refused = parse(&all.join("\n"), &hints(&output.text));
        let reason = refused.expect_err(&damaged);
        prop_assert!(reason.contains(&format!("line {}", at + 1)), "{}", reason);
    }
}
