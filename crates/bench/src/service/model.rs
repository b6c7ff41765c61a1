//! The file service in virtual time: Figure 6, computed by the model of a server host.

use std::collections::BTreeSet;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};
use verbena_model::profile::{FileService, Library, Overrides, Profile, ProfileKind, System};
use verbena_report::run_directory::Loaded;
use verbena_report::schema::{Run, VERSION};
use verbena_reproduce::bench::{Reading, file_service};

use crate::Failure;

/// The profile of the paper's server.
const SERVER: &str = "infinihost-opteron";

/// Returns points of `rfio.readers`: readers of one cached file on a server of this system.
///
/// # Errors
///
/// Fails if the profiles lack the file service.
pub fn points(
    library: &Library,
    system: &System,
    readers: &[usize],
) -> Result<Vec<Point>, Failure> {
    let Some(Profile::FileService(service)) = library.profile(ProfileKind::FileService, "rfio")
    else {
        let text = "the profiles have no file service named rfio";
        return Err(Failure::Input(text.to_owned()));
    };
    let point = |&count: &usize| point(system, service, count);
    Ok(readers.iter().map(point).collect())
}

fn point(system: &System, service: &FileService, count: usize) -> Point {
    let served = file_service(system, service, Reading::by(count));
    let rate = served.aggregate * 1e6;
    let bandwidth = |name, value| Metric::figure(name, "bytes/s", Better::Higher, value);
    Point {
        benchmark: "rfio.readers".to_owned(),
        launch: 0,
        parameters: Parameters::from([("readers".to_owned(), Value::from(count))]),
        metrics: vec![
            bandwidth("aggregate-bandwidth", rate),
            bandwidth("reader-bandwidth", rate / count as f64),
            Metric::figure("server-cpus", "", Better::Lower, served.processors),
        ],
        pairs: Vec::new(),
        conduct: Conduct::default(),
        hot_ports: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Returns the model's prediction for the paper's server, for as many readers as were measured;
/// `None` if no readers were measured, or a model ran.
///
/// # Errors
///
/// Fails if the profiles lack the file service.
pub fn predict_beside(runs: &[Loaded]) -> Result<Option<Loaded>, Failure> {
    if runs.iter().any(|run| run.run.fabric == "model") {
        return Ok(None);
    }
    let points = runs.iter().flat_map(|run| &run.points);
    let readers: BTreeSet<usize> = points
        .filter(|point| point.benchmark == "rfio.readers")
        .filter_map(|point| match point.parameters.get("readers") {
            Some(Value::Number(count)) => Some(*count as usize),
            _ => None,
        })
        .collect();
    let readers: Vec<usize> = readers.into_iter().collect();
    match readers.is_empty() {
        true => Ok(None),
        false => predict(&readers).map(Some),
    }
}

/// Returns a run of `rfio.readers` on the paper's hosts, for comparison with measurements.
///
/// # Errors
///
/// Fails if a profile cannot be read.
fn predict(readers: &[usize]) -> Result<Loaded, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let library = Library::shipped(&Overrides::none()).map_err(|error| input(&error))?;
    let system = library.system(SERVER).map_err(|error| input(&error))?;
    Ok(Loaded {
        run: Run {
            schema: VERSION,
            label: format!("{SERVER} (model)"),
            fabric: "model".to_owned(),
            device: SERVER.to_owned(),
            command: format!("verbena bench rfio.readers --on model:{SERVER}"),
            ..Run::default()
        },
        points: points(&library, &system, readers)?,
        ..Loaded::default()
    })
}
