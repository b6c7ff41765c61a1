//! Shared by the tests of the linked library: the library itself, and C programs that use it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the directory with `libibverbs.so.1`, linked by `link.sh` as for users.
pub fn library_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        // Cargo builds no static library for a test, so the test builds it.
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        run(Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "verbena-ibverbs"])
            .current_dir(manifest));
        // .../target/PROFILE/deps/this-test
        let executable = env::current_exe().unwrap();
        let profile = executable.ancestors().nth(3).unwrap().join("debug");
        // One test process links it; the others wait for the lock and find the result.
        run(Command::new("flock")
            .arg(profile.join(".link-lock"))
            .arg(manifest.join("../ibverbs/link.sh"))
            .arg(&profile));
        profile.join("lib")
    })
}

/// Compiles `tests/programs/NAME.c`.
pub fn program(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    // Under a unique name, as other tests may be running their binary.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let result = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}-{}-{number}", process::id()));
    run(Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-D_GNU_SOURCE",
            "-o",
        ])
        .arg(&result)
        .arg(source)
        .args(libraries(name))
        .args(["-ldl", "-lpthread"]));
    result
}

/// Returns the libraries to link besides the C library. `take` and `beside` load libibverbs
/// themselves.
fn libraries(name: &str) -> Vec<String> {
    if name == "contract" {
        let directory = library_directory().display();
        vec![
            format!("-L{directory}"),
            "-libverbs".into(),
            "-Wl,--as-needed".into(),
        ]
    } else {
        vec![]
    }
}

/// Runs a command that must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&stdout).into_owned();
    assert!(
        status.success(),
        "{command:?}: {status}\n{printed}{}",
        String::from_utf8_lossy(&stderr)
    );
    printed
}
