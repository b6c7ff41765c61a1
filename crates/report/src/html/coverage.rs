//! The page of `verbena coverage`: which outcomes of verbs calls tests have seen, by group.

use std::fmt::Write as _;

use verbena_coverage::possible::{GROUPS, Group, covered, percent};
use verbena_coverage::seen::Seen;
use verbena_coverage::text::{Row, rows, summary};

use super::frame::{foot, head};
use crate::chart::escape;

/// Returns the page; `subject` names the command or the data files.
pub fn coverage_page(subject: &str, seen: &Seen) -> String {
    let mut out = head("Coverage of verbs outcomes");
    let _ = write!(
        out,
        "<p class=\"lead\"><code>{}</code></p><p>{}.</p>{}",
        escape(subject),
        escape(&summary(seen)),
        meter(covered(seen))
    );
    if seen.lost > 0 {
        let _ = write!(
            out,
            "<p class=\"warning\">{} outcomes were not counted, as the data file was full.</p>",
            seen.lost
        );
    }
    for group in GROUPS {
        out.push_str(&section(group, seen));
    }
    out.push_str(&foot());
    out
}

fn meter(of: (usize, usize)) -> String {
    let share = percent(of);
    format!("<div class=\"meter\"><i style=\"width:{share:.1}%\"></i></div>")
}

fn section(group: Group, seen: &Seen) -> String {
    let rows = rows(group, seen);
    if rows.is_empty() {
        return String::new();
    }
    let of = group.covered(seen);
    let mut out = format!(
        "<section><h2 id=\"{}\">{}{}: {} of {}</h2>{}",
        group.name(),
        group.title()[..1].to_uppercase(),
        &group.title()[1..],
        of.0,
        of.1,
        meter(of)
    );
    let (shown, unseen): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.item.count > 0);
    if !shown.is_empty() {
        let (count, detail) = match group {
            Group::Statuses => ("completions", "operations"),
            Group::Calls => ("failed", "errors"),
            Group::Events | Group::CmEvents => ("events", "status"),
        };
        let calls = match group {
            Group::Calls => "<th>calls</th>",
            _ => "",
        };
        let _ = write!(
            out,
            "<table><thead><tr><th class=\"text\">name</th>{calls}<th>{count}</th>\
             <th class=\"text\">{detail}</th></tr></thead><tbody>"
        );
        for row in shown {
            let calls = match group {
                Group::Calls => format!("<td>{}</td>", row.calls),
                _ => String::new(),
            };
            let _ = write!(
                out,
                "<tr><td class=\"text\">{}</td>{calls}<td>{}</td><td class=\"text\">{}</td></tr>",
                escape(&row.item.name),
                row.item.count,
                escape(&row.detail())
            );
        }
        out.push_str("</tbody></table>");
    }
    if !unseen.is_empty() {
        let names: Vec<String> = unseen.iter().map(|row| escape(&row.item.name)).collect();
        let words = match group {
            Group::Calls => "Never failed",
            _ => "Never seen",
        };
        let _ = write!(
            out,
            "<p class=\"warning\">{words}: {}</p>",
            names.join(", ")
        );
    }
    out.push_str("</section>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_coverage::outcome::Outcome;

    #[test]
    fn the_page_has_each_group_and_escapes_the_command() {
        let mut seen = Seen::default();
        seen.add(Outcome::Completion(0, 0), 1000);
        seen.add(Outcome::Call("ibv_reg_mr", 12), 1);
        let page = coverage_page("./test <1>", &seen);
        assert!(page.contains("./test &lt;1&gt;"), "{page}");
        assert!(page.contains("Completion statuses: 1 of 17"), "{page}");
        assert!(
            page.contains("<td>1000</td><td class=\"text\">SEND 1000</td>"),
            "{page}"
        );
        assert!(
            page.contains("ENOMEM 1") && page.contains("Never seen: LOC_LEN_ERR, "),
            "{page}"
        );
        assert!(!page.contains("id=\"cm-events\""), "{page}");
    }
}
