//! `verbena fabric sysfs DIR`: a copy of a node's files of sysfs, kept up to date.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;

use verbena_run::supervise::{SIGHUP, SIGINT, SIGTERM, stop_at};
use verbena_umad::mirror::Mirror;

use super::attach::Place;
use super::exec::PAUSE;
use crate::exit::Exit;
use crate::failure::Failure;

/// The arguments of `verbena fabric sysfs`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory to fill: a new or an empty one
    ///
    /// It takes the place of /sys: DIR/class/infiniband has the node's device, everything else
    /// leads to /sys. The files are complete once DIR/class exists, are updated four times a
    /// second, and are removed at the end.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Copy the files of this node [the node of this process]
    ///
    /// Its description, a word of it, or its GUID.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Keeps the copy until a signal comes or the fabric ends.
///
/// # Errors
///
/// Fails if this process is on no fabric, or the files cannot be made.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let stop = stop_at(&[SIGINT, SIGTERM, SIGHUP])?;
    let place = Place::of(arguments.node.as_deref())?;
    place.refresh()?;
    let mut mirror = Mirror::new(&place.files(), &arguments.directory)?;
    let mut is_failing = false;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(PAUSE);
        if !place.follow(&mut is_failing) {
            eprintln!("verbena: the fabric has ended; its files are removed");
            break;
        }
        let updated = mirror.update();
        // At the fabric's end its files go.
        if place.follow(&mut is_failing) {
            updated?;
        }
    }
    Ok(Exit::Success)
}
