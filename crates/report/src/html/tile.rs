//! The first screen: five tiles, each a figure with its interval, its share of what would be possible, its place among other
//! adapters, and a word; then three sentences.

use super::Published;
use crate::chart::escape;
use crate::chart::strip::{self, Dot, Kin};
use crate::headline::{Headline, Word};
use crate::run_directory::Loaded;
use std::fmt::Write as _;

/// A headline beside those of others.
pub struct Tile {
    headline: Headline,
    others: Vec<Other>,
}

/// What the headline stands beside.
struct Other {
    name: String,
    value: f64,
    /// The value as it was said: `at most 31.3 KiB`.
    text: String,
    kin: Kin,
}

/// The tiles of the first run, whose headlines come first; the others are what it stands beside.
pub fn tiles(all: &[(&Loaded, Vec<Headline>)], published: &[Published]) -> Vec<Tile> {
    let Some(((_, own), beside)) = all.split_first() else {
        return Vec::new();
    };
    let tile = |headline: &Headline| {
        let subject = headline.subject;
        let of_runs = beside.iter().enumerate().filter_map(|(at, (run, theirs))| {
            let like = |their: &&Headline| {
                their.subject == subject
                    && their.metric == headline.metric
                    && their.is_of_the_size_of(headline)
            };
            let their = theirs.iter().find(like)?;
            Some(Other {
                name: run.run.label.clone(),
                value: their.value,
                text: subject.display(their.value),
                kin: Kin::Run(at + 1),
            })
        });
        let comparable = headline.is_of_a_published_size();
        let known = published
            .iter()
            .filter(|known| comparable && known.subject == subject);
        let of_papers = known.map(|known| Other {
            name: format!("{}, published", known.adapter),
            value: known.value,
            text: known.text(),
            kin: Kin::Published,
        });
        Tile {
            headline: headline.clone(),
            others: of_runs.chain(of_papers).collect(),
        }
    };
    own.iter().map(tile).collect()
}

impl Tile {
    fn word(&self) -> Word {
        let values: Vec<f64> = self.others.iter().map(|other| other.value).collect();
        self.headline.word(&values)
    }

    fn display(&self) -> String {
        self.headline.subject.display(self.headline.value)
    }

    /// The tile.
    fn html(&self, whose: &str) -> String {
        let Headline { subject, of, .. } = &self.headline;
        let word = self.word().text();
        let mut out = format!(
            "<section class=\"tile\"><h2>{}<span class=\"word {word}\">{word}</span></h2><p class=\"value\">{}</p>\
             <p class=\"of\">{}</p><p class=\"spread\">{}</p>",
            subject.title(),
            escape(&self.display()),
            escape(of),
            escape(&self.spread())
        );
        if let (Some(percent), Some((bound, reason))) =
            (self.headline.percent_of_bound(), &self.headline.bound)
        {
            let _ = write!(
                out,
                "<div class=\"meter\"><i style=\"width:{:.0}%\"></i></div><p class=\"share\" title=\"{}\">{} of its bound, {}</p>",
                percent.clamp(0.0, 100.0),
                escape(reason),
                escape(&per_cent(percent)),
                escape(&subject.display(*bound))
            );
        }
        if !self.others.is_empty() {
            out.push_str(&self.standing(whose));
        }
        out.push_str("</section>");
        out
    }

    /// Interval and tail in words.
    fn spread(&self) -> String {
        let display = |value| self.headline.subject.display(value);
        let launches = self.headline.launches;
        let mut text = match self.headline.interval.filter(|_| launches > 1) {
            Some(range) => format!(
                "{} to {} over {launches} launches",
                display(range.low),
                display(range.high)
            ),
            None => "one launch: no interval".to_owned(),
        };
        for (name, value) in ["p99", "p99.9"].iter().zip(self.headline.tail) {
            if let Some(value) = value.filter(|_| self.headline.subject.unit() == "ns") {
                let _ = write!(text, "; {name} {}", display(value));
            }
        }
        text
    }

    /// The place among the others, and all of them one click away.
    fn standing(&self, whose: &str) -> String {
        let subject = self.headline.subject;
        let mine = self.display();
        let mut dots = vec![Dot {
            kin: Kin::Subject,
            value: self.headline.value,
            title: format!("{whose}: {mine}"),
        }];
        dots.extend(self.others.iter().map(|other| Dot {
            kin: other.kin,
            value: other.value,
            title: format!("{}: {}", other.name, other.text),
        }));
        let ahead = |other: &&Other| self.headline.is_ahead_of(other.value);
        let place = self.others.len() - self.others.iter().filter(ahead).count() + 1;
        let distance = |other: &&Other| (other.value / self.headline.value).ln().abs();
        let nearest = |others: &mut dyn Iterator<Item = &'_ Other>| {
            others
                .min_by(|a, b| distance(a).total_cmp(&distance(b)))
                .map(|other| other.name.clone())
        };
        let better = nearest(&mut self.others.iter().filter(|other| !ahead(other)));
        let worse = nearest(&mut self.others.iter().filter(ahead));
        let next = match (better, worse) {
            (Some(name), _) => format!(", behind {name}"),
            (None, Some(name)) => format!(", ahead of {name}"),
            (None, None) => String::new(),
        };
        let mut rows: Vec<(f64, String, &str, String)> = self
            .others
            .iter()
            .map(|other| (other.value, other.name.clone(), "", other.text.clone()))
            .collect();
        rows.push((
            self.headline.value,
            whose.to_owned(),
            " class=\"own\"",
            mine,
        ));
        rows.sort_by(|a, b| match subject.better() {
            verbena_measure::compare::Better::Lower => a.0.total_cmp(&b.0),
            verbena_measure::compare::Better::Higher => b.0.total_cmp(&a.0),
        });
        let mut out = strip::svg(
            &format!("{} among others, better to the right", subject.title()),
            &dots,
            subject.better(),
        );
        let _ = write!(
            out,
            "<details class=\"standing\"><summary>{} of {}<span class=\"next\">{}</span></summary><table><tbody>",
            ordinal(place),
            self.others.len() + 1,
            escape(&next)
        );
        for (_, name, class, text) in rows {
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

    /// The tile in a clause of a sentence.
    fn clause(&self) -> String {
        let Headline { subject, of, .. } = &self.headline;
        let mut text = format!(
            "{} ({}, {of}",
            subject.title().to_lowercase(),
            self.display()
        );
        if let Some(percent) = self.headline.percent_of_bound() {
            let _ = write!(text, "; {} of its bound", per_cent(percent));
        }
        text.push(')');
        text
    }
}

/// The tiles side by side.
pub fn html(tiles: &[Tile], whose: &str) -> String {
    let all: String = tiles.iter().map(|tile| tile.html(whose)).collect();
    match all.is_empty() {
        true => all,
        false => format!("<div class=\"tiles\">{all}</div>"),
    }
}

/// What is strong, what is weak, and what to distrust.
pub fn sentences(tiles: &[Tile], run: &Loaded) -> String {
    let with = |word: Word| -> Vec<String> {
        let these = tiles.iter().filter(|tile| tile.word() == word);
        these.map(Tile::clause).collect()
    };
    let or = |clauses: Vec<String>, none: &str| match clauses.is_empty() {
        true => none.to_owned(),
        false => clauses.join(", "),
    };
    let strong = or(
        with(Word::Strong),
        "none of the figures above is near its bound or ahead of all beside it",
    );
    let weak = or(
        with(Word::Weak),
        "none of the figures above is far from its bound or behind all beside it",
    );
    let distrust = or(doubts(tiles, run), "nothing in particular was found amiss");
    let sentence = |class: &str, word: &str, text: &str| {
        format!("<li class=\"{class}\"><b>{word}</b> {}.</li>", escape(text))
    };
    format!(
        "<ul class=\"sentences\">{}{}{}</ul>",
        sentence("strong", "Strong:", &strong),
        sentence("weak", "Weak:", &weak),
        sentence("unsure", "Distrust:", &distrust)
    )
}

/// What speaks against the figures: of the tiles, then of the run as a whole.
fn doubts(tiles: &[Tile], run: &Loaded) -> Vec<String> {
    let of_tiles = tiles.iter().filter_map(|tile| {
        let doubt = tile.headline.doubt()?;
        let title = tile.headline.subject.title().to_lowercase();
        Some(format!("{title} ({doubt})"))
    });
    let mut doubts: Vec<String> = of_tiles.collect();
    doubts.extend(run.run.warnings.iter().map(ToString::to_string));
    let failed = run.failures.iter().filter(|f| !f.unsupported).count();
    if failed > 0 {
        doubts.push(format!("{failed} points failed"));
    }
    match run.end.as_ref().map(|end| end.outcome.as_str()) {
        Some("complete") => {}
        Some(outcome) => doubts.push(format!("the run was {outcome}")),
        None => doubts.push("the run was cut short".to_owned()),
    }
    doubts
}

fn per_cent(percent: f64) -> String {
    match percent {
        percent if percent < 0.1 => "under 0.1 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn ordinal(place: usize) -> String {
    match place {
        1 => "best".to_owned(),
        2 => "2nd".to_owned(),
        3 => "3rd".to_owned(),
        place => format!("{place}th"),
    }
}
