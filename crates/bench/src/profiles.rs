//! The models' profiles: the shipped ones, further directories, and single changed values.

use crate::Failure;
use std::path::PathBuf;
use std::sync::Once;
use verbena_model::profile::{Library, Overrides, Topology};

/// Warnings about faulty files, which are printed once however often profiles are read.
static FAULTS: Once = Once::new();

/// The requested profiles.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    /// Changed values, as `PATH=NUMBER`.
    pub set: Vec<String>,
    /// Directories of further profiles, which replace shipped ones of the same name.
    pub directories: Vec<PathBuf>,
    /// The fabric that connects the nodes of every system, if it is not its own.
    pub fabric: Option<Topology>,
    /// Measurements of the machine that a model of it is corrected by: files, or figures such as
    /// `latency.write:8=1.88us`.
    pub anchors: Vec<String>,
}

impl Profiles {
    /// Reads the profiles.
    ///
    /// # Errors
    ///
    /// Fails if a setting is malformed, or a profile cannot be read.
    pub fn library(&self) -> Result<Library, Failure> {
        let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
        let mut overrides = Overrides::none();
        for setting in &self.set {
            let parsed = setting
                .split_once('=')
                .and_then(|(path, value)| Some((path, value.parse::<f64>().ok()?)));
            let Some((path, value)) = parsed else {
                return Err(Failure::Input(format!(
                    "--set {setting}: expected PATH=NUMBER, e.g. bensley.pcie.read_buffer=4096"
                )));
            };
            overrides = overrides.with(path, value);
        }
        let mut library = Library::shipped(&Overrides::none()).map_err(|e| input(&e))?;
        for directory in &self.directories {
            library = library.and_directory(directory).map_err(|e| input(&e))?;
        }
        let library = library.with(&overrides).map_err(|e| input(&e))?;
        FAULTS.call_once(|| {
            for fault in library.faults() {
                eprintln!("verbena: warning: {fault}; systems that use this profile fail");
            }
        });
        Ok(match &self.fabric {
            Some(fabric) => library.connected_as(fabric.clone()),
            None => library,
        })
    }
}
