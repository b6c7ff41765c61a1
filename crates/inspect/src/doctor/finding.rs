//! The findings of the checks, and their display.

use std::fmt;

use serde::Serialize;

/// The state of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Works fully.
    Ok,
    /// Works, but slower or not everywhere.
    Limited,
    /// Absent or refused.
    Missing,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        })
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The feature; the same word on every machine.
    pub subject: &'static str,
    /// Whether it works.
    pub state: State,
    /// The observation.
    pub found: String,
    /// How to obtain the feature, unless it works fully.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// Returns the finding of a feature that works.
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self::of(subject, State::Ok, found)
    }

    /// Returns the finding of a feature that works in part.
    pub fn limited(subject: &'static str, found: impl Into<String>) -> Self {
        Self::of(subject, State::Limited, found)
    }

    /// Returns the finding of an absent feature.
    pub fn missing(subject: &'static str, found: impl Into<String>) -> Self {
        Self::of(subject, State::Missing, found)
    }

    fn of(subject: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            subject,
            state,
            found: found.into(),
            advice: None,
        }
    }

    /// Adds advice.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// All findings.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// Whether two processes exchanged data on the adapter.
    pub runs: bool,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding {
                subject,
                state,
                found,
                advice,
            } = finding;
            writeln!(f, "{state:<8}{subject:<18}{}", one_line(found))?;
            if let Some(advice) = advice {
                writeln!(f, "{:<26}-> {}", "", one_line(advice))?;
            }
        }
        writeln!(
            f,
            "programs {} on the software adapter here",
            if self.runs { "run" } else { "do not run" }
        )
    }
}

/// Joins lines: messages of other programs may have several.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_followed_by_its_advice() {
        let examination = Examination {
            runs: false,
            findings: vec![
                Finding::ok("clock", "fine"),
                Finding::missing("cma", "refused\nby the kernel").advise("allow it"),
            ],
        };
        assert_eq!(
            examination.to_string(),
            "ok      clock             fine\n\
             missing cma               refused by the kernel\n\
             \u{20}                         -> allow it\n\
             programs do not run on the software adapter here\n"
        );
    }

    #[test]
    fn absent_advice_is_omitted_from_json() {
        let text = serde_json::to_string(&Finding::limited("cma", "x")).unwrap();
        assert_eq!(text, r#"{"subject":"cma","state":"limited","found":"x"}"#);
    }
}
