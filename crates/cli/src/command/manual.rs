//! `verbena __manual DIRECTORY`: generates the manual pages and shell completions below a `share`
//! directory. `make install` calls it.

use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::exit::{Exit, TABLE};
use crate::failure::Failure;
use crate::{command_line, variables};

/// Where to.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The `share` directory
    directory: PathBuf,
}

/// Directories in which shells look for completions of installed programs.
const SHELLS: [(&str, Shell); 3] = [
    ("bash-completion/completions", Shell::Bash),
    ("zsh/site-functions", Shell::Zsh),
    ("fish/vendor_completions.d", Shell::Fish),
];

/// Writes the manual pages and completions.
///
/// # Errors
///
/// Fails if a file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    write(&arguments.directory).map_err(Failure::system("write the manual"))?;
    Ok(Exit::Success)
}

fn write(directory: &Path) -> std::io::Result<()> {
    let mut command = command_line::complete();
    for (place, shell) in SHELLS {
        let place = directory.join(place);
        std::fs::create_dir_all(&place)?;
        clap_complete::generate_to(shell, &mut command, "verbena", &place)?;
    }
    let place = directory.join("man/man1");
    std::fs::create_dir_all(&place)?;
    // `--help` sets examples, variables and exit codes in columns; in a manual page each is a
    // section.
    let documented = command_line::bare();
    clap_mangen::generate_to(documented, &place)?;
    for entry in std::fs::read_dir(&place)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let subcommand = match name.strip_prefix("verbena") {
            Some("") => "",
            Some(rest) if rest.starts_with('-') => &rest[1..],
            _ => continue,
        };
        let mut text = std::fs::read_to_string(&path)?;
        let examples = command_line::examples(subcommand);
        if !examples.is_empty() {
            text += &section("EXAMPLES", examples.iter().copied());
        }
        text += &section("ENVIRONMENT", variables::all().lines());
        text += &section("EXIT STATUS", TABLE.lines().skip(1).map(str::trim_start));
        std::fs::write(&path, text)?;
    }
    Ok(())
}

/// Returns a section whose lines are not filled.
fn section<'a>(title: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let escaped = |line: &str| line.replace('\\', "\\e").replace('-', "\\-");
    let lines: Vec<String> = lines.map(escaped).collect();
    format!(".SH \"{title}\"\n.nf\n{}\n.fi\n", lines.join("\n"))
}
