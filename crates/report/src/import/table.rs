//! Tables of figures, read by the names of their columns and never by position.

/// A figure as it was printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Its value.
    pub value: f64,
    /// How far rounding may have moved it.
    pub rounding: f64,
}

impl Figure {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Times, sizes and rates are finite and not negative; anything else is named.
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

    /// The same in another unit.
    pub fn times(self, unit: f64) -> Figure {
        Figure {
            value: self.value * unit,
            rounding: self.rounding * unit,
        }
    }

    /// Whether two figures can be one, as they were rounded, within some per cent of difference
    /// between clocks.
    pub fn agrees(self, other: Figure) -> bool {
        let slack = self.rounding + other.rounding + TOLERANCE * self.value.max(other.value);
        (self.value - other.value).abs() <= slack
    }

    /// Whether it is at most another one, as they were rounded.
    pub fn at_most(self, other: Figure) -> bool {
        self.value <= other.value + 2.0 * (self.rounding + other.rounding)
    }

    /// Bytes a second over a time in nanoseconds for so many bytes.
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

/// By how much two figures of one row may differ beyond their rounding.
const TOLERANCE: f64 = 0.02;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in small letters, without its unit.
    pub name: String,
    /// Its unit, as it is printed.
    pub unit: String,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// From a table's head, in which names may have blanks: a name ends with its unit in brackets,
    /// or is one of `single`.
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
                "the column {:?} is not known, and what stands in the others cannot be told without it",
                name.join(" ")
            )),
        }
    }

    /// Of these names, without units.
    pub fn named(names: impl Iterator<Item = String>) -> Columns {
        Columns(names.map(|name| column(&name)).collect())
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|column| column.name == name)
    }

    /// The unit of a column.
    pub fn unit(&self, name: &str) -> Option<&str> {
        let column = self.0.iter().find(|column| column.name == name)?;
        Some(&column.unit)
    }

    /// A line's figures; `None` for one that does not begin with a number.
    ///
    /// # Errors
    ///
    /// Where there are fewer or more words than columns, or one is no figure. Columns of `words`
    /// may hold anything.
    pub fn row<'a>(&'a self, line: &'a str, words: &[&str]) -> Option<Result<Row<'a>, String>> {
        begins_with_number(line).then(|| self.any_row(line, words))
    }

    /// A line's figures, whatever it begins with.
    ///
    /// # Errors
    ///
    /// As `row` has them.
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

/// Whether a line begins as a row of figures does.
pub fn begins_with_number(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let digits = first.trim_start_matches(['-', '+']);
    digits.starts_with(|letter: char| letter.is_ascii_digit()) && first.parse::<f64>().is_ok()
}

/// A row: column, word, figure.
#[derive(Debug)]
pub struct Row<'a>(Vec<(&'a str, &'a str, Option<Figure>)>);

impl Row<'_> {
    /// The figure of a column.
    pub fn get(&self, name: &str) -> Option<Figure> {
        self.0.iter().find(|(column, ..)| *column == name)?.2
    }

    /// The figure of a column that the table must have.
    pub fn need(&self, name: &str) -> Result<Figure, String> {
        self.get(name)
            .ok_or_else(|| format!("the table has no column {name}"))
    }

    /// The word of a column.
    pub fn word(&self, name: &str) -> Option<&str> {
        let (_, word, _) = self.0.iter().find(|(column, ..)| *column == name)?;
        Some(word)
    }

    /// Says which of two figures that must agree does not.
    pub fn agree(&self, told: Figure, follows: Figure, what: &str) -> Result<(), String> {
        match told.agrees(follows) {
            true => Ok(()),
            false => Err(format!(
                "inconsistent: {what} ({} against {})",
                told.value, follows.value
            )),
        }
    }

    /// Refuses a row whose figures do not rise in this order; those that it lacks do not count.
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
    fn figures_know_how_they_were_rounded() {
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
