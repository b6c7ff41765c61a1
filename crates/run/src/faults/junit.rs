//! The outcomes of runs with faults in the format of JUnit, which CI systems read.

use std::fmt::Write;

use super::outcome::Outcome;

/// Returns the outcomes as a test suite with this name; `class` groups the cases in reports.
pub fn report(class: &str, name: &str, outcomes: &[Outcome]) -> String {
    let bad = outcomes.iter().filter(|one| one.verdict.is_bad()).count();
    let time: f64 = outcomes.iter().map(|one| one.seconds).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"{}\" tests=\"{}\" failures=\"{bad}\" time=\"{time:.3}\">\n",
        escaped(name),
        outcomes.len(),
    );
    for outcome in outcomes {
        let _ = write!(
            text,
            "  <testcase classname=\"{class}\" name=\"{}\" time=\"{:.3}\">",
            escaped(&outcome.name),
            outcome.seconds,
        );
        let words = format!("{}: {}", outcome.verdict.words(), outcome.end);
        match outcome.verdict.is_bad() {
            true => {
                let (words, output) = (escaped(&words), escaped(&outcome.output));
                let _ = write!(text, "<failure message=\"{words}\">{output}</failure>");
            }
            false => {
                let _ = write!(text, "<system-out>{}</system-out>", escaped(&words));
            }
        }
        text.push_str("</testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

/// Replaces what XML 1.0 does not allow in a text or an attribute's value.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\t' | '\n' => all.push(one),
            '\u{fffe}' | '\u{ffff}' => all.push('\u{fffd}'),
            one if one.is_control() => all.push('\u{fffd}'),
            one => all.push(one),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{End, Verdict};
    use super::*;

    #[test]
    fn failures_and_hostile_output_are_valid() {
        let outcome = |verdict, output: &str| Outcome {
            name: "ibv_reg_mr 1: ENOMEM in ./a <x> \"&\"".into(),
            end: End::Exit(1),
            verdict,
            leaked: String::new(),
            output: output.into(),
            seconds: 0.5,
        };
        let text = report(
            "sweep",
            "a & b",
            &[
                outcome(Verdict::Reported, ""),
                outcome(Verdict::Crashed, "]]> \u{1}\u{0}"),
            ],
        );
        assert!(text.contains("tests=\"2\" failures=\"1\" time=\"1.000\""));
        assert!(text.contains("./a &lt;x&gt; &quot;&amp;&quot;"));
        assert!(text.contains("]]&gt; \u{fffd}\u{fffd}</failure>"));
    }
}
