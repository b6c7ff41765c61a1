//! `verbena __manual DIRECTORY`: writes the manual pages and the shell completions, from the command line itself, to their
//! places below a `share` directory. `make install` calls it.

use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::exit::{Exit, TABLE};
use crate::failure::Failure;

/// Where to.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The `share` directory
    directory: PathBuf,
}

/// Where shells look for completions of installed programs.
const SHELLS: [(&str, Shell); 3] = [
    ("bash-completion/completions", Shell::Bash),
    ("zsh/site-functions", Shell::Zsh),
    ("fish/vendor_completions.d", Shell::Fish),
];

/// Writes them.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    write(&arguments.directory).map_err(|source| Failure::System {
        doing: "write the manual",
        source,
    })?;
    Ok(Exit::Success)
}

fn write(directory: &Path) -> std::io::Result<()> {
    let mut command = crate::command_line();
    for (place, shell) in SHELLS {
        let place = directory.join(place);
        std::fs::create_dir_all(&place)?;
        clap_complete::generate_to(shell, &mut command, "verbena", &place)?;
    }
    let place = directory.join("man/man1");
    std::fs::create_dir_all(&place)?;
    // The table of exit codes is for `--help` laid out in columns; here it is a section.
    let documented = crate::command_line()
        .after_help("")
        .disable_help_subcommand(true);
    clap_mangen::generate_to(documented, &place)?;
    for entry in std::fs::read_dir(&place)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "verbena.1" || name.starts_with("verbena-") {
            let mut text = std::fs::read_to_string(&path)?;
            text += &exit_status();
            std::fs::write(&path, text)?;
        }
    }
    Ok(())
}

/// The exit codes as a section, a line each.
fn exit_status() -> String {
    let codes: Vec<&str> = TABLE.lines().skip(1).map(str::trim_start).collect();
    format!(".SH \"EXIT STATUS\"\n.nf\n{}\n.fi\n", codes.join("\n"))
}
