//! Sources of expected ranges: the model's figure for the same measurement with its wide interval,
//! and the capacity of the link. Published figures are shown for reference.

use crate::Failure;
use crate::published;
use std::cmp::Ordering;
use verbena_calibrate::interval::{Interval, Intervals, Subject as Predicted};
use verbena_calibrate::residual::FigureKind;
use verbena_calibrate::residual::published as curves;
use verbena_measure::result::Point;
use verbena_model::profile::{Library, ProfileKind, System};
use verbena_report::expectation::{Basis, Expectation, Range, Reference};
use verbena_report::gather::rows;
use verbena_report::headline::{Headline, Subject, headlines};
use verbena_report::run_directory::Loaded;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Budget, Options, Record, Sweep, find};

/// Why there is no range for latencies of several pairs.
const NO_PAIRS: &str = "no source: without a published curve of several pairs, the error of the \
                        models is unknown";
/// Why there is no range for memory.
const NO_MEMORY: &str = "no source: the models do not cover host memory, and no vendor states it";

/// The sources of the figures expected of a system.
pub struct Sources<'a> {
    library: &'a Library,
    intervals: Intervals,
    /// Name of the adapter's profile.
    adapter: String,
    system: System,
}

impl<'a> Sources<'a> {
    /// Returns the sources for a system.
    ///
    /// # Errors
    ///
    /// Fails if a profile or the stored residuals cannot be read.
    pub fn of(library: &'a Library, name: &str) -> Result<Sources<'a>, Failure> {
        let wrong = |error: verbena_model::profile::Error| Failure::Input(error.to_string());
        Ok(Sources {
            library,
            intervals: Intervals::shipped().map_err(|error| Failure::Input(error.to_string()))?,
            adapter: library.system_names(name).map_err(wrong)?.adapter.clone(),
            system: library.system(name).map_err(wrong)?,
        })
    }

    pub fn about(&self) -> &str {
        &self.system.about
    }

    /// Returns the expectation for a figure.
    ///
    /// # Errors
    ///
    /// Fails if the model or the published figures cannot be evaluated.
    pub fn expectation(&self, headline: &Headline) -> Result<Expectation, Failure> {
        let mut expected = Expectation {
            subject: headline.subject,
            ranges: Vec::new(),
            references: self.references(headline)?,
            missing: String::new(),
        };
        let (benchmark, kind) = match headline.subject {
            Subject::Latency => ("latency.write", FigureKind::Latency),
            Subject::Bandwidth => ("bandwidth.write", FigureKind::Bandwidth),
            Subject::Rate => ("rate.window", FigureKind::Bandwidth),
            Subject::Scaling => {
                expected.missing = NO_PAIRS.to_owned();
                return Ok(expected);
            }
            Subject::Memory => {
                expected.missing = NO_MEMORY.to_owned();
                return Ok(expected);
            }
        };
        let Some(size) = headline.size.filter(|size| *size >= 1.0) else {
            expected.missing = "no source: the message size is unknown".to_owned();
            return Ok(expected);
        };
        expected.ranges.extend(self.limit(headline.subject, size));
        let Some(model) = self.figure(benchmark, headline)? else {
            expected.missing = format!("no source: the model has no {benchmark} at this size");
            return Ok(expected);
        };
        let subject = Predicted::of(benchmark, kind, size as u64).map(|subject| Predicted {
            adapter: Some(self.adapter.clone()),
            ..subject
        });
        match subject.and_then(|subject| self.intervals.interval(&subject)) {
            Some(interval) => {
                // A sound machine shall not fail: the wide interval.
                let (low, high) = interval.wide_range(model);
                expected.ranges.push(Range {
                    basis: Basis::Model,
                    low: Some(low),
                    high: Some(high),
                    source: self.source(headline.subject.display(model), &interval),
                });
            }
            None => {
                expected.missing =
                    "no source: too few published curves are of this kind".to_owned();
            }
        }
        Ok(expected)
    }

    fn source(&self, model: String, interval: &Interval) -> String {
        format!(
            "model {}: {model}; {:.0} % interval {}",
            self.system.name,
            100.0 * interval.wide_level,
            interval.origin()
        )
    }

    /// Returns the link's capacity, headers included.
    fn limit(&self, subject: Subject, size: f64) -> Option<Range> {
        let rate = self.system.link.rate.0 * self.system.ports.max(1) as f64;
        let high = match subject {
            Subject::Bandwidth => rate,
            Subject::Rate => rate / size,
            _ => return None,
        };
        let used = self.library.used_by(&self.system.name).ok()?;
        let is_rate = |value: &&verbena_model::profile::Recorded| {
            value.kind == ProfileKind::Link && value.key == "rate"
        };
        // The profile's own value precedes that of its base.
        let recorded = used.iter().find(is_rate)?;
        Some(Range {
            basis: Basis::Link,
            low: None,
            high: Some(high),
            source: format!("{}: {}", recorded.path, recorded.source),
        })
    }

    /// Returns the model's figure for the same measurement.
    fn figure(&self, benchmark: &str, headline: &Headline) -> Result<Option<f64>, Failure> {
        let size = headline.size.map(|size| vec![size as usize]);
        let run = self.modelled(benchmark, size)?;
        let rows = rows(&run);
        if headline.subject == Subject::Rate {
            let mut found = headlines(&run, &rows).into_iter();
            let rate = found.find(|one| one.subject == Subject::Rate);
            return Ok(rate.map(|rate| rate.value));
        }
        let figures = rows.iter().filter(|row| row.benchmark == benchmark);
        let figures = figures.flat_map(|row| &row.figures);
        let values = figures.filter(|figure| figure.name == headline.metric);
        let values = values.map(|figure| figure.value);
        // Of several ways to receive, the slowest counts.
        Ok(match headline.subject {
            Subject::Bandwidth => values.min_by(f64::total_cmp),
            _ => values.max_by(f64::total_cmp),
        })
    }

    fn modelled(&self, benchmark: &str, sizes: Option<Vec<usize>>) -> Result<Loaded, Failure> {
        let wrong = |reason: String| {
            let name = &self.system.name;
            Failure::Suite(format!("{benchmark} on the model {name}: {reason}"))
        };
        let found = find(benchmark).ok_or_else(|| wrong("no such benchmark".to_owned()))?;
        let ran = Modelled {
            options: Options {
                sizes,
                transports: Some(vec!["rc".to_owned()]),
                ..Options::default()
            },
            budget: Budget {
                sweep: Sweep::Coarse,
                ..Budget::virtual_time()
            },
            ..Modelled::new(&self.system, found)
        };
        let ran = ran.run().map_err(|error| wrong(error.to_string()))?;
        let point = |record| match record {
            Record::Point(point) => Some(*point),
            _ => None,
        };
        let points: Vec<Point> = ran.records.into_iter().filter_map(point).collect();
        Ok(Loaded {
            points,
            ..Loaded::default()
        })
    }

    /// Returns published figures for the same measurement on the same system.
    fn references(&self, headline: &Headline) -> Result<Vec<Reference>, Failure> {
        let name = &self.system.name;
        let claims = published::of_system(name)?.into_iter();
        let is_like = |known: &published::Known| {
            known.figure.subject == headline.subject && headline.is_of_a_published_size()
        };
        let claims = claims.filter(is_like).map(|known| Reference {
            value: known.figure.value,
            source: format!("{} ({})", known.figure.text(), known.claim),
        });
        let mut found: Vec<Reference> = claims.collect();
        let Some(size) = headline.size else {
            return Ok(found);
        };
        let (benchmark, factor) = match headline.subject {
            Subject::Latency => ("latency.write", 1e3),
            Subject::Bandwidth => ("bandwidth.write", 1e6),
            Subject::Rate => ("bandwidth.write", 1e6 / size),
            Subject::Scaling | Subject::Memory => return Ok(found),
        };
        let curves = curves(name, benchmark, size as u64);
        let curves = curves.map_err(|error| Failure::Suite(error.to_string()))?;
        found.extend(curves.into_iter().map(|figure| {
            let value = figure.value * factor;
            let shown = headline.subject.display(value);
            Reference {
                value,
                source: format!("{shown} ({}, {})", figure.curve, figure.author),
            }
        }));
        found.sort_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal));
        Ok(found)
    }
}
