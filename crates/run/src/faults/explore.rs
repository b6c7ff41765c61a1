//! Random faults of a command, drawn from the calls and requests that it has made. The same seed
//! draws the same faults of the same calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use verbena_faults::event::Event;
use verbena_faults::firing::Firing;
use verbena_faults::limit::Limit;
use verbena_faults::link::{Link, LinkFault};
use verbena_faults::queue::{Part, Queue, QueueFault};
use verbena_faults::rule::{Action, Rule, Trigger};
use verbena_faults::rules::{Entry, Rules};
use verbena_faults::site::{Objects, Site};

/// Time for which a drawn fault takes a port down: within the retries of usual queue pairs.
const DOWN: Duration = Duration::from_millis(50);
/// Time by which a drawn fault delays the events of a completion queue.
const EVENT_DELAY: Duration = Duration::from_millis(5);

/// The sites of a survey at which completion queues are found. A program's polls and events depend
/// on the time, its completions do not.
pub const QUEUE_SITES: [Site; 2] = [
    Site::Queue(Queue {
        objects: Objects::Each,
        part: Part::Completion,
    }),
    Site::Queue(Queue {
        objects: Objects::Each,
        part: Part::Event,
    }),
];

/// The limits of the number of objects, with the calls that make them.
const NUMBERS: [(&str, &[&str]); 7] = [
    ("max_qp", &["ibv_create_qp", "ibv_create_qp_ex"]),
    ("max_cq", &["ibv_create_cq", "ibv_create_cq_ex"]),
    ("max_srq", &["ibv_create_srq", "ibv_create_srq_ex"]),
    ("max_pd", &["ibv_alloc_pd"]),
    ("max_ah", &["ibv_create_ah", "ibv_create_ah_from_wc"]),
    (
        "max_mr",
        &["ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2"],
    ),
    ("max_mw", &["ibv_alloc_mw"]),
];

/// The limits of sizes that are drawn, each with the limit of the number of its objects.
const SIZES: [(&str, &str, &[u64]); 7] = [
    ("max_qp_wr", "max_qp", &[1, 16]),
    ("max_sge", "max_qp", &[1]),
    ("max_inline_data", "max_qp", &[0]),
    ("max_qp_rd_atom", "max_qp", &[1]),
    ("max_cqe", "max_cq", &[1, 16]),
    ("max_srq_wr", "max_srq", &[1, 16]),
    ("max_mr_size", "max_mr", &[1, 4096]),
];

/// One place at which a command can fail.
#[derive(Debug, PartialEq)]
struct Place {
    site: Site,
    /// The command line of its processes; empty if only one made such calls.
    process: String,
    /// How often the command was there.
    count: u64,
    actions: Vec<Action>,
}

/// The places at which a command can fail.
#[derive(Debug)]
pub struct Places {
    /// Calls, requests and receives, events and links, completion queues, and limits, each in an
    /// order that only the command's calls decide. No group is empty.
    groups: Vec<Vec<Place>>,
}

impl Places {
    /// Returns the places of a survey of these sites, with the actions that are wanted there.
    pub fn new(
        sites: &[Site],
        firings: &[Firing],
        actions: impl Fn(Site) -> Vec<Action>,
    ) -> Places {
        let mut counts: BTreeMap<(usize, u32, &str), u64> = BTreeMap::new();
        for firing in firings {
            let place = (firing.rule, firing.object, firing.command.as_str());
            let count = counts.entry(place).or_default();
            *count = firing.count.max(*count);
        }
        let (mut calls, mut requests, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        let mut made: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        let mut of_process: BTreeMap<&str, u64> = BTreeMap::new();
        for (&(rule, object, command), &count) in &counts {
            let Some(site) = sites.get(rule) else {
                continue;
            };
            let same = |other: &&(usize, u32, &str)| (other.0, other.1) == (rule, object);
            let is_alone = counts.keys().filter(same).count() == 1;
            let at = |site: Site, count, actions| Place {
                site: site.at(object),
                process: if is_alone { "" } else { command }.to_owned(),
                count,
                actions,
            };
            if let Site::Queue(queue) = site {
                let faults = queue_faults(*queue, count);
                queues.extend(faults.map(|(site, count, actions)| at(site, count, actions)));
                continue;
            }
            let place = at(*site, count, actions(*site));
            let group = match site {
                Site::Call(name) => {
                    *made.entry(command).or_default().entry(*name).or_default() += count;
                    &mut calls
                }
                Site::Requests(..) => {
                    *of_process.entry(command).or_default() += count;
                    &mut requests
                }
                Site::Link(_)
                | Site::Queue(_)
                | Site::Receives(_)
                | Site::Port(_)
                | Site::Adapter => &mut requests,
            };
            if !place.actions.is_empty() {
                group.push(place);
            }
        }
        let limits = limits(&made);
        let is_alone = of_process.len() == 1;
        let with_events = |(command, count): (&str, u64)| {
            [
                (Site::Port(1), port_events()),
                (Site::Adapter, vec![Action::Raise(Event::Fatal)]),
                (Site::Link(Link::ALL), link_faults()),
            ]
            .map(|(site, actions)| Place {
                site,
                process: if is_alone { "" } else { command }.to_owned(),
                count,
                actions,
            })
        };
        let events = of_process.into_iter().flat_map(with_events).collect();
        let mut groups = vec![calls, requests, events, queues, limits];
        groups.retain(|group| !group.is_empty());
        Places { groups }
    }

    /// Returns whether there is none.
    pub fn are_none(&self) -> bool {
        self.groups.is_empty()
    }

    /// Draws 1 to `most` faults, fewer with a higher probability: each group, place, number and
    /// action is as probable as the others.
    pub fn draw(&self, seed: u64, most: u64) -> Vec<Entry> {
        let draws = Draws {
            rules: Rules {
                seed,
                entries: Vec::new(),
            },
            made: Cell::new(0),
        };
        let mut entries: Vec<Entry> = Vec::new();
        let mut number = 1;
        while number < most && draws.below(2) == 0 {
            number += 1;
        }
        for _ in 0..number {
            let Some(entry) = self.one(&draws) else {
                break;
            };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        entries
    }

    fn one(&self, draws: &Draws) -> Option<Entry> {
        let place = draws.of(draws.of(&self.groups)?)?;
        let count = 1 + draws.below(place.count);
        let action = *draws.of(&place.actions)?;
        let trigger = match place.site {
            _ if matches!(action, Action::Raise(_)) => Trigger::AfterRequests(count),
            // They hold from the beginning.
            Site::Adapter => Trigger::Range(1, u64::MAX),
            Site::Queue(queue) if queue.part == Part::Event => Trigger::Range(1, u64::MAX),
            // Memory that has run out stays so.
            Site::Call(_) if draws.below(4) == 0 => Trigger::Range(count, u64::MAX),
            _ => Trigger::Range(count, count),
        };
        Some(Entry {
            rule: Rule {
                site: place.site,
                trigger,
                action,
                peer: None,
            },
            process: place.process.clone(),
        })
    }
}

/// Returns the places at a completion queue of which a survey has counted a part.
fn queue_faults(queue: Queue, count: u64) -> impl Iterator<Item = (Site, u64, Vec<Action>)> {
    let at = |part| Site::Queue(Queue { part, ..queue });
    let faults: &[(Part, u64, &[QueueFault])] = match queue.part {
        // Each completion may need a poll.
        Part::Completion => &[
            (Part::Poll, count, &[QueueFault::Empty, QueueFault::Single]),
            (Part::Completion, count, &[QueueFault::Overrun]),
        ],
        Part::Event => &[(
            Part::Event,
            1,
            &[QueueFault::Spurious, QueueFault::Delay(EVENT_DELAY)],
        )],
        Part::Poll => &[],
    };
    let action = |fault: &QueueFault| Action::Spoil(*fault);
    let place = |&(part, count, faults): &(Part, u64, &[QueueFault])| {
        (at(part), count, faults.iter().map(action).collect())
    };
    faults.iter().map(place).collect::<Vec<_>>().into_iter()
}

/// Returns the limits that are drawn: fewer objects than each process made, and small sizes. `made`
/// counts the calls of each process.
fn limits(made: &BTreeMap<&str, BTreeMap<&str, u64>>) -> Vec<Place> {
    let with_numbers = |calls: &BTreeMap<&str, u64>| {
        let of = |names: &[&str]| names.iter().filter_map(|name| calls.get(name)).sum();
        let numbers: BTreeMap<&str, u64> = NUMBERS
            .map(|(name, names)| (name, of(names)))
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        let less = numbers
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|value| Limit { name, value }));
        let sizes = SIZES
            .into_iter()
            .filter(|(_, objects, _)| numbers.contains_key(objects))
            .flat_map(|(name, _, values)| values.iter().map(move |value| (name, *value)))
            .map(|(name, value)| Limit { name, value });
        less.chain(sizes).collect::<Vec<Limit>>()
    };
    let is_alone = made.len() == 1;
    let place = |(command, calls): (&&str, &BTreeMap<&str, u64>)| {
        let actions = with_numbers(calls).into_iter().map(Action::Limit);
        Place {
            site: Site::Adapter,
            process: if is_alone { "" } else { command }.to_owned(),
            count: 1,
            actions: actions.collect(),
        }
    };
    let places = made.iter().map(place);
    places.filter(|place| !place.actions.is_empty()).collect()
}

/// The events of a port that are drawn.
fn port_events() -> Vec<Action> {
    let all = [
        Event::Down(None),
        Event::Down(Some(DOWN)),
        Event::Lid,
        Event::Pkey,
        Event::SubnetManager,
        Event::Gid,
        Event::Reregister,
    ];
    all.map(Action::Raise).to_vec()
}

/// The faults of links that are drawn.
fn link_faults() -> Vec<Action> {
    vec![
        Action::Disturb(LinkFault::Loss),
        Action::Disturb(LinkFault::Delay(DOWN)),
        Action::Raise(Event::Cut(None)),
        Action::Raise(Event::Cut(Some(DOWN))),
    ]
}

/// Numbers that a seed decides.
struct Draws {
    rules: Rules,
    made: Cell<u64>,
}

impl Draws {
    /// Returns a number from 0 to `limit` - 1.
    fn below(&self, limit: u64) -> u64 {
        self.made.set(self.made.get() + 1);
        (self.rules.draw(0, "", 0, self.made.get()) * limit as f64) as u64
    }

    fn of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use verbena_faults::status::Status;

    fn places() -> Places {
        let sites = [
            Site::read("ibv_reg_mr").unwrap(),
            Site::read("qp*.send").unwrap(),
        ];
        let firing = |rule, object, count, command: &str| Firing {
            rule,
            process: 1,
            object,
            count,
            command: command.into(),
        };
        let firings = [
            firing(0, 0, 1, "./a"),
            firing(0, 0, 2, "./a"),
            firing(1, 1, 1, "./a"),
            firing(1, 1, 2, "./a"),
            firing(1, 1, 1, "./b"),
        ];
        Places::new(&sites, &firings, |site| match site {
            Site::Call(_) => vec![Action::Refuse(12), Action::Refuse(11)],
            site => Status::possible(site).map(Action::End).collect(),
        })
    }

    #[test]
    fn seeds_repeat_and_reach_everything() {
        let places = places();
        let mut seen = HashSet::new();
        let mut longest = 0;
        for seed in 0..5000 {
            let drawn = places.draw(seed, 3);
            assert_eq!(drawn, places.draw(seed, 3));
            assert!((1..=3).contains(&drawn.len()), "{drawn:?}");
            longest = longest.max(drawn.len());
            for Entry { rule, process } in drawn {
                // The texts are read as the rules that were meant.
                let text = rule.to_string();
                assert_eq!(text.parse::<Rule>().unwrap(), rule);
                seen.insert(format!("{text} in {process}"));
            }
        }
        assert_eq!(longest, 3);
        let has = |text: &str| assert!(seen.contains(text), "{text} of {seen:?}");
        has("ibv_reg_mr 2: ENOMEM in ");
        has("ibv_reg_mr 1: EAGAIN in ");
        has("qp1.send 2: remote-operation in ./a");
        has("qp1.send 1: flush in ./b");
        has("port1 after 1 requests: down in ./b");
        has("adapter after 2 requests: fatal in ./a");
        has("link 2: loss in ./a");
        has("link after 1 requests: cut for 50 ms in ./b");
        // Nothing that the command did not do.
        for text in &seen {
            let strange = text.contains("reg_mr 3") || text.contains("send 2: flush in ./b");
            assert!(!strange, "{text}");
        }
    }

    #[test]
    fn a_command_without_calls_has_no_places() {
        let none = Places::new(&[], &[], |_| vec![Action::Pass]);
        assert!(none.are_none() && none.draw(1, 3).is_empty());
    }
}
