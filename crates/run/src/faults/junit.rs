//! The outcomes of a sweep in the format of JUnit, which CI systems read.

use std::fmt::Write;

use super::sweep::Outcome;

/// Returns the outcomes as a test suite with this name.
pub fn report(name: &str, outcomes: &[Outcome]) -> String {
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
            "  <testcase classname=\"verbena faults sweep\" name=\"{}\" time=\"{:.3}\">",
            escaped(&outcome.case.name()),
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
    use super::super::sweep::{Case, End, Verdict};
    use super::*;

    #[test]
    fn failures_and_hostile_output_are_valid() {
        let outcome = |verdict, output: &str| Outcome {
            case: Case {
                rule: "ibv_reg_mr 1: ENOMEM".parse().unwrap(),
                count: 1,
                lasting: false,
                process: "./a <x> \"&\"".into(),
            },
            end: End::Exit(1),
            verdict,
            output: output.into(),
            seconds: 0.5,
        };
        let text = report(
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
