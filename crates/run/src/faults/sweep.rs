//! The cases of a sweep, which fails each call or request of a command by itself.

use std::collections::{HashMap, HashSet};

use verbena_faults::firing::Firing;
use verbena_faults::rule::{Action, Rule, Trigger};
use verbena_faults::rules::{Entry, Rules};
use verbena_faults::site::Site;

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

/// Returns the rules with which a run records the first `most` calls of each process, or requests
/// of each object.
pub fn survey(sites: &[Site], most: u64) -> Rules {
    let entry = |site: &Site| Entry {
        rule: Rule {
            site: *site,
            trigger: Trigger::Range(1, most),
            action: Action::Pass,
            peer: None,
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
                    peer: None,
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
}
