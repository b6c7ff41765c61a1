//! The report over synthetic runs: complete, offline, with hostile names escaped.

use verbena_measure::bound::Bound;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Finding, Metric, Point};
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_report::gather::findings;
use verbena_report::headline::Subject;
use verbena_report::html::{Beside, Described, page};
use verbena_report::run_directory::Loaded;
use verbena_report::schema::{Run, VERSION};
use verbena_report::summary::{Extent, Published};

fn run(label: &str, factor: f64) -> Loaded {
    let points = (0..5).flat_map(|launch| {
        [8.0, 64.0, 4096.0].map(|size: f64| {
            let samples = (0..200).map(|i| factor * (300.0 + size / 10.0 + f64::from(i % 9)));
            let sample = Sample::new(samples.collect()).unwrap();
            Point {
                benchmark: "latency.write".to_owned(),
                launch,
                parameters: [
                    ("size".to_owned(), size.into()),
                    ("transport".to_owned(), "rc".into()),
                ]
                .into(),
                metrics: vec![
                    Metric::time("one-way-latency", &sample),
                    Metric::figure("worst-pair", "ns", Better::Lower, 1.0),
                ],
                pairs: vec![],
                conduct: Conduct {
                    validated: true,
                    ..Conduct::default()
                },
                hot_ports: Vec::new(),
                warnings: vec![],
            }
        })
    });
    Loaded {
        run: Run {
            schema: VERSION,
            label: label.to_owned(),
            launches: 5,
            ..Run::default()
        },
        points: points.collect(),
        ..Loaded::default()
    }
}

fn described() -> Vec<Described> {
    vec![Described {
        name: "latency.write".to_owned(),
        group: "Latency".to_owned(),
        answers: "How long?".to_owned(),
        source: "perftest".to_owned(),
        axis: "size".to_owned(),
    }]
}

#[test]
fn only_completed_launches_are_counted() {
    let all = run("all of them", 1.0);
    let said = |run: Loaded| page(&[run], &described(), &Beside::default());
    assert!(said(all.clone()).contains("<span>5 launches"));
    let mut first = all.clone();
    first.points.retain(|point| point.launch == 0);
    assert!(said(first).contains("<span>1 of 5 launches"));
    let mut some = all;
    let further: Vec<Point> = some.points.iter().take(1).cloned().collect();
    some.points.extend(further.into_iter().map(|point| Point {
        benchmark: "latency.read".to_owned(),
        ..point
    }));
    assert!(said(some).contains("<span>1 to 5 of 5 launches"));
}

#[test]
fn a_report_is_self_contained() {
    let html = page(
        &[run("one <&> \"two\"", 1.0)],
        &described(),
        &Beside::default(),
    );
    assert!(html.contains("</html>") && html.contains("<svg") && html.contains("<table>"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(
            !html.contains(outside),
            "the report refers outside: {outside}"
        );
    }
    assert!(html.contains("one &lt;&amp;&gt; &quot;two&quot;"));
    assert!(html.len() < 5_000_000);
    // A single script, the page's own, and the version of the program.
    assert_eq!(html.matches("<script").count(), 1);
    let version = format!("<footer>Written by Verbena {}", env!("CARGO_PKG_VERSION"));
    assert!(html.contains(&version));
}

#[test]
fn a_question_is_answered_in_a_sentence() {
    let html = page(&[run("one", 1.0)], &described(), &Beside::default());
    assert!(
        html.contains("The receiver of 8 B sees a write after 305 ns."),
        "{html}"
    );
}

#[test]
fn two_runs_are_overlaid_with_ratios() {
    let html = page(
        &[run("a", 1.0), run("b", 1.5)],
        &described(),
        &Beside::default(),
    );
    assert!(html.contains("b over a"));
    assert!(
        html.contains("class=\"interval worse\""),
        "a slow-down by half is a regression"
    );
}

#[test]
fn a_run_without_points_gives_a_page() {
    let html = page(&[Loaded::default()], &described(), &Beside::default());
    assert!(html.contains("0 points of 0 benchmarks"));
}

#[test]
fn a_history_reports_when_a_level_changed() {
    use verbena_report::comparison::Thresholds;
    use verbena_report::history::moves;
    // An outlier in the third run, then a lasting regression.
    let factors = [1.0, 1.01, 1.4, 0.99, 1.0, 1.2, 1.21, 1.2, 1.19];
    let runs: Vec<Loaded> = factors.iter().map(|factor| run("r", *factor)).collect();
    let moved = moves(&runs, &Thresholds::default());
    assert_eq!(moved.len(), 3, "{moved:#?}");
    for step in &moved {
        assert!(step.worse && step.holds && step.run == 5, "{step:?}");
    }
    assert_eq!(moves(&runs[..2], &Thresholds::default()), []);
}

fn finding(name: &str, launch: u32, value: Option<f64>) -> Finding {
    Finding {
        benchmark: "latency.write".to_owned(),
        launch,
        name: name.to_owned(),
        parameters: Default::default(),
        value,
        unit: String::new(),
        range: value.map(|value| Interval {
            low: value,
            high: value * 1.04,
        }),
        text: match value {
            Some(value) => format!("{value} fit"),
            None => "nothing".to_owned(),
        },
    }
}

#[test]
fn a_knee_in_one_of_three_launches_is_discarded() {
    let mut loaded = run("r", 1.0);
    let found = [Some(30.0), None, None, Some(400.0), Some(40.0), Some(37.0)];
    let said = |name, launch: usize| finding(name, launch as u32, found[launch]);
    let rare = (0..3).map(|launch| said("translation-knee", launch));
    let often = (0..6).map(|launch| said("context-knee", launch));
    loaded.findings = rare.chain(often).collect();
    let values: Vec<Option<f64>> = findings(&loaded).iter().map(|f| f.finding.value).collect();
    assert_eq!(values, [None, Some(40.0)]);
}

#[test]
fn launches_without_a_finding_count_against_it() {
    let mut loaded = run("r", 1.0);
    // One launch of five had a slow pair; the other four denied it.
    loaded.findings = vec![finding("slow-pair", 0, Some(7.8))];
    let voted = findings(&loaded);
    assert_eq!((voted[0].by, voted[0].of), (1, 5));
    assert!(!voted[0].holds());
    let html = page(&[loaded.clone()], &described(), &Beside::default());
    assert!(
        html.contains("4 of 5 launches contradict that 7.8 fit"),
        "{html}"
    );
    loaded.findings = (0..4).map(|i| finding("slow-pair", i, Some(2.0))).collect();
    assert!(findings(&loaded)[0].holds());
    let html = page(&[loaded], &described(), &Beside::default());
    assert!(html.contains("4 of 5 launches; 1 contradict"), "{html}");
}

#[test]
fn knee_uncertainty_reflects_agreement_of_launches() {
    let mut loaded = run("r", 1.0);
    let said = [4096.0, 5793.0, 8192.0, 5793.0, 4096.0];
    let said = said.into_iter().zip(0..);
    loaded.findings = said
        .map(|(at, launch)| finding("translation-knee", launch, Some(at)))
        .collect();
    let voted = findings(&loaded);
    let range = voted[0].range.unwrap();
    assert_eq!(voted[0].finding.value, Some(5793.0));
    assert_eq!((range.low, range.high), (4096.0, 8192.0 * 1.04));
    let html = page(&[loaded], &described(), &Beside::default());
    assert!(html.contains("5793 fit, between 4096 and"), "{html}");
}

/// Ten runs, more than there are colours, with many curves each: every one is drawn and named, and
/// keeps its own bound.
#[test]
fn every_curve_of_every_run_is_drawn() {
    let many = |label: &str, bound: f64| {
        let mut loaded = run(label, 1.0);
        let points = loaded.points.iter().filter(|point| point.launch == 0);
        let kinds = (1..=9).flat_map(|pairs| points.clone().map(move |point| (pairs, point)));
        loaded.points = kinds
            .map(|(pairs, point)| {
                let mut point = point.clone();
                let value = f64::from(pairs);
                point.parameters.insert("pairs".to_owned(), value.into());
                point.metrics[0].bound = Some(Bound {
                    value: bound,
                    reason: "a link".to_owned(),
                });
                point
            })
            .collect();
        loaded
    };
    let labels: Vec<String> = (0..10).map(|i| format!("run-{i}")).collect();
    let runs: Vec<Loaded> = labels.iter().map(|label| many(label, 50.0)).collect();
    let html = page(&runs, &described(), &Beside::default());
    let section = &html[html.find("id=\"latency.write\"").unwrap()..];
    for label in &labels {
        for pairs in 1..=9 {
            let line = format!("\"><title>{label}: {pairs} pairs</title></path>");
            assert_eq!(section.matches(&line).count(), 1, "{line}");
            let bound = format!("<title>bound of {label}: {pairs} pairs</title>");
            assert_eq!(section.matches(&bound).count(), 1, "{bound}");
        }
        assert!(section.contains(&format!("\">{label}</text>")), "{label}");
    }
    // A line that goes from one curve to another would return to the same x.
    for path in section.split("<path class=\"line c").skip(1) {
        let path = path.split("d=\"M").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        let xs = path.split('L').map(|p| p.split(' ').next().unwrap());
        let xs: Vec<f64> = xs.map(|x| x.parse().unwrap()).collect();
        assert!(xs.is_sorted_by(|a, b| a <= b), "{path}");
    }
}

/// The first screen: the figure with its interval, its word, and its rank beside a model and a
/// paper.
#[test]
fn a_tile_shows_figure_interval_and_rank() {
    let published = [Published {
        subject: Subject::Latency,
        adapter: "an <old> one".to_owned(),
        value: 2000.0,
        extent: Extent::Exactly,
    }];
    let beside = Beside {
        published: &published,
        ..Beside::default()
    };
    let mut model = run("modelled", 0.5);
    model.run.fabric = "model".to_owned();
    let html = page(&[run("mine", 1.0), model], &described(), &beside);
    let tile = &html[html.find("<section class=\"tile\">").expect("a tile")..];
    let tile = &tile[..tile.find("</section>").unwrap()];
    for words in [
        "<p class=\"value\">305 ns</p>",
        "over 5 launches",
        "best of 2 over a wire<span class=\"next\">, ahead of an &lt;old&gt; one, published</span>",
        "<td class=\"text\">not comparable</td>",
        "modelled",
        "2 us",
    ] {
        assert!(tile.contains(words), "{words} is not in {tile}");
    }
    assert!(html.contains("<b>Strong:</b>") && html.contains("<b>Distrust:</b>"));
    assert!(!html.contains("id=\"changes\""), "a model is no change");
}

/// The figures behind a drawing can be copied as tab-separated text with all digits.
#[test]
fn figures_can_be_copied_from_tables() {
    let html = page(&[run("mine", 1.0)], &described(), &Beside::default());
    let text = html.split("<pre tabindex=\"0\">run\t").nth(1).unwrap();
    let text = text.split("</pre>").next().unwrap();
    let line = text.lines().nth(1).unwrap();
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!(
        fields.len(),
        text.lines().next().unwrap().split('\t').count() + 1
    );
    assert_eq!(fields[2..4], ["one-way-latency", "ns"]);
    assert_eq!(fields[4].parse::<f64>().unwrap(), 304.8);
}

/// Programs see the bandwidth over alternating buffers; that over a cached buffer is labelled as
/// such.
#[test]
fn the_cached_bandwidth_is_not_the_headline() {
    let mut loaded = run("r", 1.0);
    for point in &mut loaded.points {
        point.benchmark = "bandwidth.write".to_owned();
        let (used, cached) = match point.parameters["size"].to_string().as_str() {
            "64" => (20e9, 95e9),
            _ => (14e9, 60e9),
        };
        let figure = |name, value| Metric::figure(name, "bytes/s", Better::Higher, value);
        point.metrics = vec![
            figure("bandwidth", used),
            figure("cached-bandwidth", cached),
        ];
    }
    let html = page(&[loaded], &described(), &Beside::default());
    let headline = html.find("reaches 14 GB/s at 4 KiB").expect("the largest");
    let cached = html.find("stays in the caches").expect("the cached one");
    assert!(headline < cached && html[cached..].contains("95 GB/s at 64 B"));
}
