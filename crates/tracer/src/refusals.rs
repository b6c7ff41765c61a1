//! Refuses the calls that the rules in VERBENA_FAULTS name (`verbena_faults`), and records each
//! call that a rule was about in the file that VERBENA_FAULTS_LOG names.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, fs, process};

use verbena_faults::call::{self, Returns};
use verbena_faults::firing::{self, Firing, command_line};
use verbena_faults::rule::{Action, Rule};
use verbena_faults::rules::{self, Rules};

/// The failure of a call.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    /// How the call tells it.
    pub returns: Returns,
    /// The error number.
    pub errno: i32,
}

/// The rules that are about this process, with the number of calls of each so far.
struct Own {
    rules: Rules,
    command: String,
    record: Option<PathBuf>,
    counts: Vec<Option<Counts>>,
}

/// The counts of a rule in this process.
#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    recorded: AtomicU64,
}

fn own() -> Option<&'static Own> {
    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    OWN.get_or_init(Own::named).as_ref()
}

/// Returns whether there are rules.
pub fn are_there() -> bool {
    own().is_some()
}

/// Counts the calls from one again; called in a child of fork(2).
pub fn begin_process() {
    for counts in own().iter().flat_map(|own| own.counts.iter().flatten()) {
        counts.calls.store(0, Ordering::Relaxed);
        counts.recorded.store(0, Ordering::Relaxed);
    }
}

/// Counts a call, and returns its failure if a rule refuses it.
pub fn refusal(name: &str) -> Option<Refusal> {
    own()?.refusal(name)
}

impl Own {
    fn named() -> Option<Own> {
        let text = env::var_os(rules::VARIABLE).filter(|text| !text.is_empty())?;
        let decoded = match text.to_str() {
            Some(text) => Rules::decode(text).map_err(|error| error.to_string()),
            None => Err("not a text".into()),
        };
        let rules = decoded.unwrap_or_else(|error| {
            // The program would pass a test that it has not run.
            eprintln!("verbena: {}: {error}", rules::VARIABLE);
            process::abort();
        });
        let command = command_line(&fs::read("/proc/self/cmdline").unwrap_or_default());
        let is_meant = |process: &str| command.contains(process);
        let counts = rules
            .entries
            .iter()
            .map(|entry| is_meant(&entry.process).then(Counts::default))
            .collect();
        let record = env::var_os(firing::VARIABLE).filter(|path| !path.is_empty());
        Some(Own {
            rules,
            command,
            record: record.map(PathBuf::from),
            counts,
        })
    }

    fn refusal(&self, name: &str) -> Option<Refusal> {
        let mut refusal = None;
        for (number, (entry, counts)) in self.rules.entries.iter().zip(&self.counts).enumerate() {
            let (rule, Some(counts)) = (&entry.rule, counts) else {
                continue;
            };
            if rule.call != name {
                continue;
            }
            let count = counts.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if refusal.is_none() && self.is_met(number, rule, count) {
                if counts.recorded.fetch_add(1, Ordering::Relaxed) < firing::MOST {
                    self.record(number, count);
                }
                refusal = match rule.action {
                    Action::Refuse(errno) => call::named(name).map(|call| Refusal {
                        returns: call.returns,
                        errno,
                    }),
                    Action::Pass => None,
                };
            }
        }
        refusal
    }

    fn is_met(&self, number: usize, rule: &Rule, count: u64) -> bool {
        let draw = || self.rules.draw(number, &self.command, count);
        rule.trigger.is_met(count, draw)
    }

    /// Appends to the record, in one write. The file is opened each time, because programs close
    /// descriptors that they do not know.
    fn record(&self, rule: usize, count: u64) {
        let Some(path) = &self.record else {
            return;
        };
        let line = Firing {
            rule,
            process: process::id(),
            count,
            command: self.command.clone(),
        }
        .to_string();
        let file = OpenOptions::new().append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                eprintln!(
                    "verbena: cannot record a fault in {}: {error}",
                    path.display()
                );
            }
        }
    }
}
