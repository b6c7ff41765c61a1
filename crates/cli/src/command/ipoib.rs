//! `verbena ipoib --address ADDRESS [OPTIONS] -- CMD...`: runs CMD in a user and a network
//! namespace with an IP interface on the adapter.
//!
//! This process opens the adapter and serves the interface. CMD's process, `__ipoib-enter` until it
//! executes CMD, makes the namespaces and the interface, passes the interface's device to this
//! process over a socket, and waits until that is ready.

use std::env;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use verbena_bench::host::Host;
use verbena_hca_net::fabric::Fabric;
use verbena_hca_net::link;
use verbena_ipoib::address::Prefixed;
use verbena_ipoib::descriptor;
use verbena_ipoib::engine::{Engine, Failure as EngineFailure, Mode};
use verbena_ipoib::hardware_address::HardwareAddress;
use verbena_ipoib::namespace::{self, Plan};
use verbena_ipoib::sysfs::Link;
use verbena_run::environment::Environment;
use verbena_run::supervise;

use crate::adapter_options::{self as options, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::host::HOST;
use crate::number;

/// The arguments of `verbena ipoib`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Give the interface this address; may be repeated
    ///
    /// With the length of its prefix, such as 10.0.0.1/24 or fd00::1/64.
    #[arg(long, value_name = "ADDRESS", required = true)]
    address: Vec<Prefixed>,

    /// Name the interface
    #[arg(long, value_name = "NAME", default_value = "ib0", value_parser = interface)]
    name: String,

    /// Send to neighbours as datagrams, or by connections
    ///
    /// Connections (RFC 4755) carry packets of up to 65520 bytes. Neighbours in datagram mode are
    /// reached as datagrams.
    #[arg(long, value_name = "MODE", default_value = "datagram")]
    mode: ModeName,

    /// Give the interface this MTU in bytes
    ///
    /// By default the longest: 65520 in connected mode, where the least is 576, else that of the
    /// port less 4.
    #[arg(long, value_name = "BYTES", value_parser = number::between::<u32>(68..=65_520))]
    mtu: Option<u32>,

    /// Put the interface into the partition with this P_Key
    ///
    /// Its port must be a member. Interfaces of different partitions do not reach each other.
    #[arg(long, value_name = "P_KEY", default_value = "0xffff", value_parser = partition)]
    partition: u16,

    /// Print the interface's counters when the command has ended
    ///
    /// Packets sent, delivered and dropped, by reason, on standard error.
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    options: Options,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// A mode, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ModeName {
    /// As datagrams (RFC 4391)
    Datagram,
    /// By connections to neighbours that accept them (RFC 4755)
    Connected,
}

impl ModeName {
    fn mode(self) -> Mode {
        match self {
            ModeName::Datagram => Mode::Datagram,
            ModeName::Connected => Mode::Connected,
        }
    }
}

/// The arguments of the process that becomes the command.
#[derive(Debug, clap::Args)]
pub struct EnterArguments {
    /// Number of the socket
    #[arg(long, value_parser = number::between::<u32>(0..=i32::MAX as u64))]
    control: u32,

    /// Name of the interface
    #[arg(long)]
    name: String,

    /// MTU of the interface
    #[arg(long, value_parser = number::between::<u32>(0..=u64::from(u16::MAX)))]
    mtu: u32,

    /// Address of the interface
    #[arg(long)]
    address: Vec<Prefixed>,

    /// Link-local address of the interface
    #[arg(long)]
    link_local: Option<Prefixed>,

    /// Hardware address of the interface
    #[arg(long)]
    hardware: HardwareAddress,

    /// Mode of the interface
    #[arg(long)]
    mode: ModeName,

    /// Key of the interface's partition
    #[arg(long, value_parser = number::between::<u32>(0..=u64::from(u16::MAX)))]
    partition: u32,

    /// Port of the interface
    #[arg(long, value_parser = number::between::<u32>(0..=u64::from(u8::MAX)))]
    port: u32,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Checks the name of an interface, as the kernel does.
fn interface(name: &str) -> Result<String, String> {
    let is_refused = |byte: u8| byte == b'/' || byte == b':' || !byte.is_ascii_graphic();
    let is_long = name.len() > verbena_ipoib::LONGEST_NAME;
    // "all" and "default" are no interfaces in /proc/sys/net.
    let is_taken = ["", ".", "..", "lo", "all", "default"].contains(&name);
    match is_taken || is_long {
        false if !name.bytes().any(is_refused) && !name.contains('%') => Ok(name.to_owned()),
        _ => Err(format!(
            "an interface's name has 1 to {} printable characters, without /, : and %, and is not \
             lo, all or default",
            verbena_ipoib::LONGEST_NAME
        )),
    }
}

/// Reads the key of a partition, as a number or hexadecimal, and returns that of its full members.
fn partition(text: &str) -> Result<u16, String> {
    const FULL_MEMBER: u16 = 0x8000;
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    match u16::from_str_radix(digits, radix) {
        Ok(key) if is_number && key & !FULL_MEMBER != 0 => Ok(key | FULL_MEMBER),
        _ => Err("a P_Key is a number from 0x1 to 0xffff other than 0x8000".to_owned()),
    }
}

/// Checks that no address is given twice.
fn check_addresses(addresses: &[Prefixed]) -> Result<(), Failure> {
    for (at, one) in addresses.iter().enumerate() {
        let is_repeated = |other: &Prefixed| other.address == one.address;
        if addresses[..at].iter().any(is_repeated) {
            return Err(Failure::Input(format!(
                "--address {one}: the address is given twice"
            )));
        }
    }
    Ok(())
}

/// Runs the command and serves its interface.
///
/// # Errors
///
/// Fails if the adapter cannot be used or the command cannot be run.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    restart_with(&arguments.options.environment()?)?;
    // Refuses a misspelt option before anything starts.
    options::program("ipoib", &arguments.command)?;
    check_addresses(&arguments.address)?;
    let library = HOST.software_library()?;
    check_interface()?;
    let mut engine = Engine::open(
        &library,
        &arguments.name,
        &arguments.address,
        (arguments.mode.mode(), arguments.partition),
        arguments.mtu,
    )?;
    let fabric = link::fabric().map_or(0, Fabric::number);
    engine.publish_in(HOST.runtime_directory(), fabric);
    let (own, inherited) = descriptor::pair().map_err(Failure::system("make a socket"))?;
    let command = enter_command(engine.plan(), inherited.as_raw_fd(), &arguments.command)?;
    let serving = thread::spawn(move || {
        let served = engine.serve(&own);
        if let Err(error) = &served {
            eprintln!("verbena: the interface ends: {error}");
        }
        served
    });
    let status = supervise::run(command, || options::name(&arguments.command));
    // The command has ended: no other process has this socket.
    drop(inherited);
    let served = serving.join().expect("the interface does not panic");
    let status = status?;
    if let Ok(Some(counters)) = served
        && arguments.stats
    {
        // On standard error, because standard output belongs to the command.
        eprint!("{}:\n{counters}", arguments.name);
    }
    Ok(Exit::of_child(status))
}

/// Checks that the Ethernet interface of the adapter's first port, if that is one, has the address
/// that multicast groups need.
fn check_interface() -> Result<(), Failure> {
    let Some(name) = HOST.interface(1) else {
        return Ok(());
    };
    let addresses = HOST.interface_addresses(&name);
    let addresses = addresses.map_err(Failure::system("ask for the addresses of an interface"))?;
    match addresses.iter().any(|one| one.is_ipv6()) {
        true => Ok(()),
        false => Err(EngineFailure::NoIpv6 { name }.into()),
    }
}

/// Restarts this process if variables of the adapter differ from those of the options: the adapter
/// reads them in this process.
fn restart_with(environment: &Environment) -> Result<(), Failure> {
    let differs = |(name, value): &(&str, &std::ffi::OsStr)| {
        name.starts_with("VERBENA_") && env::var_os(name).as_deref() != Some(*value)
    };
    let changes: Vec<_> = environment.variables().filter(differs).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let program = env::current_exe().map_err(Failure::system("find this program"))?;
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).envs(changes);
    Err(Failure::system("restart this program")(command.exec()))
}

/// Returns the command of the process that becomes the user's.
fn enter_command(plan: &Plan, control: i32, words: &[OsString]) -> Result<Command, Failure> {
    let program = env::current_exe().map_err(Failure::system("find this program"))?;
    let mut command = Command::new(program);
    command.arg("__ipoib-enter");
    command.args(["--control", &control.to_string()]);
    command.args(["--name", &plan.name, "--mtu", &plan.mtu.to_string()]);
    for address in &plan.addresses {
        command.args(["--address", &address.to_string()]);
    }
    if let Some(address) = plan.link_local {
        command.args(["--link-local", &address.to_string()]);
    }
    if let Some(link) = &plan.link {
        command.args(["--hardware", &link.hardware.to_string()]);
        command.args(["--mode", link.mode.name()]);
        command.args(["--partition", &link.partition.to_string()]);
        command.args(["--port", &link.port.to_string()]);
    }
    command.arg("--").args(words);
    Ok(command)
}

/// Makes the namespaces and the interface, and becomes the command.
///
/// # Errors
///
/// Fails if namespaces or the interface cannot be made, or the command cannot be executed.
pub fn enter(arguments: EnterArguments) -> Result<Exit, Failure> {
    let control = descriptor::inherited(arguments.control.cast_signed());
    let control = control.map_err(Failure::system("use the socket of `verbena ipoib`"))?;
    let plan = Plan {
        name: arguments.name,
        mtu: arguments.mtu,
        addresses: arguments.address,
        link_local: arguments.link_local,
        link: Some(Link {
            hardware: arguments.hardware,
            mode: arguments.mode.mode(),
            partition: arguments.partition as u16,
            port: arguments.port as u8,
        }),
    };
    let made = namespace::enter(&plan)?;
    let descriptors: Vec<BorrowedFd<'_>> = made.descriptors.iter().map(AsFd::as_fd).collect();
    descriptor::send(&control, made.index, &descriptors)
        .map_err(Failure::system("pass the TUN device on"))?;
    drop(made);
    let is_ready = descriptor::wait(&control);
    if !is_ready.map_err(Failure::system("wait for `verbena ipoib`"))? {
        // It has printed the reason.
        return Ok(Exit::Environment);
    }
    let error = options::program("ipoib", &arguments.command)?.exec();
    Err(supervise::Failure::of_exec(options::name(&arguments.command), error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_those_of_the_kernel() {
        for name in ["ib0", "a", "ib0.8001", "fifteen-letters"] {
            assert_eq!(interface(name).as_deref(), Ok(name));
        }
        for name in [
            "",
            "lo",
            ".",
            "..",
            "a/b",
            "a b",
            "ib%d",
            "a:b",
            "sixteen-letters-",
            "all",
            "default",
        ] {
            assert!(interface(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn partitions_have_the_key_of_full_members() {
        for text in ["0x10", "0x8010", "16", "32784"] {
            assert_eq!(partition(text), Ok(0x8010), "{text}");
        }
        assert_eq!(partition("0x7fff"), Ok(0xffff));
        for text in ["", "0", "0x8000", "0x10000", "-1", "0x", "+0x1", "storage"] {
            assert!(partition(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_address_is_given_once() {
        let all = ["10.0.0.1/24", "10.0.0.2/24", "fd00::1/64", "10.0.0.1/16"];
        let all = all.map(|text| text.parse::<Prefixed>().unwrap());
        assert!(check_addresses(&all[..3]).is_ok());
        let error = check_addresses(&all).unwrap_err();
        assert_eq!(error.exit(), Exit::WrongInput);
        assert!(error.to_string().contains("10.0.0.1/16"), "{error}");
    }
}
