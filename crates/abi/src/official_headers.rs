//! Compiles a C program against the official headers with `cc`, runs it, and returns its output.

use std::format;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::string::String;

const PREAMBLE: &str = "\
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <infiniband/verbs.h>
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
";

/// Runs `body` as the body of a C `main` and returns its output, or `None` (with a message) if the
/// machine has no C compiler or no verbs headers. Panics if a program does not compile although the
/// headers exist.
pub(crate) fn ask(test: &str, body: &str) -> Option<String> {
    if !run_probe(test) {
        std::eprintln!(
            "SKIPPED {test}: `cc` cannot compile #include <infiniband/verbs.h>; \
             install a C compiler and libibverbs-dev"
        );
        return None;
    }
    let source = format!("{PREAMBLE}int main(void) {{\n{body}\nreturn 0;\n}}\n");
    let program = compile(test, &source).unwrap_or_else(|e| panic!("{test}: cc refused:\n{e}"));
    let output = runner()
        .map_or_else(
            || Command::new(&program),
            |words| {
                let mut command = of(&words);
                command.arg(&program);
                command
            },
        )
        .output()
        .expect("run the compiled program");
    assert!(
        output.status.success(),
        "{test}: the compiled program failed: {output:?}"
    );
    Some(String::from_utf8(output.stdout).expect("the program prints ASCII"))
}

/// Returns the runner for programs built for another machine, from Cargo's variable.
fn runner() -> Option<String> {
    let machine = std::env::consts::ARCH.to_uppercase();
    std::env::var(format!("CARGO_TARGET_{machine}_UNKNOWN_LINUX_GNU_RUNNER")).ok()
}

/// Returns a command from a line of words.
fn of(words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().expect("a command"));
    command.args(words);
    command
}

fn run_probe(test: &str) -> bool {
    compile(
        &format!("{test}-probe"),
        &format!("{PREAMBLE}int main(void) {{ return 0; }}\n"),
    )
    .is_ok()
}

fn compile(name: &str, source: &str) -> Result<PathBuf, String> {
    let directory = std::env::temp_dir().join(format!("verbena-abi-{}-{name}", std::process::id()));
    fs::create_dir_all(&directory).expect("a scratch directory");
    let c = directory.join("ask.c");
    let program = directory.join("ask");
    fs::write(&c, source).expect("write the C program");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = of(&compiler)
        .args(["-std=gnu11", "-w", "-o"])
        .arg(&program)
        .arg(&c)
        .output()
        .map_err(|e| format!("{e}"))?;
    if output.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
