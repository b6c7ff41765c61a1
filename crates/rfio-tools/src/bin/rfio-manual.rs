//! `rfio-manual DIRECTORY`: writes the manual pages and shell completions of all tools below a
//! `share` directory.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;
use verbena_rfio_tools::{arguments, exit};

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        exit::report(
            "rfio-manual",
            "no directory given; name the directory to write to",
        );
        return exit::with(exit::BAD_PARAMETER);
    };
    match write(Path::new(&directory)) {
        Ok(()) => exit::with(exit::OK),
        Err(error) => {
            exit::report("rfio-manual", error);
            exit::with(exit::SYSTEM)
        }
    }
}

fn write(directory: &Path) -> std::io::Result<()> {
    for (place, shell) in SHELLS {
        let place = directory.join(place);
        std::fs::create_dir_all(&place)?;
        for mut command in arguments::all() {
            let program = command.get_name().to_owned();
            clap_complete::generate_to(shell, &mut command, program, &place)?;
        }
    }
    for command in arguments::all() {
        let (page, section) = match command.get_name() {
            "rfiod" => ("man/man8", "8"),
            _ => ("man/man1", "1"),
        };
        let place = directory.join(page);
        std::fs::create_dir_all(&place)?;
        let path = place.join(format!("{}.{section}", command.get_name()));
        let mut text = Vec::new();
        clap_mangen::Man::new(command)
            .section(section)
            .render(&mut text)?;
        text.extend_from_slice(EXIT_STATUS.as_bytes());
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Directories in which shells look for completions of installed programs.
const SHELLS: [(&str, Shell); 3] = [
    ("bash-completion/completions", Shell::Bash),
    ("zsh/site-functions", Shell::Zsh),
    ("fish/vendor_completions.d", Shell::Fish),
];

/// The codes of [`exit`] as a manual section.
const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
.nf
0    success
1    bad parameter
2    refused by the system or the server
3    unknown error
16   busy: another writer, or no room for a session
28   no space
196  ended by a signal
200  a checksum does not match
.fi
";
