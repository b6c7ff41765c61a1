//! Client processes that work simultaneously, and their combined results.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Failure;
use crate::host::Host;
use crate::interrupt::Helper;
use crate::resolved::Resolved;

use super::client::{Answer, Job, now};
use super::daemon::{Daemon, environment};

/// Time between sending a job and its start, in nanoseconds: connecting takes milliseconds, and
/// more on a busy host.
const LEAD_NANOS: u64 = 300_000_000;

struct Member {
    process: Child,
    helper: Helper,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Client processes waiting for jobs.
pub struct Team<'a> {
    host: &'a dyn Host,
    members: Vec<Member>,
}

/// The results of one job.
pub struct Result {
    pub answers: Vec<Answer>,
    /// The server's processor time during the job, in seconds.
    pub server_cpu: f64,
}

impl<'a> Team<'a> {
    pub fn new(host: &'a dyn Host) -> Team<'a> {
        Team {
            host,
            members: Vec::new(),
        }
    }

    /// Starts processes up to `count`.
    ///
    /// # Errors
    ///
    /// Fails if a process cannot be started.
    pub fn grow(
        &mut self,
        count: usize,
        target: &Resolved,
        daemon: &Daemon,
    ) -> std::result::Result<(), Failure> {
        let system = |source| Failure::System {
            doing: "start a client process",
            source,
        };
        while self.members.len() < count {
            let mut process = Command::new(std::env::current_exe().map_err(system)?)
                .arg("__rfio-client")
                .envs(environment(self.host, target)?)
                .envs(daemon.client_environment())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(system)?;
            let input = process.stdin.take().expect("its input is piped");
            let output = process.stdout.take().expect("its output is piped");
            let helper = Helper::new(process.id());
            self.members.push(Member {
                process,
                helper,
                input,
                output: BufReader::new(output),
            });
        }
        Ok(())
    }

    /// Runs a job in the first `count` clients at the same time, for `nanos` nanoseconds.
    ///
    /// # Errors
    ///
    /// Fails if a client has ended or reports an error.
    pub fn work(
        &mut self,
        count: usize,
        mut job: Job,
        nanos: u64,
        daemon: &Daemon,
    ) -> std::result::Result<Result, Failure> {
        // On a host with few cores, connecting takes longer with each client.
        job.begin = now() + LEAD_NANOS + 20_000_000 * count as u64;
        job.end = job.begin + nanos;
        let text = serde_json::to_string(&job).expect("a job is plain data");
        let lost = |_| Failure::Suite("a client process ended".to_owned());
        for member in &mut self.members[..count] {
            writeln!(member.input, "{text}").map_err(lost)?;
        }
        let until = job.begin.saturating_sub(now() + 1_000_000);
        std::thread::sleep(std::time::Duration::from_nanos(until));
        let before = daemon.cpu_seconds();
        let mut answers = Vec::new();
        for member in &mut self.members[..count] {
            let mut line = String::new();
            member.output.read_line(&mut line).map_err(lost)?;
            let answer: Answer = serde_json::from_str(&line)
                .map_err(|_| Failure::Suite("a client process ended".to_owned()))?;
            if let Some(error) = answer.error {
                return Err(Failure::Suite(error));
            }
            answers.push(answer);
        }
        Ok(Result {
            answers,
            server_cpu: daemon.cpu_seconds() - before,
        })
    }
}

impl Drop for Team<'_> {
    fn drop(&mut self) {
        for Member {
            mut process,
            helper,
            input,
            ..
        } in self.members.drain(..)
        {
            // A client ends at the end of its input.
            drop(input);
            drop(helper);
            let _ = process.wait();
        }
    }
}

impl Result {
    pub fn bytes(&self) -> u64 {
        self.answers.iter().map(|answer| answer.bytes).sum()
    }

    /// Returns the seconds from the first start to the last byte.
    pub fn seconds(&self) -> f64 {
        let begun = self.answers.iter().map(|answer| answer.begun).min();
        let ended = self.answers.iter().map(|answer| answer.ended).max();
        ended.unwrap_or(0).saturating_sub(begun.unwrap_or(0)).max(1) as f64 / 1e9
    }

    /// Returns the nanoseconds between the first and the last start.
    pub fn skew(&self) -> f64 {
        let begun = || self.answers.iter().map(|answer| answer.begun);
        (begun().max().unwrap_or(0) - begun().min().unwrap_or(0)) as f64
    }

    /// Returns the share of the total time in which all clients were active.
    pub fn overlap(&self) -> f64 {
        let last_start = self.answers.iter().map(|answer| answer.begun).max();
        let first_end = self.answers.iter().map(|answer| answer.ended).min();
        let common = first_end
            .unwrap_or(0)
            .saturating_sub(last_start.unwrap_or(0));
        common as f64 / 1e9 / self.seconds()
    }

    /// Returns the clients' processor time, in seconds.
    pub fn client_cpu(&self) -> f64 {
        self.answers.iter().map(|answer| answer.cpu_seconds).sum()
    }
}
