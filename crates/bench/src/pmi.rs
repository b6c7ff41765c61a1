//! The key-value space of MPICH's process manager, through the first version of PMI: lines of
//! `name=value` over an inherited descriptor ("PMI: A Scalable Parallel Process-Management
//! Interface", EuroMPI 2010; the format is that of MPICH's `simple_pmi`).

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

/// The connection of a process to its process manager.
pub struct Board {
    lines: BufReader<File>,
    space: String,
}

impl Board {
    /// Initialises PMI over this descriptor.
    ///
    /// # Errors
    ///
    /// Fails if the descriptor is not valid, or the manager answers unexpectedly.
    pub fn open(descriptor: i32) -> io::Result<Board> {
        // Duplicates the descriptor to own it: only its number is known here.
        let itself = pidfd_open(getpid(), PidfdFlags::empty())?;
        let copy = pidfd_getfd(itself, descriptor, PidfdGetfdFlags::empty())?;
        let mut board = Board {
            lines: BufReader::new(File::from(copy)),
            space: String::new(),
        };
        board.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let answer = board.ask("get_my_kvsname", "my_kvsname")?;
        board.space = value(&answer, "kvsname")?.to_owned();
        Ok(board)
    }

    pub fn job(&self) -> &str {
        &self.space
    }

    /// Publishes a value, which all processes can read after the next [`Board::wait`].
    ///
    /// # Errors
    ///
    /// Fails if the manager refuses it.
    pub fn put(&mut self, key: &str, words: &str) -> io::Result<()> {
        let line = format!("put kvsname={} key={key} value={words}", self.space);
        self.ask(&line, "put_result").map(drop)
    }

    /// Waits for all processes of the job.
    ///
    /// # Errors
    ///
    /// Fails if the manager answers unexpectedly.
    pub fn wait(&mut self) -> io::Result<()> {
        self.ask("barrier_in", "barrier_out").map(drop)
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Fails if there is no such key.
    pub fn get(&mut self, key: &str) -> io::Result<String> {
        let line = format!("get kvsname={} key={key}", self.space);
        let answer = self.ask(&line, "get_result")?;
        value(&answer, "value").map(str::to_owned)
    }

    /// Finalises PMI. The manager treats a process that ends without this as failed.
    ///
    /// # Errors
    ///
    /// Fails if the manager answers unexpectedly.
    pub fn close(mut self) -> io::Result<()> {
        self.ask("finalize", "finalize_ack").map(drop)
    }

    fn ask(&mut self, command: &str, expected: &str) -> io::Result<String> {
        writeln!(self.lines.get_mut(), "cmd={command}")?;
        let mut answer = String::new();
        self.lines.read_line(&mut answer)?;
        let is_expected = value(&answer, "cmd").is_ok_and(|word| word == expected);
        let is_well =
            value(&answer, "rc").is_ok_and(|code| code == "0") || value(&answer, "rc").is_err();
        match is_expected && is_well {
            true => Ok(answer),
            false => Err(unexpected(&answer)),
        }
    }
}

fn value<'a>(answer: &'a str, name: &str) -> io::Result<&'a str> {
    answer
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| unexpected(answer))
}

fn unexpected(answer: &str) -> io::Error {
    let words = answer.trim();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the process manager answered {words:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// Simulates a manager that gives these answers; returns the requests.
    fn manager(answers: &'static str) -> (UnixStream, std::thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let manager = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs);
            answers
                .lines()
                .map(|answer| {
                    let mut asked = String::new();
                    lines.read_line(&mut asked).unwrap();
                    writeln!(lines.get_mut(), "{answer}").unwrap();
                    asked
                })
                .collect()
        });
        (ours, manager)
    }

    #[test]
    fn a_published_value_can_be_read() {
        let (ours, manager) = manager(
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n\
             cmd=my_kvsname kvsname=kvs_7_0\n\
             cmd=put_result rc=0 msg=success\n\
             cmd=barrier_out\n\
             cmd=get_result rc=0 msg=success value=10.0.0.1:99\n\
             cmd=finalize_ack\n",
        );
        let mut board = Board::open(ours.as_raw_fd()).unwrap();
        assert_eq!(board.job(), "kvs_7_0");
        board.put("where", "10.0.0.1:99").unwrap();
        board.wait().unwrap();
        assert_eq!(board.get("where").unwrap(), "10.0.0.1:99");
        board.close().unwrap();
        let asked = manager.join().unwrap();
        assert_eq!(
            asked[2],
            "cmd=put kvsname=kvs_7_0 key=where value=10.0.0.1:99\n"
        );
        assert_eq!(asked[4], "cmd=get kvsname=kvs_7_0 key=where\n");
    }

    #[test]
    fn pmi_errors_and_other_versions_are_refused() {
        for answers in ["cmd=response_to_init rc=-1", "what?", ""] {
            let (ours, _manager) = manager(answers);
            assert!(Board::open(ours.as_raw_fd()).is_err(), "{answers}");
        }
        assert!(Board::open(99_999).is_err());
    }
}
