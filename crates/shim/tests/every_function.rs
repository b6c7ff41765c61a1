//! Tests every function that the shim exports, in a preloaded C program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Files of a run: the shim, the program, and the directory of a fake libibverbs.
struct Setup {
    shim: PathBuf,
    program: PathBuf,
    library_directory: PathBuf,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let library_directory = place.join("lib");
        fs::create_dir_all(&library_directory).unwrap();
        let program = place.join("paths");
        // The shim redirects libibverbs to the library in its own directory.
        let beside = library_directory.join("libverbena_shim.so");
        fs::copy(shim(), &beside).unwrap();
        let library = library_directory.join("libibverbs.so.1");
        compile(&sources.join("library.c"), &["-shared", "-fPIC"], &library);
        compile(&sources.join("paths.c"), &["-pthread"], &program);
        Setup {
            shim: beside,
            program,
            library_directory,
        }
    })
}

fn compile(source: &Path, flags: &[&str], result: &Path) {
    let output = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-Wall", "-o"])
        .arg(result)
        .args(flags)
        .arg(source)
        .output()
        .expect("a C compiler called `cc` is needed for this test");
    assert!(output.status.success(), "{output:?}");
}

/// Cargo builds no static library for a test, so the test builds it and links it as for users.
fn shim() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "verbena-shim"])
        .current_dir(manifest));
    // .../target/PROFILE/deps/this-test
    let executable = env::current_exe().unwrap();
    let profile = executable.ancestors().nth(3).unwrap().join("debug");
    run(Command::new(manifest.join("link.sh")).arg(&profile));
    profile.join("lib/libverbena_shim.so")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn check(name: &str) {
    let setup = setup();
    let output = Command::new(&setup.program)
        .arg(name)
        .env("LD_PRELOAD", &setup.shim)
        .env("LD_LIBRARY_PATH", &setup.library_directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {said}");
}

macro_rules! functions {
    ($($test:ident: $name:literal)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        /// Functions covered by a test.
        const TESTED: &[&str] = &[$($name),*];
    };
}

functions! {
    stat: "stat"
    stat64: "stat64"
    lstat: "lstat"
    lstat64: "lstat64"
    fstatat: "fstatat"
    fstatat64: "fstatat64"
    statx: "statx"
    xstat: "__xstat"
    xstat64: "__xstat64"
    lxstat: "__lxstat"
    lxstat64: "__lxstat64"
    fxstatat: "__fxstatat"
    fxstatat64: "__fxstatat64"
    access: "access"
    eaccess: "eaccess"
    euidaccess: "euidaccess"
    faccessat: "faccessat"
    open: "open"
    open64: "open64"
    openat: "openat"
    openat64: "openat64"
    openat2: "openat2"
    open_2: "__open_2"
    open64_2: "__open64_2"
    openat_2: "__openat_2"
    openat64_2: "__openat64_2"
    fopen: "fopen"
    fopen64: "fopen64"
    opendir: "opendir"
    readlink: "readlink"
    readlinkat: "readlinkat"
    readlink_chk: "__readlink_chk"
    readlinkat_chk: "__readlinkat_chk"
    chdir: "chdir"
    getcwd: "getcwd"
    realpath: "realpath"
    realpath_chk: "__realpath_chk"
    canonicalize_file_name: "canonicalize_file_name"
    statfs: "statfs"
    statfs64: "statfs64"
    statvfs: "statvfs"
    statvfs64: "statvfs64"
    getxattr: "getxattr"
    lgetxattr: "lgetxattr"
    listxattr: "listxattr"
    llistxattr: "llistxattr"
    inotify_add_watch: "inotify_add_watch"
    scandir: "scandir"
    scandir64: "scandir64"
    scandirat: "scandirat"
    scandirat64: "scandirat64"
    glob: "glob"
    glob64: "glob64"
    ftw: "ftw"
    ftw64: "ftw64"
    nftw: "nftw"
    nftw64: "nftw64"
    write: "write"
    close: "close"
    dup: "dup"
    dup2: "dup2"
    dup3: "dup3"
    fcntl: "fcntl"
    fcntl64: "fcntl64"
    ioctl: "ioctl"
    recvmsg: "recvmsg"
    read: "read"
    read_chk: "__read_chk"
    event_descriptor: "verbena_event_descriptor"
    vmsplice: "vmsplice"
    has_spliced: "verbena_has_spliced"
    syscall: "syscall"
    fstat: "fstat"
    fstat64: "fstat64"
    fxstat: "__fxstat"
    fxstat64: "__fxstat64"
}

#[test]
fn functions_work_before_constructors_and_after_fork() {
    check("start-and-fork");
}

#[test]
fn waiting_threads_can_be_cancelled() {
    check("cancel");
}

#[test]
fn every_exported_function_is_tested() {
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(&setup().shim)
        .output()
        .expect("nm, from binutils, is needed for this test");
    let listing = String::from_utf8(output.stdout).unwrap();
    let mut exported: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.split(' ').next())
        // Names of libibverbs are tested by tests/launcher.
        .filter(|name| !name.contains("ibv_") && !matches!(*name, "dlopen" | "dlmopen"))
        .collect();
    let mut tested = TESTED.to_vec();
    exported.sort_unstable();
    tested.sort_unstable();
    assert_eq!(exported, tested);
}

#[test]
fn without_the_shim_there_is_no_device() {
    let setup = setup();
    let output = Command::new(&setup.program).arg("stat").output().unwrap();
    assert!(
        !output.status.success(),
        "the checks pass without the shim, so they check nothing"
    );
}
