//! LAMMPS' rhodopsin benchmark, as its authors distribute it, with fewer steps.

use super::files::Found;
use std::fs;
use std::io;
use std::path::Path;

/// Steps to run, of the benchmark's 100.
const STEPS: u32 = 20;
const THEIRS: &str = "\nrun\t\t100";

pub fn prepare(directory: &Path, found: &Found, _: usize) -> io::Result<Vec<String>> {
    let theirs = fs::read_to_string(found.data.with_file_name("in.rhodo"))?;
    let input = fewer_steps(&theirs)
        .ok_or_else(|| io::Error::other("in.rhodo does not end by 100 steps"))?;
    fs::write(directory.join("in.rhodo"), input)?;
    std::os::unix::fs::symlink(&found.data, directory.join("data.rhodo"))?;
    let words = ["-in", "in.rhodo", "-log", "log.lammps", "-screen", "none"];
    Ok(words.map(str::to_owned).to_vec())
}

/// Replaces the last line of the input by fewer steps and a table of states that the parser can
/// read.
fn fewer_steps(theirs: &str) -> Option<String> {
    let (input, rest) = theirs.split_once(THEIRS)?;
    rest.trim().is_empty().then(|| {
        format!("{input}\nthermo_style custom step temp etotal press\nthermo 10\nrun {STEPS}\n")
    })
}

#[cfg(test)]
mod tests {
    use super::fewer_steps;

    #[test]
    fn only_the_step_count_of_the_input_is_changed() {
        let ours = fewer_steps("units real\nthermo 50\n\nrun\t\t100\n").unwrap();
        assert!(ours.starts_with("units real\nthermo 50\n"));
        assert!(ours.ends_with("run 20\n"));
        assert_eq!(fewer_steps("units real\nrun 100\n"), None);
        assert_eq!(fewer_steps("\nrun\t\t100\nrun 5\n"), None);
    }
}
