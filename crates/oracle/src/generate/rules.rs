//! Random rules about the adapters of a program's processes.

use super::{Class, Random, Wishes};
use crate::program::ProcessId;
use crate::program::rule::{Cause, Rule};

/// Queue pairs of a process that may have a rule.
const QUEUE_PAIRS: u32 = 4;

const CAUSES: [Cause; 5] = [
    Cause::QpOperation,
    Cause::Protection,
    Cause::Flush,
    Cause::Access,
    Cause::Retries,
];

/// Rules whose effect is only later.
const DELAYS: [&str; 8] = [
    "link: delay 50 us",
    "link.in: delay 300 us",
    "link.out: jitter 500 us",
    "link: rate 1 Gb/s",
    "cq*.poll every 3: empty",
    "cq*.poll: single",
    "cq*.event every 2: delay 1 ms",
    "cq*.event every 3: spurious",
];

/// Rules that lose messages.
const LOSSES: [&str; 6] = [
    "link.out every 3: loss",
    "link.in every 2: loss",
    "link.out every 5: corruption",
    "link.out every 7: loss",
    "link: loss 4%",
    "link.in: loss 10%",
];

/// Returns the rules of the program with this seed. They do not depend on its other random numbers.
pub fn of(seed: u64, processes: u16, wishes: &Wishes) -> Vec<Rule> {
    let mut random = Random::new(seed ^ 0x72_75_6c_65_73);
    if !wishes.classes.contains(&Class::Rules) || !random.percent(wishes.rules) {
        return Vec::new();
    }
    let mut rules = Vec::new();
    for process in (0..processes).map(ProcessId) {
        for number in 1..=QUEUE_PAIRS {
            if random.percent(15) {
                let cause = CAUSES[random.below(CAUSES.len() as u32) as usize];
                rules.push(Rule::ends(process, number, cause));
            }
        }
        let mut texts: Vec<&str> = DELAYS
            .iter()
            .filter(|_| random.percent(20))
            .copied()
            .collect();
        if wishes.losses && random.percent(40) {
            texts.extend(random.among(&LOSSES));
        }
        let known = texts
            .into_iter()
            .filter_map(|text| Rule::new(process, text).ok());
        rules.extend(known);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_of_each_rule_is_known() {
        for text in DELAYS.iter().chain(&LOSSES) {
            assert!(Rule::new(ProcessId(0), text).is_ok(), "{text}");
        }
    }
}
