//! Width and capabilities of the terminal.

use console::Term;
use std::env;
use std::io::IsTerminal;

/// Narrowest width to wrap at: numbers and units would be separated below it.
const NARROWEST: usize = 40;

/// Returns the width for lines on standard output: COLUMNS, otherwise the terminal's. `None` for a
/// pipe, which has no limit.
pub fn columns() -> Option<usize> {
    let told = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let columns = told.or_else(|| of_terminal().filter(|_| is_terminal()));
    columns.map(|columns: usize| columns.max(NARROWEST))
}

fn of_terminal() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    (columns > 0).then_some(usize::from(columns))
}

/// Returns whether standard output shows colours: a terminal, unless NO_COLOR is set and not empty,
/// or TERM is `dumb`.
pub fn has_colour() -> bool {
    let is_set = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal() && !is_set && !is_dumb
}

/// Returns whether standard output is the user's terminal. Open MPI gives its processes a
/// pseudo-terminal even if `mpirun` itself writes to a file.
fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && env::var_os("OMPI_COMM_WORLD_RANK").is_none()
}

/// Returns whether standard output shows block characters: a terminal with a UTF-8 locale.
pub fn shows_blocks() -> bool {
    let value = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
    let locale = locale.unwrap_or_default().to_lowercase();
    let is_utf_8 = locale.contains("utf-8") || locale.contains("utf8");
    is_utf_8 && is_terminal()
}
