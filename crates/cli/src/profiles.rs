//! The options about the models' profiles.

use crate::failure::Failure;
use crate::host::HOST;
use crate::output::outln;
use std::collections::BTreeSet;
use std::path::PathBuf;
use verbena_bench::fabric_files::FabricFiles;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_bench::target::{Found, Target};
use verbena_model::profile::{Library, Topology};

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

    /// Adds the anchors to profiles.
    pub fn added_to(&self, profiles: Profiles) -> Profiles {
        Profiles {
            anchors: self.anchors.clone(),
            ..profiles
        }
    }
}

/// Options about models, the same in every command that runs benchmarks or programs on them.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ModelOptions {
    #[command(flatten)]
    pub profiles: ProfileOptions,

    #[command(flatten)]
    fabric: FabricOptions,

    #[command(flatten)]
    anchors: AnchorOptions,
}

impl ModelOptions {
    /// Checks that anchors have one model to correct.
    ///
    /// # Errors
    ///
    /// Fails if there are anchors and not exactly one of the targets is a model.
    pub fn check(&self, targets: &[Target]) -> Result<(), Failure> {
        self.anchors.check(targets)
    }

    /// Returns whether options are given that only models use, other than anchors.
    pub fn are_given(&self) -> bool {
        !self.profiles.set.is_empty()
            || !self.profiles.profiles.is_empty()
            || self.fabric.topology.is_some()
    }

    /// Returns the profiles with the fabric and the anchors.
    ///
    /// # Errors
    ///
    /// Fails if the files of a fabric cannot be read.
    pub fn profiles(&self) -> Result<Profiles, Failure> {
        self.fabric
            .added_to(self.anchors.added_to(self.profiles.profiles()))
    }

    /// Returns the profiles, and the models that targets name; `others` is the error for other
    /// targets.
    ///
    /// # Errors
    ///
    /// Fails if anchors do not apply, a file cannot be read, or a target is not a model.
    pub fn find(
        &self,
        targets: &[Target],
        others: &str,
    ) -> Result<(Profiles, Vec<ModelTarget>), Failure> {
        self.check(targets)?;
        let profiles = self.profiles()?;
        let models = targets
            .iter()
            .map(|target| match find_in(target, &profiles)? {
                Found::Model(model) => Ok(*model),
                Found::Adapter(_) => Err(Failure::Input(others.to_owned())),
            });
        let models = models.collect::<Result<_, Failure>>()?;
        Ok((profiles, models))
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
            fabric: None,
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

    /// Reports on standard error how many values of the models among `targets` no source supports,
    /// in one line.
    ///
    /// # Errors
    ///
    /// Fails if a profile cannot be read.
    pub fn report_basis<'t>(
        &self,
        targets: impl IntoIterator<Item = &'t Target>,
    ) -> Result<(), Failure> {
        let names = targets.into_iter().filter_map(|target| match target {
            Target::Model { profile, .. } => Some(profile.as_str()),
            _ => None,
        });
        let names: BTreeSet<&str> = names.collect();
        if names.is_empty() {
            return Ok(());
        }
        let library = self.library()?;
        let counts = names
            .into_iter()
            .filter_map(|name| library.basis(name).ok()?.counts());
        let counts: Vec<String> = counts.collect();
        if !counts.is_empty() {
            eprintln!(
                "verbena: values without a measurement (assumed + of earlier adapters): {}; \
                 `verbena list --basis PROFILE` lists them",
                counts.join(", ")
            );
        }
        Ok(())
    }

    /// Finds a target; a model is one of these profiles.
    ///
    /// # Errors
    ///
    /// Fails if it does not exist.
    pub fn find(&self, target: &Target) -> Result<Found, Failure> {
        find_in(target, &self.profiles())
    }
}

/// Returns a target.
///
/// # Errors
///
/// Fails if it does not exist.
pub fn find_in(target: &Target, profiles: &Profiles) -> Result<Found, Failure> {
    Ok(target.find(&HOST, profiles)?)
}

/// Options about a fabric that exists, the same in every command that runs models on one.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FabricOptions {
    /// Connect the model's nodes as in this fabric
    ///
    /// Output of ibnetdiscover (also -p and -g), opensm-subnet.lst, ibdiagnet2.db_csv, a net file
    /// of ibsim, or Slurm's topology.conf. Each link has its rate; everything else is that of the
    /// model's profile.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,

    /// Route as these forwarding tables
    ///
    /// Output of dump_fts, dump_lfts.sh or ibroute, opensm-lfts.dump or opensm.fdbs [default:
    /// shortest paths].
    #[arg(long, value_name = "FILE", requires = "topology")]
    pub routes: Option<PathBuf>,

    /// Use these hosts of the fabric, in this order
    ///
    /// As `n[1-4],n7`, or @FILE with a host per line; a host stands for all its adapters [default:
    /// all adapters by name].
    #[arg(long, value_name = "LIST", requires = "topology")]
    pub hosts: Option<String>,
}

impl FabricOptions {
    /// Adds the fabric to profiles, if there is one.
    fn added_to(&self, profiles: Profiles) -> Result<Profiles, Failure> {
        match self.connections()? {
            None => Ok(profiles),
            fabric => Ok(Profiles { fabric, ..profiles }),
        }
    }

    /// Reads the fabric, if there is one, and prints its size and its omissions to standard error.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or does not fit the others.
    pub fn connections(&self) -> Result<Option<Topology>, Failure> {
        let files = self.topology.clone().map(|topology| FabricFiles {
            topology,
            routes: self.routes.clone(),
            hosts: self.hosts.clone(),
        });
        files.as_ref().map(connections).transpose()
    }
}

/// Reads a fabric, and prints its size and its omissions to standard error.
///
/// # Errors
///
/// Fails if a file cannot be read or does not fit the others.
pub fn connections(files: &FabricFiles) -> Result<Topology, Failure> {
    let fabric = files.load()?;
    for note in &fabric.notes {
        eprintln!("verbena: {note}");
    }
    Ok(fabric.connections)
}
