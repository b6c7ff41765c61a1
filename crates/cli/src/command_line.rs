//! The command line: subcommands in groups with examples, environment variables, exit codes. The
//! arguments of the subcommands are in `command`, one file each.

use clap::CommandFactory;
use clap::builder::StyledStr;
use std::fmt::Write;

use crate::{Arguments, exit, variables};

/// A group of related subcommands.
struct Group {
    title: &'static str,
    commands: &'static [&'static str],
}

/// The subcommands listed by `verbena --help`. A test compares them with the existing ones.
const GROUPS: [Group; 5] = [
    Group {
        title: "Run",
        commands: &[
            "demo", "run", "trace", "coverage", "faults", "capture", "ipoib", "info", "port",
        ],
    },
    Group {
        title: "Measure",
        commands: &["list", "bench", "evaluate", "compare", "history", "report"],
    },
    Group {
        title: "Predict",
        commands: &[
            "explain",
            "sweep",
            "sensitivity",
            "calibrate",
            "reproduce",
            "record",
            "import",
            "replay",
            "machine",
            "closed-loop",
            "fabric",
        ],
    },
    Group {
        title: "Serve",
        commands: &[],
    },
    Group {
        title: "Help",
        commands: &["doctor", "completions", "help"],
    },
];

/// The file service consists of separate programs.
const SERVE: &str = "  rfiod, rfcp, rfdir, rfcat, ...: serve and copy files; see `rfiod --help`";

/// Examples of each subcommand. A test parses them.
#[rustfmt::skip]
pub const EXAMPLES: &[(&str, &[&str])] = &[
    ("demo", &["verbena demo"]),
    ("run", &[
        "verbena run -- ./my_program",
        "VERBENA_LOG=info verbena run -- ./my_program     # explain refusals",
        "verbena run --link roce -- ./my_roce_program",
        "verbena run --stats -- mpirun -n 4 ./my_mpi_program",
        "verbena run --fault ibv_reg_mr:ENOMEM -- ./my_program",
    ]),
    ("trace", &[
        "verbena trace -- ./my_program",
        "verbena trace --summary -- ./my_program",
    ]),
    ("coverage", &[
        "verbena coverage -- ctest --test-dir build",
        "verbena coverage --data-file tests.cov --append -- ./one_test",
        "verbena coverage --data-file tests.cov --html tests.html --require RNR_RETRY_EXC",
    ]),
    ("faults", &[
        "verbena faults sweep -- ./my_program",
        "verbena faults sweep --calls ibv_create_* --junit faults.xml -- ./one_test",
        "verbena faults sweep --requests --status remote-access -- ./my_program",
    ]),
    ("capture", &["verbena capture --out calls.pcapng -- ./my_program"]),
    ("ipoib", &[
        "verbena ipoib --address 10.0.0.1/24 -- iperf3 -s",
        "verbena ipoib --address 10.0.0.2/24 -- iperf3 -c 10.0.0.1",
    ]),
    ("port", &["verbena port verbena1 down", "verbena port verbena1 up"]),
    ("info", &["verbena info", "verbena info --json"]),
    ("list", &["verbena list"]),
    ("bench", &[
        "verbena bench latency.write --quick",
        "verbena bench bandwidth. --on software --on model:connectx6-hdr",
    ]),
    ("evaluate", &[
        "verbena evaluate --quick",
        "verbena evaluate --on hardware:mlx5_0 --out out/mlx5",
    ]),
    ("compare", &["verbena compare out/before out/after"]),
    ("history", &["verbena history out/monday out/tuesday out/wednesday"]),
    ("report", &["verbena report out/before out/after --out both.html"]),
    ("explain", &["verbena explain latency.write --on model:connectx6-hdr"]),
    ("sweep", &["verbena sweep study.toml"]),
    ("sensitivity", &[
        "verbena sensitivity --as connectx-qdr --latency +1us,+5us -- ./my_program",
    ]),
    ("calibrate", &["verbena calibrate out/mlx5 --on model:connectx6-hdr --out fitted"]),
    ("reproduce", &["verbena reproduce", "verbena reproduce memfree --out claims"]),
    ("record", &["verbena record --out trace -- mpirun -n 4 ./my_mpi_program"]),
    ("import", &["verbena import --out trace scorep/traces.otf2"]),
    ("replay", &[
        "verbena replay trace --on model:connectx6-hdr",
        "verbena replay trace --on model:connectx6-hdr --anchor osu.txt",
    ]),
    ("machine", &[
        "verbena machine add mycluster --from osu.txt --like connectx6-hdr",
        "verbena bench latency.write --on machine:mycluster",
    ]),
    ("closed-loop", &["verbena closed-loop app.nas-is --processes 2"]),
    ("fabric", &["verbena fabric show topology.txt", "ibnetdiscover | verbena fabric show -"]),
    ("doctor", &["verbena doctor", "verbena doctor --json"]),
    ("completions", &["verbena completions bash > ~/.bash_completion"]),
    ("help", &["verbena help run", "verbena help environment"]),
];

/// Examples for the main help page.
const FIRST: &str = "  verbena demo\n  verbena run -- ./my_program\n  verbena evaluate --quick";

/// Subcommands that start programs, which read the adapter's variables.
const STARTERS: [&str; 4] = ["run", "trace", "coverage", "capture"];

/// Returns the command line with its full help.
pub fn complete() -> clap::Command {
    let all = bare().mut_subcommands(|command| {
        let mut help = command
            .get_after_help()
            .map_or(String::new(), |text| format!("{text}\n\n"));
        if STARTERS.contains(&command.get_name()) {
            let variables = variables::of_programs();
            help += &format!("Environment, passed on to the program:\n{variables}\n");
        }
        let examples = examples(command.get_name());
        match examples.is_empty() {
            true => command,
            false => command.after_help(format!("{help}Examples:\n{}", indented(examples))),
        }
    });
    let template = template(&all);
    all.help_template(template).after_help(format!(
        "Examples:\n{FIRST}\n\nEnvironment (all variables: `verbena help environment`):\n{}\n{}",
        variables::of_programs(),
        exit::TABLE
    ))
}

/// Returns the command line without the general sections, for manual pages, which have sections of
/// their own for them.
pub fn bare() -> clap::Command {
    Arguments::command()
}

pub fn examples(command: &str) -> &'static [&'static str] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, examples)| examples)
}

fn indented(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// Returns the template of the main help page, with the subcommands by group.
fn template(all: &clap::Command) -> StyledStr {
    let header = *all.get_styles().get_header();
    let mut text = StyledStr::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n"
    );
    for group in &GROUPS {
        let _ = write!(text, "\n{header}{}:{header:#}\n", group.title);
        for name in group.commands {
            let about = all
                .find_subcommand(name)
                .and_then(|command| command.get_about());
            let about = about.map_or(String::new(), ToString::to_string);
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        if group.commands.is_empty() {
            let _ = writeln!(text, "{SERVE}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::demo;
    use std::collections::BTreeSet;

    fn visible() -> Vec<clap::Command> {
        let all = complete();
        all.get_subcommands()
            .filter(|command| !command.is_hide_set())
            .cloned()
            .collect()
    }

    #[test]
    fn every_subcommand_is_in_one_group_and_has_an_example() {
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|group| group.commands)
            .copied()
            .collect();
        let names: BTreeSet<String> = visible()
            .iter()
            .map(|one| one.get_name().to_owned())
            .collect();
        assert_eq!(listed.len(), names.len());
        assert_eq!(
            listed
                .iter()
                .map(|name| name.to_string())
                .collect::<BTreeSet<_>>(),
            names
        );
        for name in &names {
            assert!(!examples(name).is_empty(), "{name} has no example");
        }
        assert_eq!(EXAMPLES.len(), names.len());
    }

    #[test]
    fn every_example_parses() {
        let first = FIRST.lines();
        let next = demo::NEXT.iter().map(|(command, _)| *command);
        let all = EXAMPLES.iter().flat_map(|(_, examples)| *examples).copied();
        for example in all.chain(first).chain(next) {
            let command = example.split(['#', '>']).next().unwrap();
            let words = command
                .split_whitespace()
                .skip_while(|word| *word != "verbena");
            if let Err(error) = complete().try_get_matches_from(words) {
                panic!("{example}: {error}");
            }
        }
    }

    #[test]
    fn help_is_one_line_under_70_columns_without_a_period() {
        let check = |of: &str, text: Option<&StyledStr>| {
            let text = text.map_or(String::new(), ToString::to_string);
            assert!(!text.is_empty(), "{of} has no help");
            assert!(
                text.len() < 70 && !text.contains('\n'),
                "{of}: {} columns: {text}",
                text.len()
            );
            assert!(!text.ends_with('.'), "{of}: {text}");
            assert!(text.starts_with(char::is_uppercase), "{of}: {text}");
        };
        for command in visible() {
            check(command.get_name(), command.get_about());
            for argument in command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
            {
                let of = format!("{} {}", command.get_name(), argument.get_id());
                check(&of, argument.get_help());
            }
        }
    }

    #[test]
    fn help_lists_groups_variables_and_exit_codes() {
        let page = complete().render_help().to_string();
        for words in [
            "Run:",
            "Serve:",
            "Run a command on",
            "VERBENA_LOG ",
            "Exit codes:",
        ] {
            assert!(page.contains(words), "{words:?} is missing:\n{page}");
        }
        let run = complete()
            .find_subcommand_mut("run")
            .unwrap()
            .render_help()
            .to_string();
        assert!(
            run.contains("VERBENA_LOG_FILE") && run.contains("Examples:"),
            "{run}"
        );
    }
}
