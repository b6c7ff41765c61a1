//! `--expect SYSTEM` of `evaluate` and `report`: checks figures against those expected of a system.
//! Prints the outcome first, then each figure with its range and source.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;
use crate::profiles::ProfileOptions;
use crate::style::{Style, styled};
use verbena_bench::expected::Expecting;
use verbena_report::expectation::{Check, Checks, Verdict};

/// Which system figures are held against.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ExpectOptions {
    /// Check figures against those expected of this system, or `auto`
    ///
    /// A model of `verbena list`, e.g. connectx6-hdr; `auto` finds it from the adapter's part
    /// number and link. Each figure passes, fails, or has no expectation. The exit code is 0 if
    /// some pass and none fails, 1 if one fails, 3 if none can be checked.
    #[arg(long, value_name = "SYSTEM")]
    expect: Option<String>,
}

impl ExpectOptions {
    /// Returns the checker; `None` if no check was requested.
    ///
    /// # Errors
    ///
    /// Fails if there is no such system.
    pub fn expecting(&self, profiles: &ProfileOptions) -> Result<Option<Expecting>, Failure> {
        let Some(name) = &self.expect else {
            return Ok(None);
        };
        Ok(Some(Expecting::of(name, profiles.library()?)?))
    }
}

/// Returns the exit code: a failed figure takes precedence over a run without any expectation, and
/// that over success.
pub fn exit(checks: &[Option<Checks>]) -> Exit {
    let worst = checks.iter().flatten().map(Checks::verdict).min();
    match worst {
        Some(Verdict::Fail) => Exit::AnswerIsNo,
        Some(Verdict::Pass) => Exit::Success,
        Some(Verdict::NoExpectation) | None => Exit::Environment,
    }
}

pub fn print(checks: &[Option<Checks>]) {
    for one in checks.iter().flatten() {
        outln!("\n{}", text(one));
    }
}

fn text(checks: &Checks) -> String {
    let heading = format!(
        "Expected of {} ({}): {}",
        checks.system,
        checks.about,
        checks.sentence()
    );
    let mut lines = vec![styled(Style::Bold, &heading)];
    lines.push(format!("  {}, {}", checks.run, checks.kind.text()));
    lines.extend(checks.figures.iter().flat_map(figure));
    lines.join("\n")
}

fn figure(check: &Check) -> Vec<String> {
    let style = match check.verdict {
        Verdict::Pass => Style::Good,
        Verdict::Fail => Style::Bad,
        Verdict::NoExpectation => Style::Faint,
    };
    let verdict = format!("{:<14}", check.verdict.text());
    let expected = match check.expected.as_str() {
        "" => String::new(),
        words => format!("expected {words}: "),
    };
    let mut lines = vec![format!(
        "  {} {:<13} {:>10}  {expected}{}",
        styled(style, &verdict),
        check.name,
        check.value,
        check.reason
    )];
    let indented = |text: String| format!("    {}", styled(Style::Faint, &text));
    if !check.source.is_empty() {
        lines.push(indented(check.source.clone()));
    }
    let published: Vec<&str> = check.references.iter().map(|one| &*one.source).collect();
    if !published.is_empty() {
        lines.push(indented(format!("published: {}", published.join("; "))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_option_nothing_is_checked() {
        let none = ExpectOptions::default().expecting(&ProfileOptions::default());
        assert!(none.is_ok_and(|none| none.is_none()));
    }

    #[test]
    fn a_run_without_checks_exits_with_environment() {
        assert_eq!(exit(&[]), Exit::Environment);
        assert_eq!(exit(&[None]), Exit::Environment);
    }
}
