//! `rfstat`: shows files' attributes.

use std::process::ExitCode;

use crate::arguments::{self, Status};
use crate::{display, remote, say};

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Status = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    remote::each(
        "rfstat",
        &arguments.places,
        arguments.connection.options(),
        |session, _, path| {
            let about = match arguments.no_follow {
                true => remote::link_status(session, path)?,
                false => remote::status(session, path)?,
            };
            say!("{path}");
            say!(
                "  device {:x}, inode {}, links {}",
                about.device,
                about.inode,
                about.links
            );
            say!(
                "  mode {} ({:04o}), owner {}, group {}",
                display::mode(about.mode),
                about.mode & 0o7777,
                about.owner,
                about.group
            );
            say!(
                "  size {} bytes, {} blocks of 512",
                about.size,
                about.blocks
            );
            say!("  accessed {} UTC", display::moment(about.accessed));
            say!("  modified {} UTC", display::moment(about.modified));
            say!("  changed  {} UTC", display::moment(about.changed));
            Ok(())
        },
    )
}
