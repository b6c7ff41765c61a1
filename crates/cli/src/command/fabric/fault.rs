//! `verbena fabric fault PORT FAULT`: links that are cut, and errors that ports count.

use verbena_subnet::Fault;
use verbena_umad::faults::{message, named};
use verbena_umad::protocol::{Hello, Purpose};
use verbena_umad::request_fault;

use super::attach::{self, Place};
use crate::exit::Exit;
use crate::failure::Failure;

/// The arguments of `verbena fabric fault`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: verbena fabric fault switch1:2 symbol_error 100")]
pub struct Arguments {
    /// Node and number of the port, such as switch1:2
    ///
    /// The node by its description, a word of it, or its GUID.
    #[arg(value_name = "NODE:PORT")]
    port: String,

    /// Fault: down, up, flap or an error counter
    ///
    /// `down` cuts the cable, `up` mends it, `flap N` does both N times, up to 1000. The name of an
    /// error counter in /sys/class/infiniband/*/ports/*/counters, such as symbol_error, adds N to
    /// it.
    #[arg(value_name = "FAULT")]
    fault: String,

    /// Number of flaps or errors
    #[arg(value_name = "N")]
    number: Option<u32>,
}

/// Has the fabric's process execute the fault.
///
/// # Errors
///
/// Fails if this process is on no fabric, or there is no such port or fault.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let fault = named(&arguments.fault, arguments.number).map_err(Failure::Input)?;
    let directory = Place::of(None)?.directory;
    let (_, fabric) = attach::stored(&directory)?;
    let wrong = || Failure::Input(format!("{:?} is not NODE:PORT", arguments.port));
    // Descriptions may have colons.
    let (name, number) = arguments.port.rsplit_once(':').ok_or_else(wrong)?;
    let number: u8 = number.parse().map_err(|_| wrong())?;
    let node = fabric.named(name).map_err(Failure::Input)?;
    let port = fabric.nodes[node as usize].port(number);
    let none = |what: &str| Failure::Input(format!("{name:?} has no {what} {number}"));
    let port = port.ok_or_else(|| none("port"))?;
    if port.peer.is_none() && !matches!(fault, Fault::Count(..)) {
        return Err(none("link at port"));
    }
    let hello = Hello {
        purpose: Purpose::Fault,
        is_nonblocking: false,
        index: 0,
        node,
    };
    request_fault(&directory, hello, message(number, fault)).map_err(Failure::system(
        "have the fabric's process execute the fault",
    ))?;
    Ok(Exit::Success)
}
