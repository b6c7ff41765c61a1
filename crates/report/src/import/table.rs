//! Tables of figures, parsed by column names and never by position.

/// A printed figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Its value.
    pub value: f64,
    /// Maximum rounding error.
    pub rounding: f64,
}

impl Figure {
    /// Parses a figure.
    ///
    /// # Errors
    ///
    /// If the word is not a finite number that is at least 0, as times, sizes and rates are.
    pub fn read(word: &str) -> Result<Figure, String> {
        let value: f64 = word
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .ok_or_else(|| format!("{word:?} is not a number"))?;
        if value < 0.0 {
            return Err(format!("{word} is negative"));
        }
        let (mantissa, exponent) = match word.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(0)),
            None => (word, 0),
        };
        let decimals = mantissa.split_once('.').map_or(0, |(_, after)| after.len());
        let rounding = 0.5 * 10f64.powi(exponent - i32::try_from(decimals).unwrap_or(i32::MAX));
        Ok(Figure { value, rounding })
    }

    /// Returns the figure in another unit.
    pub fn times(self, unit: f64) -> Figure {
        Figure {
            value: self.value * unit,
            rounding: self.rounding * unit,
        }
    }

    /// Returns whether two figures may be equal, given their rounding and some per cent of
    /// difference between clocks.
    pub fn agrees(self, other: Figure) -> bool {
        let slack = self.rounding + other.rounding + TOLERANCE * self.value.max(other.value);
        (self.value - other.value).abs() <= slack
    }

    /// Returns whether it is at most another figure, given their rounding.
    pub fn at_most(self, other: Figure) -> bool {
        self.value <= other.value + 2.0 * (self.rounding + other.rounding)
    }

    /// Returns the bytes a second for this time in nanoseconds.
    pub fn rate_over(self, bytes: f64) -> Figure {
        let of = |nanos: f64| bytes / nanos * 1e9;
        let value = of(self.value);
        let least = self.value - self.rounding;
        let rounding = match least > 0.0 {
            true => of(least) - value,
            false => f64::INFINITY,
        };
        Figure { value, rounding }
    }
}

/// Maximum relative difference between two figures of a row beyond rounding.
const TOLERANCE: f64 = 0.02;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name in lower case, without its unit.
    pub name: String,
    /// Unit as printed.
    pub unit: String,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Parses a table's head, in which names may have blanks: a name ends with its unit in
    /// brackets, or is one of `single`.
    ///
    /// # Errors
    ///
    /// Returns an error for a head without columns of this form.
    pub fn of_head(head: &str, single: &[&str]) -> Result<Columns, String> {
        let mut columns = Vec::new();
        let mut name: Vec<&str> = Vec::new();
        for word in head.split_whitespace() {
            name.push(word);
            let joined = name.join(" ");
            let is_single = single.iter().any(|one| joined.eq_ignore_ascii_case(one));
            if is_single || word.ends_with([')', ']']) {
                columns.push(column(&joined));
                name.clear();
            }
        }
        match name.is_empty() {
            true => Ok(Columns(columns)),
            false => Err(format!(
                "unknown column {:?}, so the other columns cannot be assigned",
                name.join(" ")
            )),
        }
    }

    /// Returns columns with these names, without units.
    pub fn named(names: impl Iterator<Item = String>) -> Columns {
        Columns(names.map(|name| column(&name)).collect())
    }

    /// Returns whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|column| column.name == name)
    }

    /// Returns the unit of a column.
    pub fn unit(&self, name: &str) -> Option<&str> {
        let column = self.0.iter().find(|column| column.name == name)?;
        Some(&column.unit)
    }

    /// Returns a line's figures; `None` for a line that does not begin with a number.
    ///
    /// # Errors
    ///
    /// If there are fewer or more words than columns, or a word is no figure. Columns of `words`
    /// may contain any text.
    pub fn row<'a>(&'a self, line: &'a str, words: &[&str]) -> Option<Result<Row<'a>, String>> {
        begins_with_number(line).then(|| self.any_row(line, words))
    }

    /// Returns a line's figures, even if it does not begin with a number.
    ///
    /// # Errors
    ///
    /// As for [`row`](Columns::row).
    pub fn any_row<'a>(&'a self, line: &'a str, words: &[&str]) -> Result<Row<'a>, String> {
        let columns = &self.0;
        let found: Vec<&str> = line.split_whitespace().collect();
        if found.len() != columns.len() {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let reason = match found.len() < columns.len() {
                true => "; was it cut short?",
                false => "",
            };
            return Err(format!(
                "{} words under {} columns ({}){reason}",
                found.len(),
                columns.len(),
                names.join(", ")
            ));
        }
        let mut row = Vec::with_capacity(found.len());
        for (column, word) in columns.iter().zip(found) {
            let figure = match words.contains(&column.name.as_str()) {
                true => None,
                false => {
                    let wrong = |reason| format!("{reason}, under {}", column.name);
                    Some(Figure::read(word).map_err(wrong)?)
                }
            };
            row.push((column.name.as_str(), word, figure));
        }
        Ok(Row(row))
    }
}

/// Returns whether a line begins with a number, as a row of figures does.
pub fn begins_with_number(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let digits = first.trim_start_matches(['-', '+']);
    digits.starts_with(|letter: char| letter.is_ascii_digit()) && first.parse::<f64>().is_ok()
}

/// A row: column, word, figure.
#[derive(Debug)]
pub struct Row<'a>(Vec<(&'a str, &'a str, Option<Figure>)>);

impl Row<'_> {
    /// Returns the figure of a column.
    pub fn get(&self, name: &str) -> Option<Figure> {
        self.0.iter().find(|(column, ..)| *column == name)?.2
    }

    /// Returns the figure of a required column.
    ///
    /// # Errors
    ///
    /// If the table has no such column.
    pub fn need(&self, name: &str) -> Result<Figure, String> {
        self.get(name)
            .ok_or_else(|| format!("the table has no column {name}"))
    }

    /// Returns the word of a column.
    pub fn word(&self, name: &str) -> Option<&str> {
        let (_, word, _) = self.0.iter().find(|(column, ..)| *column == name)?;
        Some(word)
    }

    /// Checks that two figures agree.
    ///
    /// # Errors
    ///
    /// Returns a description of the contradiction.
    pub fn agree(&self, told: Figure, follows: Figure, what: &str) -> Result<(), String> {
        match told.agrees(follows) {
            true => Ok(()),
            false => Err(format!(
                "inconsistent: {what} ({} against {})",
                told.value, follows.value
            )),
        }
    }

    /// Checks that the figures of a row rise in this order; missing ones are skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not.
    pub fn rising(&self, names: &[&str]) -> Result<(), String> {
        let present: Vec<(&str, Figure)> = names
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)))
            .collect();
        for pair in present.windows(2) {
            let [(less, a), (more, b)] = pair else { break };
            if !a.at_most(*b) {
                return Err(format!(
                    "inconsistent: {less} is {}, more than {more}, {}",
                    a.value, b.value
                ));
            }
        }
        Ok(())
    }
}

fn column(name: &str) -> Column {
    let (name, unit) = match name.rfind(['(', '[']) {
        Some(at) if at > 0 => (
            name[..at].trim(),
            name[at..].trim_matches(['(', ')', '[', ']']),
        ),
        _ => (name, ""),
    };
    Column {
        name: name.to_lowercase(),
        unit: unit.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_know_their_rounding_error() {
        let read = |word| Figure::read(word).unwrap();
        assert_eq!(read("1.20").rounding, 0.005);
        assert_eq!(read("12").rounding, 0.5);
        assert!((read("1.5e3").rounding - 50.0).abs() < 1e-9);
        assert!(read("1.20").agrees(read("1.2049")));
        assert!(!read("1.20").agrees(read("1.30")));
        for word in ["-1.0", "nan", "inf", "1,5", "-nan", "x"] {
            assert!(Figure::read(word).is_err(), "{word}");
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let head = "#bytes  #sl #iterations    BW peak[MB/sec]  99% percentile[usec]";
        let columns = Columns::of_head(head, &["#bytes", "#sl", "#iterations"]).unwrap();
        assert_eq!(columns.unit("bw peak"), Some("MB/sec"));
        let row = columns.row("2 0 1000  4.5 6", &[]).unwrap().unwrap();
        assert_eq!(row.need("99% percentile").unwrap().value, 6.0);
        assert!(columns.row("2 0 1000 4.5", &[]).unwrap().is_err());
        assert!(columns.row("2 0 1000 4.5 6 7", &[]).unwrap().is_err());
        assert!(columns.row("hello 0 1000 4.5 6", &[]).is_none());
        let unknown = Columns::of_head("#bytes wonders", &["#bytes"]).unwrap_err();
        assert!(unknown.contains("\"wonders\""), "{unknown}");
    }
}
