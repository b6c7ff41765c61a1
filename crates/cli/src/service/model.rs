//! The paper's server in virtual time: Figure 6 as the model of its hosts has it, to lay beside what was measured.

use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};
use verbena_model::profile::{Library, Overrides, Profile};
use verbena_predict::bench::file_service;
use verbena_report::run_directory::Loaded;
use verbena_report::schema::{Run, VERSION};

use crate::failure::Failure;

/// The profile of the paper's server.
const SERVER: &str = "infinihost-opteron";

/// A run of `rfio.readers` on the paper's hosts, with these numbers of readers.
pub fn predict(readers: &[usize]) -> Result<Loaded, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let library = Library::shipped(&Overrides::none()).map_err(|error| input(&error))?;
    let system = library.system(SERVER).map_err(|error| input(&error))?;
    let Some(Profile::FileService(service)) = library.profile("rfio") else {
        return Err(input(&"the profile of the file service is not shipped"));
    };
    let point = |&count: &usize| {
        let served = file_service(&system, service, count);
        let rate = served.aggregate * 1e6;
        Point {
            benchmark: "rfio.readers".to_owned(),
            launch: 0,
            parameters: Parameters::from([("readers".to_owned(), Value::from(count))]),
            metrics: vec![
                Metric::figure("aggregate-bandwidth", "bytes/s", Better::Higher, rate),
                Metric::figure(
                    "reader-bandwidth",
                    "bytes/s",
                    Better::Higher,
                    rate / count as f64,
                ),
                Metric::figure("server-cpus", "", Better::Lower, served.processors),
            ],
            pairs: Vec::new(),
            conduct: Conduct::default(),
            warnings: Vec::new(),
        }
    };
    Ok(Loaded {
        run: Run {
            schema: VERSION,
            label: format!("model of {SERVER}"),
            fabric: "model".to_owned(),
            device: SERVER.to_owned(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            ..Run::default()
        },
        points: readers.iter().map(point).collect(),
        ..Loaded::default()
    })
}
