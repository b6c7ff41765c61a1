//! `rfstat`: shows what files are.

use std::process::ExitCode;

use verbena_rfio_tools::arguments::{self, Status};
use verbena_rfio_tools::{display, remote};

fn main() -> ExitCode {
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
            println!("{path}");
            println!(
                "  device {:x}, inode {}, links {}",
                about.device, about.inode, about.links
            );
            println!(
                "  mode {} ({:04o}), owner {}, group {}",
                display::mode(about.mode),
                about.mode & 0o7777,
                about.owner,
                about.group
            );
            println!(
                "  size {} bytes, {} blocks of 512",
                about.size, about.blocks
            );
            println!("  accessed {} UTC", display::moment(about.accessed));
            println!("  modified {} UTC", display::moment(about.modified));
            println!("  changed  {} UTC", display::moment(about.changed));
            Ok(())
        },
    )
}
