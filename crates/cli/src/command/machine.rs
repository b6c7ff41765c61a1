//! `verbena machine`: machines of the user, saved as models with anchors.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;
use crate::profiles::ProfileOptions;
use verbena_bench::anchors::remarks;
use verbena_bench::machines;
use verbena_calibrate::anchor::{Measured, SavedMachine};

/// Arguments of `verbena machine`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Save a machine from measurements, for --on machine:NAME
    Add(Add),
    /// List the saved machines
    List,
    /// Show a machine's anchors and how well its model fits
    Show {
        /// Name of the machine
        name: String,
        #[command(flatten)]
        profiles: ProfileOptions,
    },
    /// Remove a machine
    Remove {
        /// Name of the machine
        name: String,
    },
}

/// A machine to save.
#[derive(Debug, clap::Args)]
struct Add {
    /// Name of the machine: letters, digits, `.`, `_`, `-`
    name: String,

    /// Read measurements: files, or anchors; may be repeated
    ///
    /// Output of ib_write_lat, ib_write_bw, ib_send_*, ib_read_*, osu_latency, osu_bw, osu_mbw_mr;
    /// results of `verbena bench --out`; or a figure such as latency.write:8=1.88us.
    #[arg(long, value_name = "FILE|ANCHOR", required = true, num_args = 1..)]
    from: Vec<String>,

    /// Choose the system that the machine resembles most
    ///
    /// `verbena list` names the systems.
    #[arg(long, value_name = "SYSTEM")]
    like: String,

    /// Replace a machine of this name
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    profiles: ProfileOptions,
}

/// Performs the action.
///
/// # Errors
///
/// Fails if a measurement, a system or a machine cannot be read, or a file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let directory = machines::directory()?;
    match arguments.action {
        Action::Add(add) => {
            let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
            let library = add.profiles.library()?;
            let measured = Measured::of(&add.from).map_err(|error| input(&error))?;
            let saved = SavedMachine::new(&add.like, &add.from, &measured);
            let (anchored, residuals) = saved.model(&library).map_err(|error| input(&error))?;
            let path = machines::save(&directory, &add.name, &saved, add.replace)?;
            for remark in remarks(&anchored, &residuals, &measured.notes) {
                outln!("{remark}");
            }
            let (name, path) = (&add.name, path.display());
            outln!("saved as {path}; use --on machine:{name}");
        }
        Action::List => {
            for name in machines::names(&directory)? {
                match machines::load(&directory, &name) {
                    Ok(saved) => outln!("{name:<28} {}", about(&saved)),
                    Err(failure) => outln!("{name:<28} not usable: {failure}"),
                }
            }
        }
        Action::Show { name, profiles } => {
            let saved = machines::load(&directory, &name)?;
            let library = profiles.library()?;
            let model = saved.model(&library);
            let (anchored, residuals) =
                model.map_err(|error| Failure::Input(format!("machine {name:?}: {error}")))?;
            outln!("{name}: {}, from {}", about(&saved), saved.from.join(", "));
            for remark in remarks(&anchored, &residuals, &[]) {
                outln!("{remark}");
            }
        }
        Action::Remove { name } => {
            machines::remove(&directory, &name)?;
            outln!("removed {name}");
        }
    }
    Ok(Exit::Success)
}

/// Returns a machine's description.
pub fn about(saved: &SavedMachine) -> String {
    let anchors: Vec<_> = saved.anchors.iter().map(ToString::to_string).collect();
    format!("like {}: {}", saved.like, anchors.join(", "))
}
