//! Hardware providers load beside the linked library, and do not claim its device.

mod common;

use std::process::Command;

use common::{library_directory, program};

fn loads(provider: &str) {
    let directory = library_directory();
    let output = Command::new(program("beside"))
        .arg(directory.join("libibverbs.so.1"))
        .arg(provider)
        .env("LD_LIBRARY_PATH", directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED {provider}: not installed");
        return;
    }
    assert!(output.status.success(), "{provider}: {said}");
}

#[test]
fn mlx5_provider_links() {
    loads("libmlx5.so.1");
}

#[test]
fn mlx4_provider_links() {
    loads("libmlx4.so.1");
}

#[test]
fn efa_provider_links() {
    loads("libefa.so.1");
}

#[test]
fn mana_provider_links() {
    loads("libmana.so.1");
}
