//! The first screen in HTML: the tiles of a summary and its three sentences.

use crate::chart::escape;
use crate::chart::strip::{self, Dot, DotKind};
use crate::summary::{Other, Ranking, Summary, Tile};
use std::fmt::Write as _;
use verbena_measure::compare::Better;

/// Returns the tiles side by side.
pub fn html(summary: &Summary) -> String {
    let tiles = summary.tiles.iter();
    let all: String = tiles.map(|tile| one(tile, &summary.label)).collect();
    match all.is_empty() {
        true => all,
        false => format!("<div class=\"tiles\">{all}</div>"),
    }
}

/// Returns the sentences on strengths, weaknesses, and uncertain figures.
pub fn sentences(summary: &Summary) -> String {
    let mut out = String::from("<ul class=\"sentences\">");
    for ((name, text), class) in summary.sentences().iter().zip(["strong", "weak", "unsure"]) {
        let _ = write!(
            out,
            "<li class=\"{class}\"><b>{name}:</b> {}.</li>",
            escape(text)
        );
    }
    out.push_str("</ul>");
    out
}

fn one(tile: &Tile, whose: &str) -> String {
    let word = tile.word().text();
    let mut out = format!(
        "<section class=\"tile\"><h2>{}<span class=\"word {word}\">{word}</span></h2>\
         <p class=\"value\">{}</p><p class=\"of\">{}, {}</p><p class=\"spread\">{}</p>",
        tile.name,
        escape(&tile.value),
        escape(&tile.of),
        tile.kind.text(),
        escape(&spread(tile))
    );
    if let Some(bar) = tile.bar {
        let width = 100.0 * bar;
        let _ = write!(
            out,
            "<div class=\"meter\"><i style=\"width:{width:.0}%\"></i></div>"
        );
    }
    let measured = tile.measured_bound.as_ref();
    let stated = tile.share.as_ref().map(|share| share.reason.clone());
    let title = measured.map(|bound| bound.text.clone()).or(stated);
    let wrong = measured.filter(|bound| bound.is_wrong);
    let aside = wrong.map_or(String::new(), |bound| format!("; {}", bound.brief()));
    let _ = write!(
        out,
        "<p class=\"share\" title=\"{}\">{}<span class=\"aside\">{}</span></p>",
        escape(&title.unwrap_or_default()),
        escape(&tile.rating.reason),
        escape(&aside)
    );
    if !tile.others.is_empty() {
        out.push_str(&standing(tile, whose));
    }
    out.push_str("</section>");
    out
}

/// Returns levels or interval, and the tail.
fn spread(tile: &Tile) -> String {
    let mut text = tile.spread();
    for (name, value) in ["p99", "p99.9"].iter().zip(tile.tail) {
        if let Some(value) = value.filter(|_| tile.unit == "ns") {
            let _ = write!(text, "; {name} {}", tile.display(value));
        }
    }
    text
}

/// Returns the rank among comparable figures, and all figures folded.
fn standing(tile: &Tile, whose: &str) -> String {
    let (ranked, unranked): (Vec<&Other>, Vec<&Other>) =
        tile.others.iter().partition(|other| other.is_ranked);
    let mut out = String::new();
    let (place, next) = match &tile.place {
        Some(Ranking { text, next, .. }) => {
            out.push_str(&line(tile, whose, &ranked));
            (text.clone(), format!(", {next}"))
        }
        None => (tile.not_ranked().unwrap_or_default(), String::new()),
    };
    let _ = write!(
        out,
        "<details class=\"standing\"><summary>{}<span class=\"next\">{}</span></summary>\
         <table><tbody>",
        escape(&place),
        escape(&next)
    );
    let row = |other: &Other| (other.number, other.name.clone(), "", other.value.clone());
    let mut rows: Vec<(f64, String, &str, String)> = ranked.into_iter().map(row).collect();
    let own = (
        tile.number,
        whose.to_owned(),
        " class=\"own\"",
        tile.value.clone(),
    );
    rows.push(own);
    sort(&mut rows, tile.better);
    let mut further: Vec<(f64, String, &str, String)> = unranked.into_iter().map(row).collect();
    sort(&mut further, tile.better);
    if !further.is_empty() {
        let title = "not comparable".to_owned();
        rows.push((f64::NAN, title, "", String::new()));
    }
    for (_, name, class, text) in rows.into_iter().chain(further) {
        let _ = write!(
            out,
            "<tr{class}><td class=\"text\">{}</td><td>{}</td></tr>",
            escape(&name),
            escape(&text)
        );
    }
    out.push_str("</tbody></table></details>");
    out
}

/// Draws the comparable figures on a line.
fn line(tile: &Tile, whose: &str, ranked: &[&Other]) -> String {
    let mut dots = vec![Dot {
        kin: DotKind::Subject,
        value: tile.number,
        title: format!("{whose}: {}", tile.value),
    }];
    dots.extend(ranked.iter().map(|other| Dot {
        kin: other.run.map_or(DotKind::Published, DotKind::Run),
        value: other.number,
        title: format!("{}: {}", other.name, other.value),
    }));
    let title = format!("{} among others, better to the right", tile.name);
    strip::svg(&title, &dots, tile.better)
}

fn sort(rows: &mut [(f64, String, &str, String)], better: Better) {
    rows.sort_by(|a, b| match better {
        Better::Lower => a.0.total_cmp(&b.0),
        Better::Higher => b.0.total_cmp(&a.0),
    });
}
