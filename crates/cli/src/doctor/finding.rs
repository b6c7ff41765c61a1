//! What was found, and how it is shown.

use std::fmt;

use serde::Serialize;

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of it works.
    Ok,
    /// Works, but slower or not everywhere.
    Limited,
    /// Is not there, or refused.
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

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is; the same word on every machine.
    pub subject: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do, if there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// All of it works.
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self::of(subject, State::Ok, found)
    }

    /// Works in part.
    pub fn limited(subject: &'static str, found: impl Into<String>) -> Self {
        Self::of(subject, State::Limited, found)
    }

    /// Is not there.
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

    /// The same, with what to do.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// All that was looked at.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// Whether programs run on the adapter here: two processes did.
    pub runs: bool,
    /// What was found.
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

/// What others said may have several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_and_what_to_do_below_it() {
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
    fn advice_that_is_none_is_no_key() {
        let text = serde_json::to_string(&Finding::limited("cma", "x")).unwrap();
        assert_eq!(text, r#"{"subject":"cma","state":"limited","found":"x"}"#);
    }
}
