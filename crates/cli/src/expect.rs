//! `--expect SYSTEM` of `evaluate` and `report`: checks figures against those expected of a system.
//! Prints the outcome first, then each figure with its range and source.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;
use crate::profiles::ProfileOptions;
use verbena_bench::expected::Expecting;
use verbena_report::expectation::{Checks, Verdict};

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
        Some(Verdict::Fail) => Exit::NegativeResult,
        Some(Verdict::Pass) => Exit::Success,
        Some(Verdict::NoExpectation) | None => Exit::Environment,
    }
}

pub fn print(checks: &[Option<Checks>]) {
    for one in checks.iter().flatten() {
        outln!("\n{}", one.text());
    }
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
