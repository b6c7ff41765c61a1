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
use verbena_subnet::{Fabric, Kind, build};
use verbena_topology::{Topology, read};
use verbena_umad::connect;
use verbena_umad::protocol::{Hello, Purpose};

use crate::failure::Failure;

/// The variable with the directory of a program's node.
pub const VARIABLE: &str = "VERBENA_FABRIC";
/// Name of the topology's file in the directory of a fabric.
const TOPOLOGY: &str = "topology";
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

/// Makes the files of a node, and returns the connection. It keeps the fabric if the purpose says
/// so.
///
/// # Errors
///
/// Fails if the process that keeps the fabric has ended.
pub fn join(directory: &Path, node: u32, purpose: Purpose) -> Result<OwnedFd, Failure> {
    let hello = Hello {
        purpose,
        is_nonblocking: false,
        index: 0,
        node,
    };
    connect(directory, hello).map_err(Failure::system("reach the fabric's process"))
}

/// Returns the environment of programs at a node.
///
/// # Errors
///
/// Fails if the libraries are not found.
pub fn environment(directory: &Path, node: u32) -> Result<Environment, Failure> {
    let libraries = Libraries::beside_this_executable()?;
    let place = directory.join(node.to_string());
    Ok(Environment::new(&libraries).with(VARIABLE, place))
}
