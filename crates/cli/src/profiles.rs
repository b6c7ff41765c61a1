//! The options about the models' profiles.

use crate::failure::Failure;
use crate::host::HOST;
use crate::output::outln;
use std::path::PathBuf;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_bench::target::{Found, Target};
use verbena_model::profile::Library;

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

/// Measurements that correct a model.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AnchorOptions {
    /// Correct the model by a measurement; may be repeated
    ///
    /// A file with output of perftest or the OSU benchmarks, results of `verbena bench --out`, or a
    /// figure such as latency.write:8=1.88us or bandwidth.write:64=330MB/s. Of each curve one short
    /// message is used; the rest is compared.
    #[arg(long = "anchor", value_name = "FILE|FIGURE")]
    pub anchors: Vec<String>,
}

impl AnchorOptions {
    /// Checks that anchors have one model to correct.
    ///
    /// # Errors
    ///
    /// Fails if there are anchors and not exactly one of the targets is a model.
    pub fn check(&self, targets: &[Target]) -> Result<(), Failure> {
        let is_model = |target: &&Target| matches!(target, Target::Model { .. });
        match targets.iter().filter(is_model).count() {
            _ if self.anchors.is_empty() => Ok(()),
            1 => Ok(()),
            0 => Err(Failure::Input(
                "--anchor corrects a model: use --on model:PROFILE".to_owned(),
            )),
            _ => Err(Failure::Input(
                "--anchor is of one machine, and several models are given; save each machine with \
                 `verbena machine add` and use --on machine:NAME"
                    .to_owned(),
            )),
        }
    }

    /// Finds a target; a model is corrected by the anchors.
    ///
    /// # Errors
    ///
    /// Fails if it does not exist, or cannot be anchored.
    pub fn find(&self, profiles: &ProfileOptions, target: &Target) -> Result<Found, Failure> {
        let profiles = Profiles {
            anchors: self.anchors.clone(),
            ..profiles.profiles()
        };
        Ok(target.find(&HOST, &profiles)?)
    }
}

/// Prints the remarks of anchored models.
pub fn print_remarks<'a>(models: impl IntoIterator<Item = &'a ModelTarget>) {
    for model in models {
        for remark in &model.remarks {
            outln!("{}: {remark}", model.label());
        }
    }
}

impl ProfileOptions {
    pub fn profiles(&self) -> Profiles {
        Profiles {
            set: self.set.clone(),
            directories: self.profiles.clone(),
            anchors: Vec::new(),
        }
    }

    /// Reads the profiles.
    ///
    /// # Errors
    ///
    /// Fails if a setting is malformed, or a profile cannot be read.
    pub fn library(&self) -> Result<Library, Failure> {
        Ok(self.profiles().library()?)
    }

    /// Finds a target; a model is one of these profiles.
    ///
    /// # Errors
    ///
    /// Fails if it does not exist.
    pub fn find(&self, target: &Target) -> Result<Found, Failure> {
        Ok(target.find(&HOST, &self.profiles())?)
    }
}
