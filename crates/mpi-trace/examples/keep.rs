//! Writes a section of a trace to one file: `keep TRACE` lists the collective operations that
//! delimit sections, `keep TRACE FILE BEHIND THROUGH` writes a section, `keep TRACE FILE` the whole
//! trace. `papers/traces/record` creates the shipped traces with it.

use std::error::Error;
use std::path::Path;
use verbena_mpi_trace::{Section, Summary, Trace};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (trace, file, section) = match words[..] {
        [trace] => return list(&Trace::open(Path::new(trace))?),
        [trace, file] => (trace, file, None),
        [trace, file, behind, through] => (trace, file, Some((behind, through))),
        _ => return Err("usage: keep TRACE [FILE [BEHIND THROUGH]]".into()),
    };
    let whole = Trace::open(Path::new(trace))?;
    let kept = match section {
        None => whole,
        Some((behind, through)) => whole.section(Section {
            behind: number(&whole, behind)?,
            through: number(&whole, through)?,
        })?,
    };
    let bytes = kept.bundle();
    std::fs::write(file, &bytes)?;
    let summary = Summary::of(&kept);
    println!(
        "{file}: {} ranks, {} calls, {} messages of {} bytes, {} ns of computing; {} bytes",
        summary.ranks,
        summary.all.calls,
        summary.all.messages,
        summary.all.bytes,
        summary.computing,
        bytes.len()
    );
    Ok(())
}

/// Parses a number, or NAME@N: the N-th operation of a name from the end, with 0 for the last.
fn number(trace: &Trace, word: &str) -> Result<usize, Box<dyn Error>> {
    let Some((name, back)) = word.split_once('@') else {
        return Ok(word.parse()?);
    };
    let named: Vec<usize> = trace
        .together()
        .enumerate()
        .filter(|(_, call)| *call == name)
        .map(|(number, _)| number)
        .collect();
    let found = named.iter().rev().nth(back.parse()?);
    found.copied().ok_or_else(|| {
        format!(
            "all ranks called {name} {} times together, so there is no {word}",
            named.len()
        )
        .into()
    })
}

fn list(trace: &Trace) -> Result<(), Box<dyn Error>> {
    trace
        .together()
        .enumerate()
        .for_each(|(number, call)| println!("{number} {call}"));
    Ok(())
}
