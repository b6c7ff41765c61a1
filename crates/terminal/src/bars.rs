//! Bars and small curves, in block characters or in ASCII.

/// Characters of a bar. The bar of a rated figure has a third each for weak, fair and strong.
const BAR: usize = 15;
/// Maximum characters of a curve.
pub const CURVE: usize = 12;

/// Returns a bar for a value from 0 to 1; an empty one for `None`.
pub fn bar(place: Option<f64>, in_blocks: bool) -> String {
    let (full, empty) = if in_blocks {
        ('█', '░')
    } else {
        ('#', '.')
    };
    let filled = place.map_or(0, |place| {
        let cells = (place.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        // A rated figure has at least one cell, to distinguish it from an unrated one.
        cells.clamp(1, BAR)
    });
    let cell = |number| if number < filled { full } else { empty };
    (0..BAR).map(cell).collect()
}

/// Draws the values as heights from the least to the greatest; logarithmically if they differ by
/// more than a factor of 20.
pub fn curve(values: &[f64], in_blocks: bool) -> String {
    let heights: &[char] = match in_blocks {
        true => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        false => &['_', '.', '-', '=', '+', '*', '#'],
    };
    let drawn: Vec<f64> = thinned(values)
        .filter(|value| value.is_finite() && *value > 0.0)
        .collect();
    let [least, most] = [f64::min, f64::max].map(|pick| drawn.iter().copied().reduce(pick));
    let (Some(least), Some(most)) = (least, most) else {
        return String::new();
    };
    let by_logarithm = most / least > 20.0;
    let scale = |value: f64| if by_logarithm { value.ln() } else { value };
    let span = scale(most) - scale(least);
    let height = |value: &f64| {
        let share = if span > 0.0 {
            (scale(*value) - scale(least)) / span
        } else {
            0.0
        };
        heights[(share * (heights.len() - 1) as f64).round() as usize]
    };
    drawn.iter().map(height).collect()
}

/// Selects at most [`CURVE`] values, evenly spaced, including the first and the last.
fn thinned(values: &[f64]) -> impl Iterator<Item = f64> {
    let cells = values.len().min(CURVE);
    let last = values.len().saturating_sub(1);
    (0..cells).map(move |cell| values[cell * last / cells.saturating_sub(1).max(1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bar_shows_the_position() {
        assert_eq!(bar(None, false), "...............");
        assert_eq!(bar(Some(0.0), false), "#..............");
        assert_eq!(bar(Some(2.0 / 3.0), false), "##########.....");
        assert_eq!(bar(Some(7.0), false), "###############");
    }

    #[test]
    fn a_sparkline_rises_with_its_values() {
        assert_eq!(curve(&[1.0, 2.0, 4.0, 8.0], true), "▁▂▄█");
        assert_eq!(curve(&[1.0, 1e3, 1e6], false), "_=#");
        assert_eq!(curve(&[5.0, 5.0], true), "▁▁");
        assert_eq!(curve(&[], true), "");
        assert_eq!(curve(&[f64::NAN, 0.0], true), "");
    }

    proptest! {
        #[test]
        fn a_sparkline_has_one_cell_per_value_up_to_its_width(
            values in proptest::collection::vec(0.1_f64..1e9, 0..60),
        ) {
            let cells = curve(&values, true).chars().count();
            prop_assert_eq!(cells, values.len().min(CURVE));
        }
    }
}
