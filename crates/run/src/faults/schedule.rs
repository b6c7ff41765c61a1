//! A schedule of faults as a TOML file, and the failed calls of a run as one:
//!
//! ```toml
//! seed = 7
//!
//! [[fault]]
//! name = "no memory for the second region"
//! process = "./client"
//! at = "ibv_reg_mr 2"
//! do = "ENOMEM"
//!
//! [[link]]
//! direction = "out"
//! loss = 0.01
//! delay = "5 us"
//! ```

use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use verbena_faults::firing::Firing;
use verbena_faults::peer;
use verbena_faults::rule::{Action, BadRule, Rule, Trigger};
use verbena_faults::rules::{Entry, Rules};

/// Largest file, in bytes. Its text is longer than that of the rules
/// ([`LONGEST`](verbena_faults::rules::LONGEST)), as each key is spelled out.
const LARGEST: u64 = 64 << 20;

/// The reason why a schedule is refused.
#[derive(Debug, thiserror::Error)]
pub enum BadSchedule {
    /// The file cannot be read.
    #[error("{0}")]
    File(io::Error),
    /// The file is too long.
    #[error("larger than {} MiB", LARGEST >> 20)]
    Size,
    /// It is no TOML, or has other keys.
    #[error("{0}")]
    Form(toml::de::Error),
    /// A fault cannot be read.
    #[error("fault {0}: {1}")]
    Fault(usize, BadRule),
    /// A link cannot be read.
    #[error("link {0}: {1}")]
    Link(usize, BadRule),
    /// A link says nothing.
    #[error("link {0} has none of loss, corruption, duplicate, reorder, delay, jitter and rate")]
    Empty(usize),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    #[serde(default)]
    fault: Vec<Fault>,
    #[serde(default)]
    link: Vec<LinkFaults>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: Option<String>,
    #[serde(default)]
    process: String,
    peer: Option<String>,
    at: String,
    r#do: String,
}

/// The faults of a link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFaults {
    #[serde(default)]
    process: String,
    peer: Option<String>,
    port: Option<u8>,
    direction: Option<String>,
    loss: Option<Amount>,
    corruption: Option<Amount>,
    duplicate: Option<Amount>,
    reorder: Option<Amount>,
    delay: Option<Amount>,
    jitter: Option<Amount>,
    rate: Option<Amount>,
}

/// A probability, or a text as in a rule.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Probability(f64),
    Text(String),
}

impl LinkFaults {
    /// Returns a fault for each of its keys.
    fn rules(&self) -> Result<Vec<NamedFault>, BadRule> {
        let port = self.port.map(|port| port.to_string()).unwrap_or_default();
        let direction = self.direction.iter().map(|one| format!(".{one}"));
        let site = format!("link{port}{}", direction.collect::<String>());
        let site = with_peer(site, self.peer.as_deref())?;
        let keys = [
            ("loss", &self.loss),
            ("corruption", &self.corruption),
            ("duplicate", &self.duplicate),
            ("reorder", &self.reorder),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("rate", &self.rate),
        ];
        let given = keys.into_iter().filter_map(|(key, amount)| {
            let amount = match amount.as_ref()? {
                Amount::Probability(chance) => format!("{}%", chance * 100.0),
                Amount::Text(text) => text.clone(),
            };
            Some(format!("{key} {amount}"))
        });
        given
            .map(|action| {
                let rule = Rule::new(&site, &action)?;
                Ok(NamedFault {
                    name: rule.to_string(),
                    entry: Entry {
                        rule,
                        process: self.process.clone(),
                    },
                })
            })
            .collect()
    }
}

/// The faults of a run.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Decides the draws of chance, if it is given.
    pub seed: Option<u64>,
    /// The faults, in order.
    pub faults: Vec<NamedFault>,
}

/// A fault with its name.
#[derive(Debug)]
pub struct NamedFault {
    /// Its name, or the text of its rule.
    pub name: String,
    /// Its rule and processes.
    pub entry: Entry,
}

impl Schedule {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is too large; else as [`Schedule::read`].
    pub fn open(path: &Path) -> Result<Schedule, BadSchedule> {
        let file = fs::File::open(path).map_err(BadSchedule::File)?;
        let mut text = String::new();
        let read = file.take(LARGEST + 1).read_to_string(&mut text);
        read.map_err(BadSchedule::File)?;
        match text.len() as u64 > LARGEST {
            true => Err(BadSchedule::Size),
            false => Schedule::read(&text),
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// Names the wrong part, with the line or the fault's number.
    pub fn read(text: &str) -> Result<Schedule, BadSchedule> {
        let file: File = toml::from_str(text).map_err(BadSchedule::Form)?;
        let fault = |(number, fault): (usize, Fault)| {
            let at = with_peer(fault.at, fault.peer.as_deref());
            let rule = at.and_then(|at| Rule::new(&at, &fault.r#do));
            let rule = rule.map_err(|error| BadSchedule::Fault(number + 1, error))?;
            Ok(NamedFault {
                name: fault.name.unwrap_or_else(|| rule.to_string()),
                entry: Entry {
                    rule,
                    process: fault.process,
                },
            })
        };
        let faults = file.fault.into_iter().enumerate().map(fault);
        let mut faults: Vec<NamedFault> = faults.collect::<Result<_, _>>()?;
        for (number, link) in file.link.iter().enumerate() {
            let of_link = link.rules();
            let of_link = of_link.map_err(|error| BadSchedule::Link(number + 1, error))?;
            if of_link.is_empty() {
                return Err(BadSchedule::Empty(number + 1));
            }
            faults.extend(of_link);
        }
        Ok(Schedule {
            seed: file.seed,
            faults,
        })
    }

    /// Adds a rule for all processes.
    pub fn add(&mut self, rule: Rule) {
        self.faults.push(NamedFault {
            name: rule.to_string(),
            entry: Entry {
                rule,
                process: String::new(),
            },
        });
    }

    /// Returns the rules.
    pub fn rules(&self) -> Rules {
        Rules {
            seed: self.seed.unwrap_or_default(),
            entries: self.faults.iter().map(|one| one.entry.clone()).collect(),
        }
    }

    /// Returns a schedule without chance of the failed calls and requests, as a file's text.
    pub fn fired(&self, firings: &[Firing]) -> String {
        let mut text =
            String::from("# The failures of a run: `verbena run --faults FILE` repeats them.\n");
        let mut written = HashSet::new();
        for firing in firings {
            let Some(fault) = self.faults.get(firing.rule) else {
                continue;
            };
            let action = fault.entry.rule.action;
            if action == Action::Pass {
                continue;
            }
            let place = fault.entry.rule.place(firing);
            // Processes with the same command line cannot be distinguished.
            let action = action.to_string();
            if !written.insert((&firing.command, place.clone(), action.clone())) {
                continue;
            }
            add_fault(
                &mut text,
                &[
                    ("name", &fault.name),
                    ("process", &firing.command),
                    ("at", &place),
                    ("do", &action),
                ],
            );
        }
        text
    }
}

/// Returns a place with the peer that is named beside it. The place may not name one, too.
fn with_peer(at: String, peer: Option<&str>) -> Result<String, BadRule> {
    match peer {
        None => Ok(at),
        Some(_) if at.contains(peer::WORD) => Err(BadRule::TwoPeers(at)),
        Some(peer) => Ok(format!("{at}{}{peer}", peer::WORD)),
    }
}

/// Returns rules as a file's text, with the seed if there is chance in them.
pub fn text(rules: &Rules) -> String {
    let mut text = String::from("# For `verbena run --faults FILE`.\n");
    let has_chance = |entry: &Entry| matches!(entry.rule.trigger, Trigger::Chance(_));
    if rules.entries.iter().any(has_chance) {
        let _ = writeln!(text, "seed = {}", rules.seed);
    }
    for Entry { rule, process } in &rules.entries {
        add_fault(
            &mut text,
            &[
                ("process", process),
                ("at", &rule.at()),
                ("do", &rule.action.to_string()),
            ],
        );
    }
    text
}

/// Adds a fault with these keys; an empty value is left out.
fn add_fault(to: &mut String, values: &[(&str, &str)]) {
    to.push_str("\n[[fault]]\n");
    for (key, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(to, "{key} = {}", toml::Value::from(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 7\n[[fault]]\nname = \"one\"\nprocess = \"./a\"\n\
        at = \"ibv_reg_mr p 0.5\"\ndo = \"ENOMEM\"\n\
        [[fault]]\nat = \"qp*.write every 2\"\ndo = \"remote-access\"\n\
        [[fault]]\nat = \"ibv_alloc_pd\"\ndo = \"EAGAIN\"\n";

    #[test]
    fn schedules_are_read() {
        let read = Schedule::read(TEXT).unwrap();
        assert_eq!(read.seed, Some(7));
        let names: Vec<&str> = read.faults.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "one",
                "qp*.write every 2: remote-access",
                "ibv_alloc_pd: EAGAIN"
            ]
        );
        assert_eq!(read.faults[0].entry.process, "./a");
    }

    #[test]
    fn wrong_schedules_are_refused_with_their_place() {
        let error = |text: &str| Schedule::read(text).unwrap_err().to_string();
        assert!(error("sede = 7").contains("unknown field `sede`"));
        assert!(error("[[fault]]\nat = \"ibv_reg_mr\"").contains("missing field `do`"));
        let found = error("[[fault]]\nat = \"ibv_reg_mr x\"\ndo = \"ENOMEM\"");
        assert!(found.starts_with("fault 1: \"x\" is not"), "{found}");
    }

    #[test]
    fn links_have_a_fault_for_each_key() {
        let read = Schedule::read(
            "[[link]]\nprocess = \"./a\"\nport = 1\ndirection = \"out\"\nloss = 0.01\n\
             delay = \"5us\"\nrate = \"10 Gb/s\"\n[[link]]\nduplicate = \"50%\"\n",
        )
        .unwrap();
        let names: Vec<&str> = read.faults.iter().map(|one| one.name.as_str()).collect();
        let expected = [
            "link1.out p 0.01: loss",
            "link1.out: delay 5 us",
            "link1.out: rate 10 Gb/s",
            "link p 0.5: duplicate",
        ];
        assert_eq!(names, expected);
        assert_eq!(read.faults[2].entry.process, "./a");
        let error = |text: &str| Schedule::read(text).unwrap_err().to_string();
        assert!(error("[[link]]\nport = 1").starts_with("link 1 has none of loss"));
        assert!(error("[[link]]\ndelay = 0.1").starts_with("link 1: "));
        assert!(error("[[link]]\nloss = 2.0").starts_with("link 1: "));
        assert!(error("[[link]]\nport = 0\nloss = 0.1").starts_with("link 1: "));
        assert!(error("[[link]]\ndirection = \"up\"\nloss = 0.1").starts_with("link 1: "));
    }

    #[test]
    fn peers_are_named_in_the_place_or_beside_it() {
        let mut read = Schedule::read(
            "[[fault]]\nat = \"qp*.send 3\"\npeer = \"./server\"\ndo = \"flush\"\n\
             [[link]]\npeer = \"lid 4\"\nloss = 0.5\n",
        )
        .unwrap();
        read.add("qp*.read peer gid fe80::2: remote-access".parse().unwrap());
        let names: Vec<&str> = read.faults.iter().map(|one| one.name.as_str()).collect();
        let expected = [
            "qp*.send 3 peer ./server: flush",
            "link p 0.5 peer lid 4: loss",
            "qp*.read peer gid fe80::2: remote-access",
        ];
        assert_eq!(names, expected);
        let again = Schedule::read(&text(&read.rules())).unwrap();
        assert_eq!(again.rules().entries, read.rules().entries);
        let fired = read.fired(&[Firing {
            rule: 0,
            process: 1,
            object: 2,
            count: 3,
            command: "./a".into(),
        }]);
        let again = Schedule::read(&fired).unwrap();
        let rule = again.faults[0].entry.rule.to_string();
        assert_eq!(rule, "qp2.send 3 peer ./server: flush");
        let error = |text: &str| Schedule::read(text).unwrap_err().to_string();
        let empty = "[[fault]]\nat = \"qp1.send\"\npeer = \"\"\ndo = \"flush\"";
        assert!(error(empty).contains("is not a peer"), "{}", error(empty));
        let two = "[[fault]]\nat = \"qp1.send 1 peer ./a\"\npeer = \"./b\"\ndo = \"flush\"";
        assert!(error(two).starts_with("fault 1: \"qp1.send 1 peer ./a\" names a peer"));
    }

    #[test]
    fn the_longest_schedules_that_fired_are_read_again() {
        let mut schedule = Schedule::default();
        schedule.add("qp*.link.out p 0.5: loss".parse().unwrap());
        let firing = |number: u64| Firing {
            rule: 0,
            process: 1,
            object: 1,
            count: number % 1000 + 1,
            command: format!("./client --of-a-long-name --rank {}", number / 1000),
        };
        let firings: Vec<Firing> = (0..19_000).map(firing).collect();
        let text = schedule.fired(&firings);
        assert!(text.len() > 2_300_000, "{}", text.len());
        let path = std::env::temp_dir().join(format!("verbena-fired-{}", std::process::id()));
        fs::write(&path, &text).unwrap();
        let again = Schedule::open(&path);
        // The same, with an end that makes it too large.
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let larger = Schedule::open(&path);
        fs::remove_file(&path).unwrap();
        let again = again.unwrap().rules();
        assert_eq!(again.entries.len(), firings.len());
        assert!(again.encode().is_ok());
        assert_eq!(larger.unwrap_err().to_string(), "larger than 64 MiB");
    }

    #[test]
    fn a_property_of_a_link_is_written_once() {
        let mut schedule = Schedule::default();
        schedule.add("link.out: delay 5 us".parse().unwrap());
        schedule.add("link: loss 50%".parse().unwrap());
        let firing = |rule, object, count| Firing {
            rule,
            process: object,
            object,
            count,
            command: "./a".into(),
        };
        let fired = schedule.fired(&[firing(0, 1, 1), firing(0, 2, 1), firing(1, 2, 3)]);
        let again = Schedule::read(&fired).unwrap();
        let rules = again.faults.iter().map(|one| one.entry.rule.to_string());
        assert_eq!(
            rules.collect::<Vec<_>>(),
            ["link.out: delay 5 us", "qp2.link.out 3: loss"]
        );
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        let read = Schedule::read(TEXT).unwrap();
        let again = Schedule::read(&text(&read.rules())).unwrap();
        assert_eq!(again.rules(), read.rules());
    }

    #[test]
    fn what_fired_is_a_schedule_without_chance() {
        let read = Schedule::read(TEXT).unwrap();
        let firing = |rule, process, object, count, command: &str| Firing {
            rule,
            process,
            object,
            count,
            command: command.into(),
        };
        let fired = read.fired(&[
            firing(0, 10, 0, 3, "./a \"x\""),
            firing(0, 11, 0, 3, "./a \"x\""),
            firing(1, 10, 2, 4, "./a \"x\""),
            firing(2, 10, 0, 1, "./a \"x\""),
            firing(9, 10, 0, 1, "./a \"x\""),
        ]);
        let again = Schedule::read(&fired).unwrap();
        let rules: Vec<String> = again
            .faults
            .iter()
            .map(|one| one.entry.rule.to_string())
            .collect();
        assert_eq!(
            rules,
            [
                "ibv_reg_mr 3: ENOMEM",
                "qp2.write 4: remote-access",
                "ibv_alloc_pd 1: EAGAIN"
            ]
        );
        assert_eq!(again.faults[0].entry.process, "./a \"x\"");
        assert_eq!(again.faults[0].name, "one");
    }
}
