//! Options for running a program on the software adapter, shared by several subcommands.

mod values;

use std::ffi::{OsStr, OsString};
use std::process::Command;

use clap::ValueEnum;
use values::{Link, Pages, Path, Tunnels};
use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;
use verbena_run::obstacle;

use crate::failure::Failure;
use crate::number;
use verbena_hca_net::link::MOST_DEVICES;
use verbena_hca_net::roce::allow::{Network, NotANetwork};

/// The variable with the directory of a program's node of a fabric.
pub const FABRIC: &str = "VERBENA_FABRIC";

/// Options of the adapter.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Use only this path to peers, not the best that works
    #[arg(long, value_enum, value_name = "PATH")]
    path: Option<Path>,

    /// Set whether pages of registered memory move into shared memory
    #[arg(long, value_enum, value_name = "WHETHER")]
    pages: Option<Pages>,

    /// Attach the ports to this host alone, or to Ethernet
    #[arg(long, value_enum, value_name = "LINK")]
    link: Option<Link>,

    /// Give the adapter N devices, verbena0 to verbena(N-1)
    ///
    /// Each has one InfiniBand port; with `--link roce` each has its own interface, or as
    /// many of those named as the others. `verbena port` takes an InfiniBand port down and up.
    #[arg(long, value_name = "N",
        value_parser = number::between::<u8>(1..=u64::from(MOST_DEVICES)))]
    devices: Option<u8>,

    /// Use this interface for `--link roce`; may be repeated
    ///
    /// Its name, or one of its addresses. Several interfaces, separated by commas or each by an
    /// option of its own, are the adapter's ports 1, 2 and so on. By default the first that is up
    /// and leads to other hosts.
    #[arg(long, value_name = "INTERFACE", requires = "link")]
    interface: Vec<OsString>,

    /// Accept packets only from this network; may be repeated
    ///
    /// With `--link roce`; such as 10.0.0.0/8 or fd00::/8. By default packets of all networks are
    /// accepted.
    #[arg(long, value_name = "NETWORK", requires = "link", value_parser = network)]
    allow: Vec<String>,

    /// Fall back to TCP where UDP packets do not arrive intact
    ///
    /// With `--link roce`; `on` by default.
    #[arg(long, value_enum, value_name = "WHETHER", requires = "link")]
    tunnels: Option<Tunnels>,
}

/// Checks that the word is a network, and returns it.
fn network(word: &str) -> Result<String, NotANetwork> {
    word.parse::<Network>().map(|_| word.to_owned())
}

impl Options {
    /// Returns the environment for these options.
    ///
    /// # Errors
    ///
    /// Fails if the adapter's libraries are not found, or a node of a fabric is to have several
    /// devices.
    pub fn environment(&self) -> Result<Environment, Failure> {
        let is_on_fabric = std::env::var_os(FABRIC).is_some_and(|place| !place.is_empty());
        if self.devices.is_some_and(|devices| devices > 1)
            && is_on_fabric
            && self.link != Some(Link::Roce)
        {
            let text = "--devices: a node of a fabric is one device; run the program at another \
                        node by `verbena fabric exec`, or outside of the fabric";
            return Err(Failure::Input(text.to_owned()));
        }
        let is_infiniband = self.link == Some(Link::Infiniband);
        let is_for_roce =
            !self.interface.is_empty() || !self.allow.is_empty() || self.tunnels.is_some();
        if is_infiniband && is_for_roce {
            let text = "--interface, --allow and --tunnels are for `--link roce`: a subnet of this \
                        host alone uses no network";
            return Err(Failure::Input(text.to_owned()));
        }
        let libraries = Libraries::beside_this_executable()?;
        let (interfaces, allowed) = (&self.interface, &self.allow);
        let interfaces = (!interfaces.is_empty()).then(|| interfaces.join(OsStr::new(",")));
        let allowed = (!allowed.is_empty()).then(|| allowed.join(",").into());
        let options = [
            ("VERBENA_PATH", self.path.map(word)),
            ("VERBENA_PAGES", self.pages.map(word)),
            ("VERBENA_LINK", self.link.map(word)),
            ("VERBENA_INTERFACE", interfaces),
            (
                "VERBENA_DEVICES",
                self.devices.map(|n| n.to_string().into()),
            ),
            ("VERBENA_ALLOW", allowed),
            ("VERBENA_TUNNELS", self.tunnels.map(word)),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Ok(
            given.fold(Environment::new(&libraries), |all, (name, value)| {
                all.with(name, value)
            }),
        )
    }
}

/// Returns an option's value as the adapter reads it.
fn word<T: ValueEnum>(value: T) -> OsString {
    let value = value.to_possible_value();
    value.map_or_else(OsString::new, |value| value.get_name().into())
}

/// Returns the command in this environment.
///
/// # Errors
///
/// Fails if the command looks like an option.
pub fn command(
    subcommand: &'static str,
    words: &[OsString],
    environment: &Environment,
) -> Result<Command, Failure> {
    let mut command = program(subcommand, words)?;
    if let Some(obstacle) = obstacle(subcommand, words) {
        eprintln!("verbena: {obstacle}");
    }
    command.envs(environment.variables());
    Ok(command)
}

/// Returns the command in this process's environment. The argument parser takes everything from the
/// first unknown word as the command, so that word may be a misspelt option.
///
/// # Errors
///
/// Fails if the command looks like an option.
pub fn program(subcommand: &'static str, words: &[OsString]) -> Result<Command, Failure> {
    let option = name(words);
    if option.starts_with('-') {
        return Err(Failure::UnknownOption { subcommand, option });
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

/// Returns the command's name for messages.
pub fn name(words: &[OsString]) -> String {
    words[0].to_string_lossy().into_owned()
}
