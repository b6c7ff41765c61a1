//! The directory of a fabric, and programs at its nodes.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;
use verbena_subnet::partitions::{Partition, read as read_partitions};
use verbena_subnet::{Fabric, Kind, build};
use verbena_topology::{Topology, read};
use verbena_umad::connect;
use verbena_umad::protocol::{Hello, Purpose};

use crate::adapter_options::FABRIC;
use crate::failure::Failure;

/// Name of the topology's file in the directory of a fabric.
const TOPOLOGY: &str = "topology";
/// Name of the partitions' file there.
pub const PARTITIONS: &str = "partitions";
/// Longest name of the directory in which fabrics are: that of a socket below it has 107 bytes.
const LONGEST_PARENT: usize = 60;

/// Makes a new directory for a fabric, which only this user can enter.
///
/// # Errors
///
/// Fails if it cannot be made.
pub fn make_directory() -> Result<PathBuf, Failure> {
    // Unix sockets have short names, so this is short.
    let parent = env::temp_dir();
    let length = parent.as_os_str().len();
    if length > LONGEST_PARENT {
        return Err(Failure::Input(format!(
            "the directory for temporary files, {}, has a name of {length} bytes, and sockets \
             allow {LONGEST_PARENT}; set TMPDIR to another one",
            parent.display()
        )));
    }
    for attempt in 0u32.. {
        let path = parent.join(format!("verbena-fabric-{}-{attempt}", process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::Input(format!(
                    "cannot make a directory for the fabric in {}: {error}",
                    parent.display()
                )));
            }
        }
    }
    unreachable!("one of 2^32 names is free")
}

/// Stores the content of a topology's file for the process that keeps the fabric.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn store_content(content: &[u8], directory: &Path) -> Result<(), Failure> {
    fs::write(directory.join(TOPOLOGY), content).map_err(Failure::system("store the topology"))
}

/// Stores the partitions, if there are any.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn store_partitions(content: Option<&str>, directory: &Path) -> Result<(), Failure> {
    let stored = content.map_or(Ok(()), |content| {
        fs::write(directory.join(PARTITIONS), content)
    });
    stored.map_err(Failure::system("store the partitions"))
}

/// Reads the partitions that are stored in a directory; none if there is no file.
///
/// # Errors
///
/// Fails if the file is invalid.
pub fn stored_partitions(directory: &Path) -> Result<Vec<Partition>, Failure> {
    match fs::read_to_string(directory.join(PARTITIONS)) {
        Ok(text) => read_partitions(&text).map_err(|error| Failure::Input(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::system("read the partitions")(error)),
    }
}

/// Reads the topology that is stored in a directory.
///
/// # Errors
///
/// Fails if there is none, as the fabric has ended.
pub fn stored(directory: &Path) -> Result<(Topology, Fabric), Failure> {
    let content = fs::read(directory.join(TOPOLOGY));
    let content = content.map_err(Failure::system("read the fabric's topology"))?;
    parse(&content)
}

/// Makes the fabric of a topology.
///
/// # Errors
///
/// Fails if the content is no topology of a fabric.
pub fn parse(content: &[u8]) -> Result<(Topology, Fabric), Failure> {
    let topology = read(content).map_err(|error| Failure::Input(error.to_string()))?;
    let fabric = build(&topology).map_err(|error| Failure::Input(error.to_string()))?;
    Ok((topology, fabric))
}

/// Returns the node at which a program starts: the one named, else that from which the fabric was
/// discovered, else the first adapter with a link.
///
/// # Errors
///
/// Fails if no node or several have the name.
pub fn node(topology: &Topology, fabric: &Fabric, name: Option<&str>) -> Result<u32, Failure> {
    if let Some(name) = name {
        return fabric.named(name).map_err(Failure::Input);
    }
    let origin = topology.origin.and_then(|guid| fabric.end_of_guid(guid));
    let is_linked = |end: &verbena_subnet::End| {
        let node = &fabric.nodes[end.node as usize];
        node.kind == Kind::Adapter && fabric.port(*end).is_some_and(|port| port.peer.is_some())
    };
    let end = origin.or_else(|| fabric.ends().find(is_linked));
    Ok(end.map_or(0, |end| end.node))
}

/// A node of the fabric that this process is on.
#[derive(Debug)]
pub struct Place {
    /// The directory of the fabric.
    pub directory: PathBuf,
    /// Index of the node.
    pub node: u32,
}

impl Place {
    /// Returns the place of a node of the fabric that this process is on; without a name that of
    /// this process.
    ///
    /// # Errors
    ///
    /// Fails if this process is on no fabric, or the node does not exist.
    pub fn of(name: Option<&str>) -> Result<Place, Failure> {
        let none = || {
            let text = "this process is on no fabric; run it inside of `verbena fabric up`";
            Failure::Input(text.to_owned())
        };
        let here = env::var_os(FABRIC).map(PathBuf::from).ok_or_else(none)?;
        let directory = here.parent().ok_or_else(none)?.to_owned();
        let node = match name {
            Some(name) => stored(&directory)?.1.named(name).map_err(Failure::Input)?,
            None => {
                let number = here
                    .file_name()
                    .and_then(|name| name.to_str()?.parse().ok());
                number.ok_or_else(none)?
            }
        };
        Ok(Place { directory, node })
    }

    /// Returns the directory of the node's files.
    pub fn files(&self) -> PathBuf {
        self.directory.join(self.node.to_string())
    }

    /// Brings the node's files up to date.
    ///
    /// # Errors
    ///
    /// Fails if the process that keeps the fabric has ended.
    pub fn refresh(&self) -> Result<(), Failure> {
        join(&self.directory, self.node, Purpose::Refresh).map(drop)
    }

    /// Brings the node's files up to date, and returns whether the fabric is still there. Another
    /// error, such as a lack of descriptors, is printed once and tried again at the next call.
    pub fn follow(&self, was_failing: &mut bool) -> bool {
        let Err(error) = connect(&self.directory, hello(self.node, Purpose::Refresh)) else {
            *was_failing = false;
            return true;
        };
        let has_ended = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        let is_there = !has_ended.contains(&error.kind());
        if is_there && !std::mem::replace(was_failing, true) {
            eprintln!("verbena: the fabric's files are not up to date: {error}; trying again");
        }
        is_there
    }
}

/// Makes the files of a node, and returns the connection. It keeps the fabric if the purpose says
/// so.
///
/// # Errors
///
/// Fails if the process that keeps the fabric has ended.
pub fn join(directory: &Path, node: u32, purpose: Purpose) -> Result<OwnedFd, Failure> {
    connect(directory, hello(node, purpose)).map_err(Failure::system("reach the fabric's process"))
}

fn hello(node: u32, purpose: Purpose) -> Hello {
    Hello {
        purpose,
        is_nonblocking: false,
        index: 0,
        node,
    }
}

/// Returns the environment of programs at a node.
///
/// # Errors
///
/// Fails if the libraries are not found.
pub fn environment(directory: &Path, node: u32) -> Result<Environment, Failure> {
    let libraries = Libraries::beside_this_executable()?;
    let place = directory.join(node.to_string());
    Ok(Environment::new(&libraries).with(FABRIC, place))
}
