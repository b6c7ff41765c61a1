//! Rules by which the adapter of a process has requests fail, links lose, and completion queues
//! show less (`verbena run --fault`), and their effect on the outcome.

use super::ProcessId;
use super::words::Word;

/// The cause of failure of every request that can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The adapter refuses it: IBV_WC_LOC_QP_OP_ERR.
    QpOperation,
    /// Its local memory is not accessible.
    Protection,
    /// The queue pair fails before it.
    Flush,
    /// Its key names nothing at the responder.
    Access,
    /// No transmission is answered.
    Retries,
}

/// The causes, with the statuses that name them.
const CAUSES: [(&str, Cause); 5] = [
    ("local-qp-operation", Cause::QpOperation),
    ("local-protection", Cause::Protection),
    ("flush", Cause::Flush),
    ("remote-access", Cause::Access),
    ("retry-exceeded", Cause::Retries),
];

/// The effect of a rule on the outcome of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Requests of the process's queue pair of this number, from 1, end by a cause.
    Ends(u32, Cause),
    /// Messages are lost: those that the process sends, or their answers.
    Loses(Run),
    /// None: all is only later.
    None,
}

/// How many transmissions of one request a rule may lose in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Run {
    /// One at most, in one direction.
    One,
    /// Any number.
    Any,
}

/// A rule about a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The process.
    pub by: ProcessId,
    /// The rule, as the adapter reads it.
    pub text: String,
    /// Its effect.
    pub effect: Effect,
}

impl Rule {
    /// Returns a rule that has all requests of a queue pair end by a cause.
    pub fn ends(by: ProcessId, queue_pair: u32, cause: Cause) -> Rule {
        let name = CAUSES.iter().find(|(_, known)| *known == cause);
        Rule {
            by,
            text: format!("qp{queue_pair}.any: {}", name.map_or("", |(name, _)| name)),
            effect: Effect::Ends(queue_pair, cause),
        }
    }

    /// Parses a rule.
    ///
    /// # Errors
    ///
    /// The reference does not know its effect.
    pub fn new(by: ProcessId, text: &str) -> Result<Rule, String> {
        let effect =
            effect(text).ok_or_else(|| format!("no rule with a known effect: `{text}`"))?;
        Ok(Rule {
            by,
            text: text.to_owned(),
            effect,
        })
    }

    /// Returns the line of the program's text.
    pub fn line(&self) -> String {
        format!("rule {} {}", self.by.word(), self.text)
    }

    /// Returns the rules of a process as the adapter reads them; none if there are none.
    pub fn variable(rules: &[Rule], of: ProcessId) -> Option<String> {
        let texts: Vec<&str> = rules
            .iter()
            .filter(|rule| rule.by == of)
            .map(|rule| rule.text.as_str())
            .collect();
        (!texts.is_empty()).then(|| format!("seed 1\n{}", texts.join("\n")))
    }
}

fn effect(text: &str) -> Option<Effect> {
    let (at, what) = text.split_once(": ")?;
    if let Some(number) = at.strip_prefix("qp").and_then(|at| at.strip_suffix(".any")) {
        let (_, cause) = CAUSES.iter().find(|(name, _)| *name == what)?;
        return Some(Effect::Ends(number.parse().ok()?, *cause));
    }
    match what.split(' ').next()? {
        "loss" | "corruption" if at.starts_with("link") => Some(Effect::Loses(run_of(at))),
        "delay" | "jitter" | "rate" if at.starts_with("link") => Some(Effect::None),
        "empty" | "single" | "spurious" | "delay" if at.starts_with("cq") => Some(Effect::None),
        _ => None,
    }
}

/// Returns how many losses in a row a rule about these messages allows.
fn run_of(at: &str) -> Run {
    let is_spread = |every: &str| every.parse().is_ok_and(|count: u64| count > 1);
    match at.split_once(" every ") {
        Some(("link.out" | "link.in", every)) if is_spread(every) => Run::One,
        _ => Run::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_known_effects() {
        let effect = |text: &str| Rule::new(ProcessId(0), text).map(|rule| rule.effect);
        assert_eq!(effect("qp2.any: flush"), Ok(Effect::Ends(2, Cause::Flush)));
        let loses = |text: &str| match effect(text) {
            Ok(Effect::Loses(run)) => run,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(loses("link.out every 3: loss"), Run::One);
        assert_eq!(loses("link.in every 2: corruption"), Run::One);
        for text in [
            "link.out every 1: loss",
            "link every 3: loss",
            "link: loss 5%",
        ] {
            assert_eq!(loses(text), Run::Any, "{text}");
        }
        assert_eq!(effect("link: delay 5 us"), Ok(Effect::None));
        assert_eq!(effect("cq*.poll: single"), Ok(Effect::None));
        for text in [
            "qp2.any: fatal",
            "link: cut",
            "cq1.completion 3: overrun",
            "qp1.any",
        ] {
            assert!(effect(text).is_err(), "{text}");
        }
        let rule = Rule::ends(ProcessId(1), 3, Cause::Access);
        assert_eq!(rule.line(), "rule p1 qp3.any: remote-access");
        let rules = [
            rule.clone(),
            Rule::new(ProcessId(1), "link: delay 5 us").unwrap(),
        ];
        assert_eq!(Rule::variable(&rules, ProcessId(0)), None);
        let text = "seed 1\nqp3.any: remote-access\nlink: delay 5 us";
        assert_eq!(Rule::variable(&rules, ProcessId(1)).as_deref(), Some(text));
    }
}
