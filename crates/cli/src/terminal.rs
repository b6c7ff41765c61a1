//! Width and capabilities of the terminal.

use console::Term;
use std::env;
use std::io::IsTerminal;

/// Narrower than this, nothing is wrapped any more: numbers and units would stand alone.
const NARROWEST: usize = 40;

/// Columns that lines on standard output may have: those of COLUMNS, else those of the terminal. A
/// pipe has no limit.
pub fn columns() -> Option<usize> {
    let told = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let columns = told.or_else(|| columns_of(&Term::stdout()).filter(|_| is_terminal()));
    columns.map(|columns: usize| columns.max(NARROWEST))
}

/// Columns of standard error; nothing if it is no terminal.
pub fn columns_of_errors() -> Option<usize> {
    columns_of(&Term::stderr())
}

fn columns_of(terminal: &Term) -> Option<usize> {
    let (_, columns) = terminal.size_checked()?;
    (columns > 0).then_some(usize::from(columns))
}

/// Whether standard output shows colours: a terminal, unless NO_COLOR is set to anything or TERM is
/// `dumb`.
pub fn has_colour() -> bool {
    let is_set = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal() && !is_set && !is_dumb
}

/// Whether standard output is the user's terminal. Open MPI gives its processes a pseudo-terminal
/// of their own, also where `mpirun` itself writes to a file.
fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && env::var_os("OMPI_COMM_WORLD_RANK").is_none()
}

/// Whether standard output shows block characters: a terminal whose locale is of UTF-8.
pub fn shows_blocks() -> bool {
    let value = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
    let locale = locale.unwrap_or_default().to_lowercase();
    let is_utf_8 = locale.contains("utf-8") || locale.contains("utf8");
    is_utf_8 && is_terminal()
}
