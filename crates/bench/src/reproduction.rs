//! Converts the models' results for the published claims to the report's terms.

use crate::Failure;
use crate::interrupt;
use crate::profiles::Profiles;
use crate::progress_line::Bar;
use verbena_calibrate::predictions::Predictions;
use verbena_measure::unit::display;
use verbena_model::profile::{Library, Tag};
use verbena_report::chart::line::{LineChart, Mark, Reference, Series};
use verbena_report::chart::scale::Kind;
use verbena_report::html::{
    Claim, Figure as Point, Fitted, Held, Paper, Plot, Predicted, Reproduction, Validation,
};
use verbena_reproduce::claims::{Evaluated, Verdict, evaluate, shipped};
use verbena_reproduce::figures::{Axis, Figure, Position as Place, Published, Scale};
use verbena_reproduce::sensitivity::Sensitivity;
use verbena_reproduce::table;
use verbena_reproduce::validation::{self, Validated};

/// Evaluates the claims alone, for an evaluation's report; `None` if the user interrupted.
///
/// # Errors
///
/// Fails if profiles or claims cannot be read.
pub fn quick(profiles: &Profiles, threads: usize) -> Result<Option<Reproduction>, Failure> {
    let library = profiles.library()?;
    let claims = shipped().map_err(|error| Failure::Input(error.to_string()))?;
    let bar = Bar::new(claims.len(), "published claims on their models");
    Ok(interrupt::unless_interrupted(move || {
        let results = evaluate(&library, &claims, threads, &|_, _| bar.step());
        reproduction(&library, &results, &[], None)
    }))
}

/// Returns claims and figures by paper, and the fitted values with the claims they affect.
pub fn reproduction(
    library: &Library,
    results: &[Evaluated],
    figures: &[Figure],
    sensitivity: Option<&[Sensitivity]>,
) -> Reproduction {
    let mut papers: Vec<Paper> = Vec::new();
    for result in results {
        let name = result.claim.paper();
        if papers.last().is_none_or(|paper| paper.name != name) {
            papers.push(Paper {
                name: name.to_owned(),
                claims: Vec::new(),
                plots: figures
                    .iter()
                    .filter(|figure| figure.paper() == name)
                    .map(plot)
                    .collect(),
            });
        }
        if let Some(paper) = papers.last_mut() {
            paper.claims.push(claim(result));
        }
    }
    Reproduction {
        verdict: table::summary(library, results),
        papers,
        anchored: None,
        validation: None,
        fitted: fitted(library, sensitivity),
    }
}

/// Largest relative error of a point on a validation curve.
const POINT: f64 = 0.25;

/// Returns published curves that no value was fitted to, beside the models' curves, and the quality
/// of the predictions.
pub fn validation(validated: &[Validated], predictions: &Predictions) -> Validation {
    Validation {
        verdict: validation::summary(validated),
        target: POINT,
        curves: validated.iter().map(held).collect(),
        tables: predictions.text(),
    }
}

fn held(validated: &Validated) -> Held {
    let curve = &validated.curve;
    let (unit, factor) = match curve.unit.as_str() {
        "us" => ("ns", 1e3),
        _ => ("bytes/s", 1e6),
    };
    let (xs, published): (Vec<f64>, Vec<f64>) = curve
        .points
        .iter()
        .map(|(bytes, figure)| (*bytes as f64, figure * factor))
        .unzip();
    let model: Vec<f64> = validated.model.iter().map(|one| one * factor).collect();
    let series = |label: &str, ys: &[f64]| Series {
        label: label.to_owned(),
        points: xs.iter().copied().zip(ys.iter().copied()).collect(),
    };
    let figures = xs.iter().zip(published.iter().zip(&model));
    Held {
        plot: Plot {
            id: curve.id.clone(),
            place: curve.place.clone(),
            note: Some(format!("Computed on {}", curve.system)),
            chart: LineChart {
                title: curve.id.clone(),
                x_name: "message size".to_owned(),
                x_unit: "bytes".to_owned(),
                x_kind: Kind::Log,
                y_unit: unit.to_owned(),
                y_kind: Kind::Log,
                series: vec![series("published", &published), series("model", &model)],
                marks: Vec::new(),
                references: Vec::new(),
            },
        },
        judged: Predicted {
            benchmark: format!("residuals of {}", curve.id),
            mean: validated.mean(),
            figures: figures
                .map(|(bytes, (measured, model))| Point {
                    label: display(*bytes, "bytes"),
                    unit: unit.to_owned(),
                    measured: *measured,
                    model: *model,
                })
                .collect(),
        },
    }
}

fn claim(result: &Evaluated) -> Claim {
    let claim = &result.claim;
    let name = claim.id.strip_prefix(&format!("{}.", claim.paper()));
    Claim {
        name: name.unwrap_or(&claim.id).to_owned(),
        place: claim.place.clone(),
        setup: claim.setup.clone(),
        published: claim
            .check
            .clone()
            .unwrap_or_else(|| table::published(result)),
        model: table::model(result),
        error: table::error(result),
        verdict: table::verdict(result.verdict).to_lowercase(),
        met: result.verdict == Verdict::Met,
        why: (result.verdict == Verdict::Missed).then(|| table::why(result).to_owned()),
    }
}

fn fitted(library: &Library, sensitivity: Option<&[Sensitivity]>) -> Vec<Fitted> {
    let moves = |path: &str| {
        let found = sensitivity?.iter().find(|one| one.path == path)?;
        Some(found.moves.keys().cloned().collect())
    };
    let values = library
        .of_published()
        .filter(|value| value.tag == Tag::Fitted);
    let fitted = values.map(|value| Fitted {
        path: value.path.clone(),
        value: format!("{} {}", value.value, value.unit),
        bounds: value
            .bounds
            .map_or(String::new(), |(low, high)| format!("{low} to {high}")),
        source: value.source.clone(),
        moves: moves(&value.path),
    });
    fitted.collect()
}

/// Returns the report's unit, and the factor from the claims' unit.
fn unit(axis: Axis) -> (&'static str, f64) {
    match axis.unit {
        "us" => ("ns", 1e3),
        "MB/s" => ("bytes/s", 1e6),
        "B" => ("bytes", 1.0),
        other => (other, 1.0),
    }
}

fn kind(axis: Axis) -> Kind {
    match axis.scale {
        Scale::Linear => Kind::Linear,
        Scale::Log => Kind::Log,
    }
}

fn plot(figure: &Figure) -> Plot {
    let ((x_unit, x_factor), (y_unit, y_factor)) = (unit(figure.x), unit(figure.y));
    let series = figure.curves.iter().map(|curve| Series {
        label: curve.label.clone(),
        points: curve
            .points
            .iter()
            .map(|(x, y)| (x * x_factor, y * y_factor))
            .collect(),
    });
    let reference = |published: &Published, from: f64, to: f64| Reference {
        label: published.claim.clone(),
        series: published.curve,
        x: (from * x_factor, to * x_factor),
        value: published.value.map(|value| value * y_factor),
        low: published.low.map(|low| low * y_factor),
        high: published.high.map(|high| high * y_factor),
    };
    let mut chart = LineChart {
        title: figure.title.to_owned(),
        x_name: figure.x.name.to_owned(),
        x_unit: x_unit.to_owned(),
        x_kind: kind(figure.x),
        y_unit: y_unit.to_owned(),
        y_kind: kind(figure.y),
        series: series.collect(),
        marks: Vec::new(),
        references: Vec::new(),
    };
    for published in &figure.published {
        match published.place {
            Place::At(x) => chart.references.push(reference(published, x, x)),
            Place::Over(from, to) => chart.references.push(reference(published, from, to)),
            Place::OnAxis => chart.marks.extend(published.value.map(|x| Mark {
                x: x * x_factor,
                label: "published".to_owned(),
            })),
        }
    }
    Plot {
        id: figure.id.clone(),
        place: figure.place.to_owned(),
        note: figure.note.map(ToOwned::to_owned),
        chart,
    }
}
