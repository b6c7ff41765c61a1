//! The page of recorded programs: what they would take on several systems, and where their ranks' time goes there.

use super::figures::copyable;
use super::frame::head;
use crate::chart::escape;
use crate::chart::stack::{self, Stack};
use std::fmt::Write as _;
use verbena_measure::unit;

/// A recorded program on some systems.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// What it is called.
    pub name: String,
    /// Its ranks.
    pub ranks: usize,
    /// What it does, wherever it runs.
    pub content: String,
    /// Where it was replayed.
    pub on: Vec<OnSystem>,
}

/// What it would take on a system, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct OnSystem {
    /// The system.
    pub system: String,
    /// Until all had ended.
    pub took: f64,
    /// Where ranks spend it on average, by kind, and so that the sum is all of it.
    pub parts: Vec<f64>,
    /// The same of single ranks until each ended.
    pub ranks: Vec<(usize, Vec<f64>)>,
}

impl Application {
    /// What the fastest system takes.
    fn least(&self) -> f64 {
        let times = self.on.iter().map(|on| on.took);
        times.fold(f64::INFINITY, f64::min)
    }
}

/// The page over recordings, each on the same systems. `kinds` are those of the parts.
pub fn application(command: &str, kinds: &[&str], all: &[Application]) -> String {
    let mut out = head("What your application would do");
    let _ = write!(
        out,
        "<p class=\"lead\">Computed by timing models from what was recorded, not measured. <code>{}</code></p>",
        escape(command)
    );
    if all.len() > 1 {
        out.push_str(&by_ranks(all));
    }
    for one in all {
        out.push_str(&section(one, kinds));
    }
    out.push_str(NOTE);
    out.push_str("</main></body></html>\n");
    out
}

/// Time by recording and system.
fn by_ranks(all: &[Application]) -> String {
    let mut out = String::from(
        "<h2 id=\"ranks\">By number of ranks</h2><div class=\"wide\"><table class=\"labelled\"><thead><tr><th class=\"text\">recorded</th><th>ranks</th>",
    );
    let mut text = vec!["recorded\tranks".to_owned()];
    for on in &all[0].on {
        let _ = write!(out, "<th>{}</th>", escape(&on.system));
        text[0] += &format!("\t{}", on.system);
    }
    out.push_str("</tr></thead><tbody>");
    for one in all {
        let name = escape(&one.name);
        let _ = write!(
            out,
            "<tr><td class=\"text\">{name}</td><td data-of=\"ranks\">{}</td>",
            one.ranks
        );
        let mut line = format!("{}\t{}", one.name, one.ranks);
        for on in &one.on {
            let ratio = on.took / one.least();
            let took = escape(&unit::time(on.took));
            let system = escape(&on.system);
            let _ = write!(out, "<td data-of=\"{system}\">{took} ({ratio:.2} x)</td>");
            line += &format!("\t{}", on.took);
        }
        out.push_str("</tr>");
        text.push(line);
    }
    out.push_str(
        "</tbody></table></div><p class=\"note\">In brackets: against the fastest of the row.</p>",
    );
    out.push_str(&copyable(&text));
    out
}

fn section(one: &Application, kinds: &[&str]) -> String {
    let mut out = format!(
        "<h2>{}</h2><p class=\"answers\">{}</p>",
        escape(&one.name),
        escape(&one.content)
    );
    let bars: Vec<Stack> = one
        .on
        .iter()
        .map(|on| Stack {
            name: on.system.clone(),
            parts: on.parts.clone(),
        })
        .collect();
    out.push_str(&stack::svg(
        "Time on each system, and where a rank spends it on average",
        kinds,
        &bars,
    ));
    out.push_str(&systems(one, kinds));
    for on in &one.on {
        out.push_str(&by_rank(on, kinds));
    }
    out
}

fn systems(one: &Application, kinds: &[&str]) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table class=\"labelled\"><thead><tr><th class=\"text\">system</th><th>time</th><th>to the fastest</th>",
    );
    let mut text = vec![format!("system\ttime\t{}", kinds.join("\t"))];
    for kind in kinds {
        let _ = write!(out, "<th>{}</th>", escape(kind));
    }
    out.push_str("</tr></thead><tbody>");
    for on in &one.on {
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td data-of=\"time\">{}</td><td data-of=\"to the fastest\">{:.3} x</td>",
            escape(&on.system),
            escape(&unit::time(on.took)),
            on.took / one.least()
        );
        out.push_str(&cells(kinds, &on.parts));
        out.push_str("</tr>");
        let numbers: Vec<String> = on.parts.iter().map(f64::to_string).collect();
        text.push(format!(
            "{}\t{}\t{}",
            on.system,
            on.took,
            numbers.join("\t")
        ));
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&copyable(&text));
    out
}

fn cells(kinds: &[&str], parts: &[f64]) -> String {
    let cell = |(kind, part): (&&str, &f64)| {
        let (kind, part) = (escape(kind), escape(&unit::time(*part)));
        format!("<td data-of=\"{kind}\">{part}</td>")
    };
    kinds.iter().zip(parts).map(cell).collect()
}

/// The ranks of a system, behind a click.
fn by_rank(on: &OnSystem, kinds: &[&str]) -> String {
    let bars: Vec<Stack> = on
        .ranks
        .iter()
        .map(|(rank, parts)| Stack {
            name: format!("rank {rank}"),
            parts: parts.clone(),
        })
        .collect();
    let title = format!("{}, rank by rank", on.system);
    let mut text = vec![format!("rank\t{}", kinds.join("\t"))];
    for (rank, parts) in &on.ranks {
        let numbers: Vec<String> = parts.iter().map(f64::to_string).collect();
        text.push(format!("{rank}\t{}", numbers.join("\t")));
    }
    format!(
        "<details class=\"ranks\"><summary>{}</summary>{}{}</details>",
        escape(&title),
        stack::svg(&title, kinds, &bars),
        copyable(&text)
    )
}

const NOTE: &str = "<h2>How to read it</h2><p><em>Computing</em> is the program's own, as it was recorded, times the scale that is \
told. <em>Overhead</em> is what messages take the processor: posting, copying, registering, finding what has come. While it had nothing \
to do, <em>wire</em> is for what was on its way through adapters, buses and links, <em>waiting</em> for what another rank had not done \
yet; it is <em>done</em> when it has ended and others have not. Bars of single ranks end when the rank ended. What \
the models know is in docs/models.md.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, times: [f64; 2]) -> Application {
        let on = times.map(|took| OnSystem {
            system: format!("s<{took}"),
            took,
            parts: vec![took / 4.0, took / 4.0, took / 2.0],
            ranks: vec![(0, vec![took / 2.0, took / 4.0, took / 4.0])],
        });
        Application {
            name: name.to_owned(),
            ranks: 1,
            content: "a call".to_owned(),
            on: on.to_vec(),
        }
    }

    #[test]
    fn each_system_is_held_against_the_fastest() {
        let kinds = ["computing", "overhead", "waiting"];
        let out = application("c", &kinds, &[one("t", [300.0, 200.0])]);
        assert!(out.contains(">1.500 x</td>") && out.contains(">1.000 x</td>"));
        assert!(!out.contains("By number of ranks") && !out.contains("s<300"));
        // A chart of the systems, and one of each system's ranks.
        assert_eq!(out.matches("<figure class=\"chart stack\">").count(), 3);
    }

    #[test]
    fn several_recordings_have_a_table() {
        let all = [one("t1", [300.0, 200.0]), one("t2", [150.0, 400.0])];
        let out = application("c", &["a", "b", "c"], &all);
        for cell in [
            "300 ns (1.50 x)",
            "200 ns (1.00 x)",
            "150 ns (1.00 x)",
            "400 ns (2.67 x)",
        ] {
            assert!(out.contains(&format!(">{cell}</td>")), "{cell}");
        }
    }
}
