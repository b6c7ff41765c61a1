//! The summary as text, with bars and small curves.

use super::{Summary, Tile, Word};
use verbena_terminal::bars::{CURVE, bar, curve};
use verbena_terminal::style::{Style, styled};

impl Summary {
    /// Returns a line for each figure, then the sentences, without a final newline. Wide lines give
    /// the reasons for the ratings.
    pub fn text(&self, is_wide: bool, in_blocks: bool) -> String {
        let heading = format!("{}, {}", self.label, self.kind.text());
        let mut lines = vec![styled(Style::Bold, &heading)];
        let tiles = self.tiles.iter();
        lines.extend(tiles.map(|tile| line(tile, is_wide, in_blocks)));
        lines.push(String::new());
        let sentences = self.sentences().into_iter();
        lines.extend(sentences.map(|(word, sentence)| format!("  {word:<10} {sentence}")));
        lines.join("\n")
    }
}

/// Returns a figure's line: name, value, rating, bar, curve and, if there is space, the reason.
fn line(tile: &Tile, is_wide: bool, in_blocks: bool) -> String {
    let style = match tile.rating.word {
        Word::Strong => Style::Good,
        Word::Fair => Style::Faint,
        Word::Weak => Style::Bad,
        Word::Unsure => Style::Doubt,
    };
    let word = format!("{:<7}", tile.rating.word.text());
    let bar = bar(tile.bar, in_blocks);
    let values: Vec<f64> = tile
        .curve
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|at| at.1)
        .collect();
    let curve = curve(&values, in_blocks);
    let mut text = format!(
        "  {:<13} {:>10}  {} {}  {curve:<CURVE$}",
        tile.name,
        tile.value,
        styled(style, &word),
        styled(style, &bar),
    );
    if is_wide {
        text += &format!("  {}", tile.rating.reason);
    }
    text.trim_end().to_owned()
}
