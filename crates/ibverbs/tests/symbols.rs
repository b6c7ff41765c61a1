//! Names and version nodes of the linked library: every name is available at its node, nothing else
//! is exported, and no name of the official library is missing.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{library_directory, program, run};

/// The private nodes, with the default first.
const PRIVATE_NODES: [u32; 5] = [34, 57, 59, 64, 65];

/// Returns name and node of the library's exports: those in `libibverbs.map`, and the private
/// names.
fn exported() -> BTreeSet<(String, String)> {
    let mut all = map();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/private_names.txt");
    let text = fs::read_to_string(path).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, first) = line.split_once(' ').unwrap();
        let first: u32 = first.parse().unwrap();
        for node in PRIVATE_NODES.iter().filter(|node| **node >= first) {
            let name = name.replace("NN", &node.to_string());
            all.insert((name, format!("IBVERBS_PRIVATE_{node}")));
        }
    }
    all
}

/// Returns name and node of the symbols in `libibverbs.map`.
fn map() -> BTreeSet<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("libibverbs.map");
    let text = fs::read_to_string(path).unwrap();
    let mut symbols = BTreeSet::new();
    let mut node = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(" {") {
            node = name.to_owned();
        } else if let Some(name) = line.strip_suffix(';')
            && !name.contains([' ', '*', '}'])
        {
            symbols.insert((name.to_owned(), node.clone()));
        }
    }
    symbols
}

/// Returns name and node of a library's definitions, and whether the node is the name's default.
fn defined(library: &Path) -> BTreeSet<(String, String, bool)> {
    let listing = run(Command::new("readelf")
        .args(["--wide", "--dyn-syms"])
        .arg(library));
    let mut symbols = BTreeSet::new();
    for line in listing.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, _, _, section, name] = fields[..] else {
            continue;
        };
        let Some((name, node)) = name.split_once('@') else {
            continue;
        };
        if section != "UND" && section != "ABS" && matches!(kind, "FUNC" | "OBJECT") {
            let default = node.starts_with('@');
            let node = node.trim_start_matches('@');
            symbols.insert((name.to_owned(), node.to_owned(), default));
        }
    }
    symbols
}

#[test]
fn every_symbol_links_at_its_version_node() {
    let map = exported();
    // 76 of v44 (with ibv_register_driver), 19 added later.
    let public = map
        .iter()
        .filter(|(_, node)| node.starts_with("IBVERBS_1."))
        .count();
    assert_eq!(public, 95);
    let library = library_directory().join("libibverbs.so.1");
    let mut take = Command::new(program("take"))
        .arg(&library)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = take.stdin.take().unwrap();
    for (name, node) in &map {
        writeln!(input, "{name} {node}").unwrap();
    }
    drop(input);
    let output = take.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.trim(), format!("taken: {}", map.len()));
}

#[test]
fn no_other_symbol_is_exported() {
    let ours = defined(&library_directory().join("libibverbs.so.1"));
    let names: BTreeSet<_> = ours
        .iter()
        .map(|(name, node, _)| (name.clone(), node.clone()))
        .collect();
    assert_eq!(names, exported());
    // Linking against the library uses the oldest private node of a name.
    let is_default = |name: &str, node: &str| {
        !node.starts_with("IBVERBS_PRIVATE_")
            || names
                .iter()
                .find(|(other, _)| other == name)
                .is_some_and(|oldest| oldest.1 == node)
    };
    for (name, node, default) in ours {
        assert_eq!(default, is_default(&name, &node), "{name}@{node}");
    }
}

/// Paths on Debian, Fedora and SUSE.
const OFFICIAL: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    "/usr/lib/aarch64-linux-gnu/libibverbs.so.1",
    "/usr/lib64/libibverbs.so.1",
];

#[test]
fn every_symbol_of_the_official_library_is_exported() {
    let Some(official) = OFFICIAL.iter().map(Path::new).find(|path| path.exists()) else {
        eprintln!("SKIPPED: no official libibverbs.so.1 is installed");
        return;
    };
    let ours = exported();
    let missing: Vec<_> = defined(official)
        .into_iter()
        .filter(|(name, node, default)| {
            // Excludes version 1.0's duplicates of names in 1.1.
            *default && !ours.contains(&(name.clone(), node.clone()))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
