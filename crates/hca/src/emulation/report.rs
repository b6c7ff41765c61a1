//! The report of this process: a file in the emulation's directory, mapped shared, so that it is
//! complete however the process ends ([`verbena_emulation::lateness`]).

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use verbena_emulation::lateness::{HEADER, LENGTH, WORDS_AT};
use verbena_hca_os::shared_words::SharedWords;

/// Most reports of one process number: a program may have executed others with execve(2).
const MOST: u32 = 1000;

pub struct Report(SharedWords);

impl Report {
    /// Creates the file; none, after a line on standard error, if that fails.
    pub fn create(directory: &Path) -> Option<Report> {
        let made = new_file(directory).and_then(|mut file| {
            let command = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
            let header = format!("{HEADER}\n{}\n{}\n", std::process::id(), command.trim_end());
            file.write_all(header.as_bytes())?;
            let words = SharedWords::of(&file, LENGTH / 8);
            words.map_err(|error| std::io::Error::from_raw_os_error(error.0))
        });
        match made {
            Ok(words) => Some(Report(words)),
            Err(error) => {
                let directory = directory.display();
                eprintln!(
                    "verbena: cannot create a timing report in {directory}: {error}; the summary \
                     lacks this process"
                );
                None
            }
        }
    }

    /// Adds one to a word.
    pub fn count(&self, index: usize) {
        if let Some(word) = self.0.get(WORDS_AT / 8 + index) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn new_file(directory: &Path) -> std::io::Result<File> {
    let process = std::process::id();
    let mut number = 0;
    loop {
        let path = directory.join(format!("{process}-{number}.lateness"));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path);
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < MOST => {
                number += 1;
            }
            other => return other,
        }
    }
}
