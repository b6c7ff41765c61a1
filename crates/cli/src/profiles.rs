//! The models' profiles: the shipped ones, further directories, and single changed values.

use crate::failure::Failure;
use std::path::PathBuf;
use verbena_model::profile::{Library, Overrides};

/// Options about profiles, the same in every command that uses models.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ProfileOptions {
    /// Set a value in a profile; may be repeated
    ///
    /// For example `--set connectx.send.blueflame=1`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,

    /// Read more profiles from this directory; may be repeated
    ///
    /// They replace shipped profiles of the same name, or are added to them.
    #[arg(long, value_name = "DIR")]
    pub profiles: Vec<PathBuf>,
}

impl ProfileOptions {
    /// Returns the profiles.
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
        for directory in &self.profiles {
            library = library.and_directory(directory).map_err(|e| input(&e))?;
        }
        library.with(&overrides).map_err(|e| input(&e))
    }
}
