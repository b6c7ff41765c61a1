//! Options for running a program on the software adapter, shared by several subcommands.

use std::ffi::OsString;
use std::process::Command;

use crate::failure::Failure;
use crate::launch::environment::{Environment, Link, Pages, Path, Tunnels};
use crate::launch::libraries::Libraries;
use crate::launch::reach;
use crate::number;
use verbena_hca_net::link::MOST_DEVICES;
use verbena_hca_net::roce::allow::{Network, NotANetwork};

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
    #[arg(long, value_name = "N", value_parser = number::between::<u8>(1..=u64::from(MOST_DEVICES)))]
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
    /// Fails if the adapter's libraries are not found.
    pub fn environment(&self) -> Result<Environment, Failure> {
        let libraries = Libraries::beside_this_executable()?;
        Ok(Environment::new(&libraries, self.path)
            .with_pages(self.pages)
            .with_link(self.link, &self.interface)
            .with_devices(self.devices)
            .with_allowed(&self.allow)
            .with_tunnels(self.tunnels))
    }
}

/// Returns the command in this environment. The argument parser takes everything from the first
/// unknown word as the command, so that word may be a misspelt option.
///
/// # Errors
///
/// Fails if the command looks like an option.
pub fn command(
    subcommand: &'static str,
    words: &[OsString],
    environment: &Environment,
) -> Result<Command, Failure> {
    if name(words).starts_with('-') {
        let option = name(words);
        return Err(Failure::UnknownOption { subcommand, option });
    }
    if let Some(obstacle) = reach::obstacle(&words[0]) {
        eprintln!("verbena: {obstacle}; it does not use the adapter");
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(environment.variables());
    Ok(command)
}

/// Returns the command's name for messages.
pub fn name(words: &[OsString]) -> String {
    words[0].to_string_lossy().into_owned()
}
