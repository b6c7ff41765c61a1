//! Client processes that work at the same time, and what they did together.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::interrupt::Helper;
use crate::suite::target::Resolved;

use super::client::{Answer, Job, now};
use super::daemon::{Daemon, environment};

/// How long before the common start jobs are given out: connecting takes milliseconds, on a busy host some more.
const LEAD_NANOS: u64 = 300_000_000;

struct Member {
    process: Child,
    helper: Helper,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Client processes that wait for jobs.
pub struct Team {
    members: Vec<Member>,
}

/// What a team did with one job.
pub struct Result {
    /// Each member's answer.
    pub answers: Vec<Answer>,
    /// Server's processor time meanwhile, in seconds.
    pub server_cpu: f64,
}

impl Team {
    /// Nobody yet.
    pub fn new() -> Team {
        Team {
            members: Vec::new(),
        }
    }

    /// Starts processes until there are so many.
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
                .envs(environment(target)?)
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

    /// Has the first `count` members do a job at the same time, for so many nanoseconds.
    pub fn work(
        &mut self,
        count: usize,
        mut job: Job,
        nanos: u64,
        daemon: &Daemon,
    ) -> std::result::Result<Result, Failure> {
        // On a host with few cores, connecting takes its time.
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

impl Drop for Team {
    fn drop(&mut self) {
        for Member {
            mut process,
            helper,
            input,
            ..
        } in self.members.drain(..)
        {
            // The end of its input is the end of a client.
            drop(input);
            drop(helper);
            let _ = process.wait();
        }
    }
}

impl Result {
    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.answers.iter().map(|answer| answer.bytes).sum()
    }

    /// From the first start to the last byte, in seconds.
    pub fn seconds(&self) -> f64 {
        let begun = self.answers.iter().map(|answer| answer.begun).min();
        let ended = self.answers.iter().map(|answer| answer.ended).max();
        ended.unwrap_or(0).saturating_sub(begun.unwrap_or(0)).max(1) as f64 / 1e9
    }

    /// Between the first start and the last, in nanoseconds.
    pub fn skew(&self) -> f64 {
        let begun = || self.answers.iter().map(|answer| answer.begun);
        (begun().max().unwrap_or(0) - begun().min().unwrap_or(0)) as f64
    }

    /// Share of the whole in which all were at work.
    pub fn overlap(&self) -> f64 {
        let last_start = self.answers.iter().map(|answer| answer.begun).max();
        let first_end = self.answers.iter().map(|answer| answer.ended).min();
        let common = first_end
            .unwrap_or(0)
            .saturating_sub(last_start.unwrap_or(0));
        common as f64 / 1e9 / self.seconds()
    }

    /// Clients' processor time, in seconds.
    pub fn client_cpu(&self) -> f64 {
        self.answers.iter().map(|answer| answer.cpu_seconds).sum()
    }
}
