//! Finds the fewest faults with which a command still ends the same way, and the earliest calls
//! and requests.
//!
//! Faults are left out in ever smaller groups, as delta debugging does (Zeller and Hildebrandt,
//! "Simplifying and Isolating Failure-Inducing Input", 2002); then each number is lowered.

use verbena_faults::rule::Trigger;
use verbena_faults::rules::Entry;

/// The answer to whether a command still ends the same way with some faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It does.
    Same,
    /// It does not.
    Differs,
    /// No more runs are wanted.
    Stopped,
}

/// Returns the smallest schedule that was found, and whether the search was complete.
///
/// # Errors
/// Those of `ask`.
pub fn shrink<E>(
    entries: Vec<Entry>,
    mut ask: impl FnMut(&[Entry]) -> Result<Answer, E>,
) -> Result<(Vec<Entry>, bool), E> {
    let mut entries = entries;
    let mut size = entries.len().div_ceil(2);
    while entries.len() > 1 {
        let before = entries.len();
        let mut start = 0;
        while start < entries.len() && entries.len() > 1 {
            let end = entries.len().min(start + size);
            let fewer = [&entries[..start], &entries[end..]].concat();
            if fewer.is_empty() {
                break;
            }
            match ask(&fewer)? {
                Answer::Same => entries = fewer,
                Answer::Differs => start = end,
                Answer::Stopped => return Ok((entries, false)),
            }
        }
        // Without some faults, others may have become superfluous.
        if size == 1 && entries.len() == before {
            break;
        }
        size = size.div_ceil(2);
    }
    for at in 0..entries.len() {
        let mut lowest = 0;
        while let Some(number) = number(&entries[at].rule.trigger) {
            // Between the lowest number that may do and the one that does.
            if lowest >= number {
                break;
            }
            let middle = lowest + (number - lowest) / 2;
            let trigger = lowered(entries[at].rule.trigger, middle);
            if trigger == entries[at].rule.trigger {
                break;
            }
            let mut lower = entries.clone();
            lower[at].rule.trigger = trigger;
            let is_known = entries.contains(&lower[at]);
            match if is_known {
                Answer::Differs
            } else {
                ask(&lower)?
            } {
                Answer::Same => entries = lower,
                Answer::Differs => lowest = middle + 1,
                Answer::Stopped => return Ok((entries, false)),
            }
        }
    }
    Ok((entries, true))
}

/// Returns the number of a trigger that can be lowered: how many calls or requests pass before.
fn number(trigger: &Trigger) -> Option<u64> {
    match *trigger {
        Trigger::Range(first, _) => Some(first - 1),
        Trigger::AfterRequests(number) => Some(number - 1),
        Trigger::Every(_) | Trigger::Chance(_) | Trigger::AfterTime(_) => None,
    }
}

/// Returns the trigger after so many calls or requests.
fn lowered(trigger: Trigger, number: u64) -> Trigger {
    match trigger {
        Trigger::Range(_, u64::MAX) => Trigger::Range(number + 1, u64::MAX),
        Trigger::Range(first, last) => Trigger::Range(number + 1, last - (first - 1 - number)),
        Trigger::AfterRequests(_) => Trigger::AfterRequests(number + 1),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn entries(rules: &[String]) -> Vec<Entry> {
        let entry = |rule: &String| Entry {
            rule: rule.parse().unwrap(),
            process: String::new(),
        };
        rules.iter().map(entry).collect()
    }

    fn texts(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(|one| one.rule.to_string()).collect()
    }

    /// Whether a fault of this call is there, at this number or later.
    fn has(entries: &[Entry], call: &str, least: u64) -> bool {
        let is_met = |entry: &Entry| {
            entry.rule.to_string().starts_with(call)
                && number(&entry.rule.trigger).is_some_and(|number| number + 1 >= least)
        };
        entries.iter().any(is_met)
    }

    #[test]
    fn two_of_many_faults_are_found_in_few_runs() {
        let mut all: Vec<String> = (1..=60)
            .map(|n| format!("ibv_reg_mr {n}: ENOMEM"))
            .collect();
        all.insert(13, "qp1.send 900: flush".into());
        all.push("port1 after 77 requests: down".into());
        let mut runs = 0;
        let (least, complete) = shrink(entries(&all), |some| {
            runs += 1;
            let same = has(some, "qp1.send", 41) && has(some, "port1", 5);
            Ok::<_, Infallible>(if same { Answer::Same } else { Answer::Differs })
        })
        .unwrap();
        assert!(complete);
        let expected = ["qp1.send 41: flush", "port1 after 5 requests: down"];
        assert_eq!(texts(&least), expected);
        assert!(runs < 60, "{runs} runs");
    }

    #[test]
    fn ranges_keep_their_length_and_chance_stays() {
        let all = [
            "ibv_reg_mr 7..9: ENOMEM".to_owned(),
            "ibv_create_cq 5..: EAGAIN".to_owned(),
            "ibv_alloc_pd p 0.5: ENOMEM".to_owned(),
        ];
        let (least, _) = shrink(entries(&all), |some| {
            Ok::<_, Infallible>(match some.len() {
                3 => Answer::Same,
                _ => Answer::Differs,
            })
        })
        .unwrap();
        let expected = [
            "ibv_reg_mr 1..3: ENOMEM",
            "ibv_create_cq: EAGAIN",
            "ibv_alloc_pd p 0.5: ENOMEM",
        ];
        assert_eq!(texts(&least), expected);
    }

    #[test]
    fn a_stopped_search_keeps_the_best_so_far() {
        let all: Vec<String> = (1..=8).map(|n| format!("ibv_reg_mr {n}: ENOMEM")).collect();
        let mut runs = 0;
        let (least, complete) = shrink(entries(&all), |_| {
            runs += 1;
            Ok::<_, Infallible>(if runs == 1 {
                Answer::Same
            } else {
                Answer::Stopped
            })
        })
        .unwrap();
        assert!(!complete && least.len() == 4);
    }

    proptest! {
        /// The result is needed as a whole: it ends the same way, and without any one fault it does
        /// not.
        #[test]
        fn nothing_can_be_left_out(
            numbers in proptest::collection::btree_set(1u64..200, 1..40),
            needed in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
        ) {
            let numbers: Vec<u64> = numbers.into_iter().collect();
            let mut needed: Vec<u64> = needed.iter().map(|one| *one.get(&numbers)).collect();
            needed.sort_unstable();
            needed.dedup();
            let all: Vec<String> =
                numbers.iter().map(|n| format!("ibv_reg_mr {n}: ENOMEM")).collect();
            let ends_so = |some: &[Entry]| {
                needed.iter().all(|n| texts(some).contains(&format!("ibv_reg_mr {n}: ENOMEM")))
            };
            let (least, complete) = shrink(entries(&all), |some| {
                Ok::<_, Infallible>(if ends_so(some) { Answer::Same } else { Answer::Differs })
            })
            .unwrap();
            prop_assert!(complete);
            let expected: Vec<String> =
                needed.iter().map(|n| format!("ibv_reg_mr {n}: ENOMEM")).collect();
            prop_assert_eq!(texts(&least), expected);
        }
    }
}
