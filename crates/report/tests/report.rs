//! The report over synthetic runs: complete, offline, hostile names escaped.

use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Point};
use verbena_measure::sample::Sample;
use verbena_report::html::{Described, page};
use verbena_report::run_directory::Loaded;
use verbena_report::schema::{Run, VERSION};

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
fn a_report_is_whole_and_offline() {
    let html = page(&[run("one <&> \"two\"", 1.0)], &described(), None);
    assert!(html.contains("</html>") && html.contains("<svg") && html.contains("<table>"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(
            !html.contains(outside),
            "the report refers outside: {outside}"
        );
    }
    assert!(html.contains("one &lt;&amp;&gt; &quot;two&quot;"));
    assert!(html.len() < 5_000_000);
}

#[test]
fn two_runs_are_overlaid_with_ratios() {
    let html = page(&[run("a", 1.0), run("b", 1.5)], &described(), None);
    assert!(html.contains("b over a"));
    assert!(
        html.contains("class=\"interval worse\""),
        "a slow-down by half is a regression"
    );
}

#[test]
fn no_points_at_all_is_a_page_too() {
    let html = page(&[Loaded::default()], &described(), None);
    assert!(html.contains("0 points of 0 benchmarks"));
}

#[test]
fn a_history_tells_when_a_level_changed() {
    use verbena_report::comparison::Thresholds;
    use verbena_report::history::moves;
    // A bad day in the third run, then a slow-down that stays.
    let factors = [1.0, 1.01, 1.4, 0.99, 1.0, 1.2, 1.21, 1.2, 1.19];
    let runs: Vec<Loaded> = factors.iter().map(|factor| run("r", *factor)).collect();
    let moved = moves(&runs, &Thresholds::default());
    assert_eq!(moved.len(), 3, "{moved:#?}");
    for step in &moved {
        assert!(step.worse && step.holds && step.run == 5, "{step:?}");
    }
    assert_eq!(moves(&runs[..2], &Thresholds::default()), []);
}

#[test]
fn a_knee_of_one_launch_in_three_is_none() {
    use verbena_measure::result::Finding;
    use verbena_report::gather::findings;
    let mut loaded = run("r", 1.0);
    let found = [Some(30.0), None, None, Some(400.0), Some(40.0), Some(37.0)];
    let named = |name: &str, launch: usize| Finding {
        benchmark: "internals.contexts".to_owned(),
        launch: launch as u32,
        name: name.to_owned(),
        parameters: Default::default(),
        value: found[launch],
        unit: String::new(),
        range: None,
        text: String::new(),
    };
    let rare = (0..3).map(|launch| named("translation-knee", launch));
    let often = (0..6).map(|launch| named("context-knee", launch));
    loaded.findings = rare.chain(often).collect();
    let values: Vec<Option<f64>> = findings(&loaded).iter().map(|f| f.value).collect();
    assert_eq!(values, [None, Some(40.0)]);
}
