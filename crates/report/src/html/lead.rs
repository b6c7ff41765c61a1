//! The tested systems: one line per run, before any figure.

use crate::chart::escape;
use crate::chart::line::COLOURS;
use crate::run_directory::Loaded;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Returns the heading and a line per run.
pub fn lead(runs: &[Loaded]) -> String {
    let mut out = String::from("<ul class=\"runs\">");
    for (at, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<li><span class=\"key c{}\">{}</span> <span>{}</span></li>",
            at % COLOURS,
            escape(&run.run.label),
            escape(&about(run))
        );
    }
    out.push_str("</ul>");
    out
}

/// Returns the number of launches, or `2 to 5 of 5 launches` if time ran out before the last.
fn launches(run: &Loaded) -> String {
    let mut reached: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for point in &run.points {
        let launches = reached.entry(&point.benchmark).or_default();
        launches.insert(point.launch);
    }
    let counts = || reached.values().map(BTreeSet::len);
    let wanted = run.run.launches;
    let plural = if wanted == 1 { "" } else { "es" };
    let made = match (counts().min(), counts().max()) {
        (Some(fewest), Some(most)) if fewest < wanted as usize => match fewest == most {
            true => format!("{most} of "),
            false => format!("{fewest} to {most} of "),
        },
        _ => String::new(),
    };
    format!("{made}{wanted} launch{plural}")
}

/// Describes a run; an import has neither device nor effort.
fn about(loaded: &Loaded) -> String {
    let run = &loaded.run;
    let environment = |name: &str| run.environment.get(name).cloned();
    let cores = environment("cores").map(|cores| format!("{cores} cores"));
    let kernel = environment("kernel").map(|kernel| format!("Linux {kernel}"));
    // A model has neither date nor launches.
    let modelled = run.fabric == "model";
    let launches = (!modelled).then(|| launches(loaded));
    let words = [
        Some(match (run.fabric.as_str(), run.device.as_str()) {
            ("model", _) => "timing model, computed".to_owned(),
            ("", device) => device.to_owned(),
            (fabric, "") => fabric.to_owned(),
            (fabric, device) => format!("{fabric} adapter {device}"),
        }),
        environment("firmware").map(|firmware| format!("firmware {firmware}")),
        environment("link"),
        environment("rate").filter(|_| run.fabric == "hardware"),
        environment("GID").map(|gid| format!("GID {gid}")),
        environment("model"),
        environment("processor"),
        cores,
        kernel,
        launches,
        Some(run.effort.clone()),
        (run.started > 0).then(|| day(run.started)),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" · ")
}

/// Returns the date of a time in seconds since 1970, in UTC.
fn day(seconds: u64) -> String {
    // Days since 1 March of year 0, so that a leap day is the last day of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(seconds), text);
        }
    }
}
