//! `verbena fabric up`: a program on a new fabric.
//!
//! The fabric's state is in a separate process, which ends with its last user: this command, and
//! each open device file. If it is killed, reads of device files fail, so no program hangs.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use verbena_bench::fabric_files;
use verbena_run::supervise;
use verbena_subnet::{Fabric, Manager, partitions};
use verbena_umad::protocol::Purpose;

use super::attach;
use super::generated;
use super::keep::READY;
use super::opensm::OpenSm;
use crate::adapter_options as options;
use crate::exit::Exit;
use crate::failure::Failure;

/// Looks for the end of the fabric's process, and the pause between them.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// The subnet manager of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SubnetManager {
    /// A small one inside the fabric: all ports are active at once
    Builtin,
    /// OpenSM, which must be installed
    Opensm,
    /// None: ports stay initialised until a program configures them
    None,
}

/// The arguments of `verbena fabric up`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Topology: a shape, or a file, `-` for standard input [a switch, two hosts]
    ///
    /// Shapes are fat-tree:PORTS (two levels of such switches), fat-tree:LEAVES,SPINES,HOSTS (hosts
    /// of a leaf), torus:XxYxZ[,HOSTS] and dragonfly:GROUPS,SWITCHES,HOSTS,CABLES (of a group, of a
    /// switch, of a switch to other groups). Files are the output of ibnetdiscover (also -p and
    /// -g), opensm-subnet.lst, ibdiagnet2.db_csv, a net file of ibsim or Slurm's topology.conf.
    /// Ports keep the LIDs that it states.
    #[arg(long, value_name = "SHAPE|FILE")]
    topology: Option<PathBuf>,

    /// Subnet manager
    #[arg(long, value_enum, value_name = "SM", default_value = "builtin")]
    sm: SubnetManager,

    /// Set these partitions
    ///
    /// In the syntax of OpenSM's partitions.conf: `NAME=P_KEY, ipoib : GUID=full, ALL=limited;`.
    /// Without them, all ports are full members of the default partition.
    #[arg(long, value_name = "FILE")]
    partitions: Option<PathBuf>,

    /// Run the command at this node
    ///
    /// Its description, a word of it, or its GUID. By default the node from which the topology was
    /// discovered, else the first host.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Command to run, with its arguments [a shell]
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Starts the fabric's process, runs the command, and ends the process unless others use it.
///
/// # Errors
///
/// Fails if the topology is invalid or the command cannot be run.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let content = match &arguments.topology {
        None => verbena_subnet::SMALL.into(),
        Some(file) => match file.to_str().and_then(generated::text) {
            Some(text) => text.map_err(Failure::Input)?.into_bytes(),
            None => fabric_files::content(file)?,
        },
    };
    let (topology, fabric) = attach::parse(&content).map_err(|error| match error {
        Failure::Input(text) => {
            let file = arguments
                .topology
                .as_deref()
                .unwrap_or(Path::new("topology"));
            Failure::Input(format!("{}: {text}", file.display()))
        }
        other => other,
    })?;
    for remark in &topology.remarks {
        eprintln!(
            "verbena: {} ({}), such as {}",
            remark.text,
            remark.count,
            remark.examples.join("; ")
        );
    }
    let unusable = verbena_subnet::unusable_lids(&topology);
    if let Some(first) = unusable.first() {
        eprintln!(
            "verbena: {} LIDs of the topology are invalid or of another port, such as {first}; \
             their ports get others",
            unusable.len()
        );
    }
    unreached(&fabric, arguments.sm);
    let partitions = match &arguments.partitions {
        Some(file) => Some(partitions(file, &fabric, arguments.sm)?),
        None => None,
    };
    let node = attach::node(&topology, &fabric, arguments.node.as_deref())?;
    let directory = attach::make_directory()?;
    let stored = Stored {
        topology: &content,
        partitions: partitions.as_deref(),
    };
    let kept = Kept::start(directory, stored, arguments.sm, node)?;
    let environment = attach::environment(&kept.directory, node)?;
    let manager = match arguments.sm {
        SubnetManager::Opensm => {
            let partitions = partitions.is_some();
            Some(OpenSm::start(&kept.directory, &environment, partitions)?)
        }
        _ => None,
    };
    let mut words = arguments.command.clone();
    if words.is_empty() {
        words.push(env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    }
    let command = options::command("fabric up", &words, &environment)?;
    let status = supervise::run(command, || options::name(&words))?;
    drop(manager);
    Ok(Exit::of_child(status))
}

/// Prints the nodes that the fabric's manager does not reach, if there are any.
fn unreached(fabric: &Fabric, manager: SubnetManager) {
    let Some(place) = Manager::place(fabric).filter(|_| manager == SubnetManager::Builtin) else {
        return;
    };
    let unreached = fabric.unreached(place);
    if let Some(&first) = unreached.first() {
        eprintln!(
            "verbena: {} nodes have no path to {}, where the subnet manager is, such as {}: their \
             ports stay initialised or down",
            unreached.len(),
            fabric.nodes[place.node as usize].text(),
            fabric.nodes[first as usize].text()
        );
    }
}

/// Reads the partitions of a file, and returns its content.
fn partitions(file: &Path, fabric: &Fabric, manager: SubnetManager) -> Result<String, Failure> {
    if manager == SubnetManager::None {
        let text = "--partitions needs a subnet manager: --sm builtin or opensm";
        return Err(Failure::Input(text.to_owned()));
    }
    let invalid = |error: &dyn std::fmt::Display| {
        Failure::Input(format!("cannot read {}: {error}", file.display()))
    };
    // A byte more shows that the file is too long.
    let most = partitions::MOST_BYTES as u64;
    let mut content = Vec::new();
    File::open(file)
        .and_then(|file| file.take(most + 1).read_to_end(&mut content))
        .map_err(|error| invalid(&error))?;
    if content.len() as u64 > most {
        return Err(invalid(&format!("the file has more than {most} bytes")));
    }
    let content = String::from_utf8(content).map_err(|error| invalid(&error.utf8_error()))?;
    match partitions::read(&content) {
        Ok(partitions) => {
            let unknown = partitions::unknown_ports(&partitions, fabric);
            if let Some(first) = unknown.first() {
                eprintln!(
                    "verbena: {}: {} port GUIDs are not on the fabric, such as {first:#018x}",
                    file.display(),
                    unknown.len()
                );
            }
        }
        // OpenSM reads more flags and members, but leaves out invalid lines without a message.
        Err(error) if manager == SubnetManager::Opensm => eprintln!(
            "verbena: {}: the builtin manager would refuse {error}; OpenSM may ignore the file",
            file.display()
        ),
        Err(error) => return Err(invalid(&error)),
    }
    Ok(content)
}

/// The files of a fabric's process.
struct Stored<'a> {
    topology: &'a [u8],
    partitions: Option<&'a str>,
}

/// The fabric's process, kept by a connection.
struct Kept {
    directory: PathBuf,
    process: Child,
    connection: Option<std::os::fd::OwnedFd>,
}

impl Kept {
    fn start(
        directory: PathBuf,
        files: Stored<'_>,
        manager: SubnetManager,
        node: u32,
    ) -> Result<Kept, Failure> {
        let stored = attach::store_content(files.topology, &directory)
            .and_then(|()| attach::store_partitions(files.partitions, &directory));
        let started = stored.and_then(|()| Kept::start_process(&directory, manager));
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                return Err(error);
            }
        };
        // From here on dropping it ends the process.
        let mut kept = Kept {
            directory,
            process,
            connection: None,
        };
        match attach::join(&kept.directory, node, Purpose::User) {
            Ok(connection) => {
                kept.connection = Some(connection);
                Ok(kept)
            }
            Err(error) => {
                let _ = kept.process.kill();
                Err(error)
            }
        }
    }

    /// Starts the process, and waits until it is ready.
    fn start_process(directory: &Path, manager: SubnetManager) -> Result<Child, Failure> {
        let log = directory.join("log");
        let errors = File::create(&log).map_err(Failure::system("make the fabric's log"))?;
        let executable = env::current_exe().map_err(Failure::system("find this program"))?;
        let name = clap::ValueEnum::to_possible_value(&manager);
        let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
        let mut command = Command::new(executable);
        command
            .args(["fabric", "__keep"])
            .arg(directory)
            .arg(name)
            // Signals of the terminal are for the command.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut process = command
            .spawn()
            .map_err(Failure::system("start the fabric's process"))?;
        let mut line = String::new();
        let output = process.stdout.take().map(BufReader::new);
        let read = output.map_or(Ok(0), |mut output| output.read_line(&mut line));
        if read.is_ok() && line.trim_end() == READY {
            return Ok(process);
        }
        let _ = process.kill();
        let _ = process.wait();
        let why = match read {
            Ok(_) => fs::read_to_string(&log).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        let why = why.trim();
        let why = why.strip_prefix("verbena: ").unwrap_or(why);
        Err(Failure::Input(format!("the fabric does not start: {why}")))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.connection = None;
        // It removes the directory itself, unless it is killed; other users may keep it longer.
        for _ in 0..LOOKS {
            match self.process.try_wait() {
                Ok(Some(_)) => {
                    let _ = fs::remove_dir_all(&self.directory);
                    return;
                }
                Ok(None) => thread::sleep(PAUSE),
                Err(_) => return,
            }
        }
    }
}
