//! The client tools. One program, `rfio-tools`, has them all; it is installed once, with a hard
//! link for each of their names, and the name selects the tool.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

mod rfcat;
mod rfchmod;
mod rfcp;
mod rfdir;
mod rfmkdir;
mod rfrename;
mod rfrm;
mod rfsrr;
mod rfstat;

/// A tool: its name and its main function.
pub type Tool = (&'static str, fn() -> ExitCode);

/// Every client tool.
pub const TOOLS: [Tool; 9] = [
    ("rfcat", rfcat::main),
    ("rfchmod", rfchmod::main),
    ("rfcp", rfcp::main),
    ("rfdir", rfdir::main),
    ("rfmkdir", rfmkdir::main),
    ("rfrename", rfrename::main),
    ("rfrm", rfrm::main),
    ("rfsrr", rfsrr::main),
    ("rfstat", rfstat::main),
];

/// Returns the tool of this process: by the name of its executable file, otherwise by the name
/// that it was called by (`argv[0]`), so that links to a tool may have any name.
///
/// # Errors
/// Neither is the name of a tool; returns a message that lists them.
pub fn called() -> Result<Tool, String> {
    let executable = std::env::current_exe().map(OsString::from).ok();
    let called = std::env::args_os().next();
    select([executable, called].into_iter().flatten())
}

/// Returns the tool that the first known name selects.
fn select(paths: impl IntoIterator<Item = OsString>) -> Result<Tool, String> {
    for path in paths {
        let name = Path::new(&path).file_name().unwrap_or(OsStr::new(""));
        if let Some(&tool) = TOOLS.iter().find(|(tool, _)| name == *tool) {
            return Ok(tool);
        }
    }
    let names: Vec<&str> = TOOLS.iter().map(|&(name, _)| name).collect();
    Err(format!(
        "this program has the client tools of RFIO: call it by the name of one ({})",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(paths: &[&str]) -> Option<&'static str> {
        let paths = paths.iter().map(OsString::from);
        select(paths).ok().map(|(name, _)| name)
    }

    #[test]
    fn the_file_name_precedes_argv0() {
        assert_eq!(selected(&["/usr/bin/rfcp", "copy"]), Some("rfcp"));
        assert_eq!(selected(&["/opt/bin/rfio-tools", "rfrm"]), Some("rfrm"));
        assert_eq!(selected(&["/usr/bin/rfcat", "/bin/rfcp"]), Some("rfcat"));
        assert_eq!(selected(&["/opt/bin/rfio-tools", ""]), None);
        assert_eq!(selected(&[]), None);
    }

    #[test]
    fn every_tool_but_the_daemon_is_included() {
        let mut expected: Vec<String> = crate::arguments::all()
            .iter()
            .map(|command| command.get_name().to_owned())
            .filter(|name| name != "rfiod")
            .collect();
        expected.sort();
        assert_eq!(TOOLS.map(|(name, _)| name).to_vec(), expected);
    }
}
