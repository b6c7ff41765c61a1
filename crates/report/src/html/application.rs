//! The page of recorded programs or a schedule: their predicted times on several systems, and where
//! the ranks of programs spend the time.

use super::figures::copyable;
use super::frame::{foot, head};
use crate::chart::escape;
use crate::chart::stack::{self, Stack};
use std::fmt::Write as _;
use verbena_measure::unit;

/// A recorded program, or a schedule, on some systems.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Its content: calls and computing, independent of the system.
    pub content: String,
    /// Its replays.
    pub on: Vec<OnSystem>,
    /// Notes about intervals and verdicts: their sources and rules.
    pub notes: Vec<String>,
}

/// A replay on one system; times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct OnSystem {
    /// The system.
    pub system: String,
    /// Time until all ranks have ended.
    pub took: f64,
    /// Mean times of the ranks; `None` for a schedule, whose ranks do not spend time one by one.
    pub mean: Option<Spent>,
    /// Times of single ranks until each ended.
    pub ranks: Vec<(usize, Spent)>,
    /// The interval of the time, in words; empty if there is none.
    pub interval: String,
    /// Whether it is faster than the first system, in words.
    pub verdict: String,
    /// The largest part of the critical path, in words.
    pub limit: String,
}

/// The values of a system that no source states.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    /// The system.
    pub system: String,
    /// Each value with its unit and reason.
    pub values: Vec<String>,
}

/// Times of a rank in nanoseconds. The parts add up to the time of the replay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Computing.
    pub computing: f64,
    /// In MPI calls, without waiting.
    pub overhead: f64,
    /// Waiting for messages on the wire.
    pub wire: f64,
    /// Waiting for other ranks.
    pub waiting: f64,
    /// From the rank's end to the end of the last one.
    pub done: f64,
}

const PARTS: [&str; 5] = ["computing", "overhead", "wire", "waiting", "done"];

impl Spent {
    /// The parts with their names.
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        let parts = [
            self.computing,
            self.overhead,
            self.wire,
            self.waiting,
            self.done,
        ];
        std::array::from_fn(|part| (PARTS[part], parts[part]))
    }

    fn numbers(&self) -> Vec<f64> {
        self.parts().map(|(_, part)| part).into()
    }

    /// Returns the columns for a spreadsheet.
    fn text(&self) -> String {
        self.parts().map(|(_, part)| part.to_string()).join("\t")
    }
}

impl Application {
    fn least(&self) -> f64 {
        let times = self.on.iter().map(|on| on.took);
        times.fold(f64::INFINITY, f64::min)
    }
}

/// Returns the page over recordings, each on the same systems. `changing` has the assumed values
/// that would change a verdict, if they were searched for.
pub fn application(
    command: &str,
    all: &[Application],
    assumptions: &[Assumptions],
    changing: Option<&[String]>,
) -> String {
    let mut out = head("Predicted performance of your application");
    let is_recorded = all
        .iter()
        .flat_map(|one| &one.on)
        .any(|on| on.mean.is_some());
    let from = if is_recorded { "recording" } else { "schedule" };
    let _ = write!(
        out,
        "<p class=\"lead\">Computed by timing models from a {from}, not measured. \
         <code>{}</code></p>",
        escape(command)
    );
    if all.len() > 1 {
        out.push_str(&by_ranks(all));
    }
    for one in all {
        out.push_str(&section(one));
    }
    if let Some(changing) = changing {
        out.push_str("<h2 id=\"sensitivity\">Assumed values that change a verdict</h2>");
        out.push_str(&list(changing, "None, halved or doubled one at a time."));
    }
    for one in assumptions {
        let _ = write!(
            out,
            "<details class=\"copy\"><summary>{} assumed values of {}</summary>{}</details>",
            one.values.len(),
            escape(&one.system),
            list(&one.values, "None.")
        );
    }
    out.push_str(if is_recorded { NOTE } else { NOTE_OF_SCHEDULES });
    out.push_str(&foot());
    out
}

/// Returns a list, or a sentence if it is empty.
fn list(items: &[String], none: &str) -> String {
    if items.is_empty() {
        return format!("<p>{}</p>", escape(none));
    }
    let items: String = items
        .iter()
        .map(|item| format!("<li>{}</li>", escape(item)))
        .collect();
    format!("<ul>{items}</ul>")
}

/// Returns the times with their intervals, verdicts and limits.
fn verdicts(one: &Application) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table class=\"labelled\"><thead><tr><th class=\"text\">system</th>\
         <th>time</th><th class=\"text\">interval</th><th class=\"text\">against the first</th>\
         <th class=\"text\">limited by</th></tr></thead><tbody>",
    );
    for on in &one.on {
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td data-of=\"time\">{}</td>\
             <td class=\"text\" data-of=\"interval\">{}</td>\
             <td class=\"text\" data-of=\"against the first\">{}</td>\
             <td class=\"text\" data-of=\"limited by\">{}</td></tr>",
            escape(&on.system),
            escape(&unit::time(on.took)),
            escape(&on.interval),
            escape(&on.verdict),
            escape(&on.limit)
        );
    }
    out.push_str("</tbody></table></div>");
    if !one.notes.is_empty() {
        let _ = write!(
            out,
            "<p class=\"note\">{}.</p>",
            escape(&one.notes.join(". "))
        );
    }
    out
}

/// Returns a table of times by recording and system.
fn by_ranks(all: &[Application]) -> String {
    let mut out = String::from(
        "<h2 id=\"ranks\">By number of ranks</h2><div class=\"wide\"><table \
         class=\"labelled\"><thead><tr><th class=\"text\">recorded</th><th>ranks</th>",
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

fn section(one: &Application) -> String {
    let mut out = format!(
        "<h2>{}</h2><p class=\"answers\">{}</p>",
        escape(&one.name),
        escape(&one.content)
    );
    out.push_str(&verdicts(one));
    let means = one.on.iter().filter_map(|on| Some((on, on.mean?)));
    let bars: Vec<Stack> = means
        .map(|(on, mean)| Stack {
            name: on.system.clone(),
            parts: mean.numbers(),
        })
        .collect();
    if bars.is_empty() {
        return out;
    }
    let _ = write!(
        out,
        "<div class=\"stacks mean\">{}<div>{}</div></div>",
        stack::svg(
            "Time on each system, and where a rank spends it on average",
            &PARTS,
            &bars,
        ),
        systems(one)
    );
    out.push_str("<div class=\"stacks\">");
    for on in &one.on {
        out.push_str(&by_rank(on));
    }
    out.push_str("</div>");
    out
}

fn systems(one: &Application) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table class=\"labelled\"><thead><tr><th \
         class=\"text\">system</th><th>time</th><th>to the fastest</th>",
    );
    let mut text = vec![format!("system\ttime\t{}", PARTS.join("\t"))];
    for column in PARTS {
        let _ = write!(out, "<th>{column}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for (on, mean) in one.on.iter().filter_map(|on| Some((on, on.mean?))) {
        let _ = write!(
            out,
            "<tr><td class=\"text\">{}</td><td data-of=\"time\">{}</td><td data-of=\"to the \
             fastest\">{:.3} x</td>",
            escape(&on.system),
            escape(&unit::time(on.took)),
            on.took / one.least()
        );
        out.push_str(&cells(&mean));
        out.push_str("</tr>");
        text.push(format!("{}\t{}\t{}", on.system, on.took, mean.text()));
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&copyable(&text));
    out
}

fn cells(spent: &Spent) -> String {
    let cell = |(column, part): (&str, f64)| {
        let part = escape(&unit::time(part));
        format!("<td data-of=\"{column}\">{part}</td>")
    };
    spent.parts().into_iter().map(cell).collect()
}

/// Returns the ranks of a system, folded.
fn by_rank(on: &OnSystem) -> String {
    let bars: Vec<Stack> = on
        .ranks
        .iter()
        .map(|(rank, spent)| Stack {
            name: format!("rank {rank}"),
            parts: spent.numbers(),
        })
        .collect();
    let title = format!("{}, rank by rank", on.system);
    let mut text = vec![format!("rank\t{}", PARTS.join("\t"))];
    for (rank, spent) in &on.ranks {
        text.push(format!("{rank}\t{}", spent.text()));
    }
    format!(
        "<details class=\"ranks\"><summary>{}</summary>{}{}</details>",
        escape(&title),
        stack::svg(&title, &PARTS, &bars),
        copyable(&text)
    )
}

const NOTE: &str = "\
<h2>How to read it</h2><p><em>Computing</em> is the recorded computing time of the program, times \
the given scale. <em>Overhead</em> is the processor time of messages: posting, copying, \
registering, finding completions. In the remaining time a rank waits for messages in transit \
through adapters, buses and links (<em>wire</em>), or for another rank (<em>waiting</em>). It is \
<em>done</em> when it has ended and others have not. Bars of single ranks end when the rank \
ended. docs/models.md describes the models.</p>";

const NOTE_OF_SCHEDULES: &str = "\
<h2>How to read it</h2><p>The critical path is the longest chain of operations to the end. Its \
<em>computing</em> is the calculations of the schedule, which are exact; <em>messages</em> are the \
processor time of messages and their way through adapters, buses and links. docs/models.md \
describes the models.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, times: [f64; 2]) -> Application {
        let on = times.map(|took| OnSystem {
            system: format!("s<{took}"),
            took,
            mean: Some(Spent {
                computing: took / 4.0,
                waiting: took / 2.0,
                wire: took / 8.0,
                done: took / 4.0,
                ..Spent::default()
            }),
            ranks: vec![(0, Spent::default())],
            interval: "1 to 2 s (80 %)".to_owned(),
            verdict: "faster: sure".to_owned(),
            limit: "wire".to_owned(),
        });
        Application {
            name: name.to_owned(),
            ranks: 1,
            content: "a call".to_owned(),
            on: on.to_vec(),
            notes: vec!["a <rule>".to_owned()],
        }
    }

    #[test]
    fn each_system_is_compared_with_the_fastest() {
        let out = application("c", &[one("t", [300.0, 200.0])], &[], None);
        assert!(out.contains(">1.500 x</td>") && out.contains(">1.000 x</td>"));
        assert!(!out.contains("By number of ranks") && !out.contains("s<300"));
        // A chart of the systems, and one of each system's ranks.
        assert_eq!(out.matches("<figure class=\"chart stack\">").count(), 3);
    }

    #[test]
    fn intervals_verdicts_and_assumptions_are_shown() {
        let assumed = Assumptions {
            system: "s".to_owned(),
            values: vec!["a.b = 2 <ns>".to_owned()],
        };
        let changing = ["a.b doubled".to_owned()];
        let all = [one("t", [1.0, 2.0])];
        let out = application("c", &all, &[assumed], Some(&changing));
        for text in [
            ">1 to 2 s (80 %)</td>",
            ">faster: sure</td>",
            "a &lt;rule&gt;.",
            "<li>a.b = 2 &lt;ns&gt;</li>",
            "<li>a.b doubled</li>",
        ] {
            assert!(out.contains(text), "{text}");
        }
        assert!(application("c", &all, &[], Some(&[])).contains("None, halved"));
    }

    #[test]
    fn a_schedule_has_no_times_of_ranks() {
        let mut schedule = one("t", [1.0, 2.0]);
        schedule.on.iter_mut().for_each(|on| on.mean = None);
        let out = application("c", &[schedule], &[], None);
        assert!(out.contains("from a schedule") && out.contains(">faster: sure</td>"));
        assert!(!out.contains("<figure") && !out.contains("<em>Overhead</em>"));
    }

    #[test]
    fn table_and_bars_have_the_same_parts() {
        let out = application("c", &[one("t", [800.0, 1600.0])], &[], None);
        assert!(out.contains("<td data-of=\"waiting\">400 ns</td>"), "{out}");
        assert!(out.contains("<td data-of=\"wire\">100 ns</td>"));
        assert!(out.contains("waiting 400 ns</title>"));
    }

    #[test]
    fn several_recordings_get_a_table() {
        let all = [one("t1", [300.0, 200.0]), one("t2", [150.0, 400.0])];
        let out = application("c", &all, &[], None);
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
