//! Summary of `verbena reproduce`: the published claims of each paper that the models meet or miss,
//! and the errors on held-out curves.

use crate::claims::{Evaluated, Verdict};
use crate::table;
use crate::validation::{self, Validated};
use verbena_model::profile::Library;
use verbena_terminal::bars::bar;
use verbena_terminal::style::{Style, styled};

/// Returns the summary, with the errors on held-out curves if they were computed; `in_blocks` draws
/// bars in block characters.
pub fn text(
    library: &Library,
    results: &[Evaluated],
    validated: Option<&[Validated]>,
    in_blocks: bool,
) -> String {
    let mut lines = vec![papers(results, in_blocks), String::new()];
    let ids = |is_one: fn(&Evaluated) -> bool| {
        let ids = results.iter().filter(|result| is_one(result));
        let ids: Vec<&str> = ids.map(|result| result.claim.id.as_str()).collect();
        ids.join(", ")
    };
    let sentences = [
        ("Claims", table::summary(library, results)),
        (
            "Missed",
            ids(|one| is_missed(one) && one.claim.miss.is_some()),
        ),
        (
            "New misses",
            ids(|one| is_missed(one) && one.claim.miss.is_none()),
        ),
        ("No model", ids(|one| one.verdict == Verdict::NotEvaluated)),
        (
            "Held out",
            validated.map_or(String::new(), validation::summary),
        ),
    ];
    for (word, sentence) in sentences.iter().filter(|(_, text)| !text.is_empty()) {
        lines.push(format!("  {word:<10} {sentence}"));
    }
    lines.join("\n") + "\n"
}

fn is_missed(result: &Evaluated) -> bool {
    result.verdict == Verdict::Missed
}

/// Returns a heading and a line for each paper.
fn papers(results: &[Evaluated], in_blocks: bool) -> String {
    let heading = "Published claims, computed from the profiles";
    let mut papers: Vec<&str> = results.iter().map(|result| result.claim.paper()).collect();
    papers.dedup();
    let width = papers.iter().map(|name| name.len()).max().unwrap_or(0);
    let lines = papers.iter().map(|paper| {
        let of_paper = |result: &&Evaluated| result.claim.paper() == *paper;
        let all: Vec<&Evaluated> = results.iter().filter(of_paper).collect();
        line(&format!("{paper:<width$}"), &all, in_blocks)
    });
    let lines: Vec<String> = std::iter::once(styled(Style::Bold, heading))
        .chain(lines)
        .collect();
    lines.join("\n")
}

/// Returns a paper's line: the number of claims met, and the mean error of those with figures.
fn line(name: &str, all: &[&Evaluated], in_blocks: bool) -> String {
    let met = all.iter().filter(|one| one.verdict == Verdict::Met).count();
    let style = match met == all.len() {
        true => Style::Good,
        false => Style::Bad,
    };
    let bar = bar(Some(met as f64 / all.len() as f64), in_blocks);
    let errors: Vec<f64> = all.iter().filter_map(|one| one.error).collect();
    let error = match errors.len() {
        0 => String::new(),
        count => {
            let sum: f64 = errors.iter().map(|error| error.abs()).sum();
            format!("  mean error {:.1} %", 100.0 * sum / count as f64)
        }
    };
    let counts = format!("{met:>3} of {:>3} met", all.len());
    format!("  {name}  {counts}  {}{error}", styled(style, &bar))
}
