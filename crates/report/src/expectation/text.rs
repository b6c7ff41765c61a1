//! The outcome of checks as text.

use super::{Check, Checks, Verdict};
use verbena_terminal::style::{Style, styled};

impl Checks {
    /// Returns the outcome, then each figure with its range and source.
    pub fn text(&self) -> String {
        let heading = format!(
            "Expected of {} ({}): {}",
            self.system,
            self.about,
            self.sentence()
        );
        let mut lines = vec![styled(Style::Bold, &heading)];
        lines.push(format!("  {}, {}", self.run, self.kind.text()));
        lines.extend(self.figures.iter().flat_map(figure));
        lines.join("\n")
    }
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
