//! `verbena port DEVICE down|up`: takes an InfiniBand port of the adapter down or up, for all of
//! this user's processes on it.

use verbena_hca_net::device::Device;
use verbena_hca_net::identity::NAME;
use verbena_hca_net::link;
use verbena_hca_net::port_switch;
use verbena_hca_os::errno::{Errno, Result as Answer};
use verbena_hca_shm::registry;
use verbena_model::profile::{Library, Overrides};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;

/// The arguments of `verbena port`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Device whose port it is, such as verbena0
    ///
    /// The first device of a program that runs `--as` another adapter is both verbena0 here and,
    /// for example, mlx5_0.
    device: String,

    /// State to bring the port to
    #[arg(value_enum)]
    state: State,
}

/// Of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    /// Send and receive nothing; programs get IBV_EVENT_PORT_ERR
    Down,
    /// Work again; programs get IBV_EVENT_PORT_ACTIVE
    Up,
}

/// Changes the port state and reports which processes have applied it.
///
/// # Errors
///
/// Fails if the device does not exist, or no process uses the adapter.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (index, most) = (index(&arguments.device), link::MOST_DEVICES);
    let Some(device) = index.and_then(Device::at) else {
        return Err(Failure::Input(format!(
            "no device {}; the devices are verbena0 to verbena{}",
            arguments.device,
            most - 1
        )));
    };
    let directory = registry::directory();
    let changed = port_switch::set(&directory, device, arguments.state == State::Down);
    let processes = match changed {
        Ok(processes) => processes,
        Err(Errno::ENOENT) => {
            return Err(Failure::Input(format!(
                "no process uses the adapter ({}); start the program first: a port stays down \
                 only while a program runs",
                directory.display()
            )));
        }
        Err(source) => {
            return Err(Failure::Registry {
                path: directory,
                source,
            });
        }
    };
    let mut exit = Exit::Success;
    for (pid, answer) in processes {
        match said(answer) {
            Ok(()) => outln!("process {pid} has changed the port"),
            Err(why) => {
                eprintln!("verbena: process {pid}: {why}");
                exit = Exit::Environment;
            }
        }
    }
    Ok(exit)
}

fn said(answer: Answer<()>) -> Result<(), String> {
    match answer {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP) => {
            Err("its ports are Ethernet; take the interface down: `ip link set IFACE down`".into())
        }
        Err(Errno::EAGAIN) => Err("it does not answer; it may be stopped".into()),
        Err(other) => Err(format!("it does not answer: {other}")),
    }
}

/// Returns the index of a device with a name of the software adapter or of an adapter that it
/// emulates.
fn index(name: &str) -> Option<u8> {
    let digits = name.rsplit(|one: char| !one.is_ascii_digit()).next()?;
    let prefix = name.strip_suffix(digits)?;
    if prefix != NAME && !emulated_names().iter().any(|name| name == prefix) {
        return None;
    }
    digits
        .parse()
        .ok()
        .filter(|index: &u8| index.to_string() == digits)
}

/// Returns the names that emulated adapters give their devices, without the index.
fn emulated_names() -> Vec<String> {
    let Ok(library) = Library::shipped(&Overrides::none()) else {
        return Vec::new();
    };
    let systems = library.systems().map(|name| library.system(name));
    systems
        .filter_map(|system| Some(system.ok()?.adapter.device?.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_emulated_adapters_have_the_same_indexes() {
        for (name, found) in [
            ("verbena0", Some(0)),
            ("mlx5_1", Some(1)),
            ("mthca0", Some(0)),
            ("verbena", None),
            ("verbena01", None),
            ("mlx5_", None),
            ("mlx9_0", None),
            ("0", None),
        ] {
            assert_eq!(index(name), found, "{name}");
        }
    }
}
