//! Fails each call or request of a command by itself, one run for each, and tells how the command
//! ends.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use verbena_faults::firing::Firing;
use verbena_faults::rule::{Action, Rule, Trigger};
use verbena_faults::rules::{Entry, Rules};
use verbena_faults::site::Site;

/// Time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of the command's output that are kept.
const KEPT: u64 = 4096;
/// Bytes of output from which the earlier ones are dropped while the command runs.
const MOST_OUTPUT: u64 = 16 << 20;
/// Time between two looks at a running command.
const PAUSE: Duration = Duration::from_millis(2);

/// One call or request to fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The rule of its run.
    pub rule: Rule,
    /// The number of the call in its process, or of the request at its object, from 1.
    pub count: u64,
    /// Whether those after it fail, too.
    pub lasting: bool,
    /// The command line of its processes; empty if only one made such calls.
    pub process: String,
}

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exit(u8),
    /// By this signal: its own, or, as a shell tells it, that of its last command.
    Signal(i32),
    /// Not in time.
    Hang,
}

/// The judgement of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The command told a failure by its exit code.
    Reported,
    /// The command went on, and ended with exit code 0.
    WentOn,
    /// It ended by a signal.
    Crashed,
    /// It did not end in time.
    Hung,
    /// Its exit code is not among the accepted ones.
    WrongExit,
    /// The call or request was not made in this run, or the cause could not be planted there.
    NotReached,
}

/// A case, and how the command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// How it ended.
    pub end: End,
    /// The judgement of it.
    pub verdict: Verdict,
    /// The end of the command's output.
    pub output: String,
    /// Seconds that the run took.
    pub seconds: f64,
}

impl Verdict {
    /// Returns whether the command has a fault.
    pub fn is_bad(self) -> bool {
        match self {
            Verdict::Crashed | Verdict::Hung | Verdict::WrongExit => true,
            Verdict::Reported | Verdict::WentOn | Verdict::NotReached => false,
        }
    }

    /// Returns it in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reported => "reported",
            Verdict::WentOn => "went on",
            Verdict::Crashed => "CRASHED",
            Verdict::Hung => "HUNG",
            Verdict::WrongExit => "WRONG EXIT",
            Verdict::NotReached => "not reached",
        }
    }
}

/// Returns the rules with which a run records the first `most` calls of each process, or requests
/// of each object.
pub fn survey(sites: &[Site], most: u64) -> Rules {
    let entry = |site: &Site| Entry {
        rule: Rule {
            site: *site,
            trigger: Trigger::Range(1, most),
            action: Action::Pass,
        },
        process: String::new(),
    };
    Rules {
        seed: 0,
        entries: sites.iter().map(entry).collect(),
    }
}

/// Returns the cases of a survey, in the order of the calls: one for each of the actions that are
/// wanted at its place.
pub fn cases(
    sites: &[Site],
    firings: &[Firing],
    actions: impl Fn(Site) -> Vec<Action>,
    lasting: bool,
) -> Vec<Case> {
    let mut commands: HashMap<(usize, u32), HashSet<&str>> = HashMap::new();
    for firing in firings {
        commands
            .entry((firing.rule, firing.object))
            .or_default()
            .insert(&firing.command);
    }
    let mut known = HashSet::new();
    let mut cases: Vec<Case> = Vec::new();
    for firing in firings {
        let place = (firing.rule, firing.object);
        let (Some(site), true) = (
            sites.get(firing.rule),
            known.insert((place, firing.count, &firing.command)),
        ) else {
            continue;
        };
        let is_alone = commands[&place].len() == 1;
        let last = if lasting { u64::MAX } else { firing.count };
        for action in actions(*site) {
            cases.push(Case {
                rule: Rule {
                    site: site.at(firing.object),
                    trigger: Trigger::Range(firing.count, last),
                    action,
                },
                count: firing.count,
                lasting,
                process: match is_alone {
                    true => String::new(),
                    false => firing.command.clone(),
                },
            });
        }
    }
    cases
}

impl Case {
    /// Returns the rules of its run.
    pub fn rules(&self) -> Rules {
        let entry = Entry {
            rule: self.rule.clone(),
            process: self.process.clone(),
        };
        Rules {
            seed: 0,
            entries: vec![entry],
        }
    }

    /// Returns its name: `ibv_reg_mr 2: ENOMEM`, with the process where several make the call.
    pub fn name(&self) -> String {
        let name = self.rule.to_string();
        match self.process.as_str() {
            "" => name,
            process => format!("{name} in {process}"),
        }
    }
}

impl End {
    /// Returns the end of a child. Shells return 128 and the number of a signal.
    pub fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (_, Some(signal)) => End::Signal(signal),
            (Some(code @ 129..=159), None) => End::Signal(code - 128),
            (code, None) => End::Exit(code.unwrap_or_default() as u8),
        }
    }

    /// Returns the judgement of it; `accepted` are the right exit codes, if they are
    /// given.
    pub fn verdict(self, fired: bool, accepted: &[u8]) -> Verdict {
        match self {
            End::Hang => Verdict::Hung,
            End::Signal(_) => Verdict::Crashed,
            End::Exit(code) if !accepted.is_empty() && !accepted.contains(&code) => {
                Verdict::WrongExit
            }
            End::Exit(_) if !fired => Verdict::NotReached,
            End::Exit(0) => Verdict::WentOn,
            End::Exit(_) => Verdict::Reported,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            End::Exit(code) => write!(to, "exit code {code}"),
            End::Signal(number) => match signal_name(number) {
                Some(name) => to.write_str(name),
                None => write!(to, "signal {number}"),
            },
            End::Hang => write!(to, "no end in time"),
        }
    }
}

/// Returns the name of a signal that a faulty program gets.
fn signal_name(number: i32) -> Option<&'static str> {
    let names = [
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::TERM, "SIGTERM"),
    ];
    let found = names.iter().find(|(signal, _)| signal.as_raw() == number);
    found.map(|(_, name)| *name)
}

/// How a run has ended, and the end of its output; none if `stop` was set meanwhile.
pub type Ended = Option<(End, String)>;

/// Runs a command in a separate process group, without input. Its output goes to a file, which is
/// overwritten. Processes that it leaves behind are killed.
///
/// # Errors
/// Fails if the command or the file cannot be used.
pub fn run(
    mut command: Command,
    output: &Path,
    time: Duration,
    stop: &AtomicBool,
) -> io::Result<Ended> {
    let file = OpenOptions::new().append(true).create(true).open(output)?;
    file.set_len(0)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let ended = wait(group, &file, time, stop);
    if !matches!(ended, Ok(Waited::Ended)) {
        // mpirun(1) ends the processes of other groups that it has started.
        let _ = kill_process_group(group, Signal::TERM);
        let _ = wait(group, &file, GRACE, &AtomicBool::new(false));
    }
    // The child has not been waited for yet, so no other group can have its number.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let end = match ended? {
        Waited::Stopped => return Ok(None),
        Waited::TimeIsOver => End::Hang,
        Waited::Ended => End::of(status),
    };
    Ok(Some((end, tail(output)?)))
}

/// Why waiting has ended.
enum Waited {
    Ended,
    TimeIsOver,
    Stopped,
}

/// Waits for the end of a child, which stays a zombie, and keeps its output short.
fn wait(child: Pid, output: &File, time: Duration, stop: &AtomicBool) -> io::Result<Waited> {
    let end = Instant::now() + time;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(child), options) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some(_)) => return Ok(Waited::Ended),
            Err(error) => return Err(error.into()),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Waited::Stopped);
        }
        if Instant::now() >= end {
            return Ok(Waited::TimeIsOver);
        }
        if output.metadata()?.len() > MOST_OUTPUT {
            output.set_len(0)?;
        }
        thread::sleep(PAUSE);
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(KEPT)))?;
    let mut bytes = Vec::new();
    file.take(KEPT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_faults::status::Status;

    fn firing(rule: usize, object: u32, count: u64, command: &str) -> Firing {
        Firing {
            rule,
            process: 1,
            object,
            count,
            command: command.into(),
        }
    }

    fn site(name: &str) -> Site {
        Site::read(name).unwrap()
    }

    #[test]
    fn each_call_is_one_case_and_processes_are_told_apart_where_they_differ() {
        let sites = [site("ibv_reg_mr"), site("ibv_alloc_pd")];
        let firings = [
            firing(1, 0, 1, "./a"),
            firing(0, 0, 1, "./a"),
            firing(0, 0, 2, "./a"),
            firing(1, 0, 1, "./b"),
            firing(0, 0, 1, "./a"),
        ];
        let names: Vec<String> = cases(&sites, &firings, |_| vec![enomem()], false)
            .iter()
            .map(Case::name)
            .collect();
        assert_eq!(
            names,
            [
                "ibv_alloc_pd 1: ENOMEM in ./a",
                "ibv_reg_mr 1: ENOMEM",
                "ibv_reg_mr 2: ENOMEM",
                "ibv_alloc_pd 1: ENOMEM in ./b",
            ]
        );
    }

    #[test]
    fn each_request_is_one_case_for_each_status() {
        let sites = [site("qp*.bind"), site("qp*.recv")];
        let firings = [firing(1, 2, 4, "./a"), firing(0, 1, 1, "./b")];
        let actions = |site| Status::possible(site).map(Action::End).collect();
        let names: Vec<String> = cases(&sites, &firings, actions, false)
            .iter()
            .map(Case::name)
            .collect();
        assert_eq!(
            names,
            [
                "qp2.recv 4: local-length",
                "qp2.recv 4: local-protection",
                "qp1.bind 1: local-qp-operation",
                "qp1.bind 1: window-bind",
                "qp1.bind 1: flush",
                "qp1.bind 1: fatal",
            ]
        );
    }

    fn enomem() -> Action {
        Action::Refuse(verbena_coverage::errno::number("ENOMEM").unwrap())
    }

    #[test]
    fn a_lasting_failure_has_no_end() {
        let sites = [site("ibv_reg_mr")];
        let cases = cases(&sites, &[firing(0, 0, 2, "./a")], |_| vec![enomem()], true);
        assert_eq!(cases[0].name(), "ibv_reg_mr 2..: ENOMEM");
    }

    fn sh(script: &str, seconds: f64) -> (End, String) {
        let directory = std::env::temp_dir();
        let name = format!("sweep-{}-{:p}", std::process::id(), script);
        let output = directory.join(name);
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let time = Duration::from_secs_f64(seconds);
        let ended = run(command, &output, time, &AtomicBool::new(false)).unwrap();
        std::fs::remove_file(output).unwrap();
        ended.unwrap()
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(sh("echo a; exit 3", 60.0), (End::Exit(3), "a\n".into()));
        assert_eq!(sh("kill -SEGV $$", 60.0).0, End::Signal(11));
        assert_eq!(sh("sh -c 'kill -ABRT $$'; exit $?", 60.0).0, End::Signal(6));
        assert_eq!(sh("sleep 600 & wait", 0.2).0, End::Hang);
        assert_eq!(sh("trap '' TERM; echo b; sleep 600", 0.2).1, "b\n");
        let (end, output) = sh("yes | head -c 50000000; echo c", 60.0);
        assert!(end == End::Exit(0) && output.len() <= 4096 && output.ends_with("c\n"));
    }

    #[test]
    fn verdicts_follow_from_ends() {
        let verdict = |end: End| end.verdict(true, &[]);
        assert_eq!(verdict(End::Exit(0)), Verdict::WentOn);
        assert_eq!(verdict(End::Exit(1)), Verdict::Reported);
        assert_eq!(verdict(End::Signal(11)), Verdict::Crashed);
        assert_eq!(verdict(End::Hang), Verdict::Hung);
        assert_eq!(End::Exit(1).verdict(false, &[]), Verdict::NotReached);
        assert_eq!(End::Exit(0).verdict(true, &[1]), Verdict::WrongExit);
        assert_eq!(End::Exit(1).verdict(true, &[1]), Verdict::Reported);
    }
}
