//! A row of figures in a tool's table.

/// The numbers of a row; `None` for a line that does not begin with one (a comment, a rule, a daemon's message). Wrong is a
/// row in which less than `least` of its columns are numbers: one cut short, or written with a decimal comma.
pub fn numbers(line: &str, number: usize, least: usize) -> Option<Result<Vec<f64>, String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    finite(words.first()?)?;
    if words.len() < least {
        let have = words.len();
        return Some(Err(format!(
            "line {number} has {have} of {least} columns; was it cut short?"
        )));
    }
    let parsed: Vec<f64> = words.iter().map_while(|word| finite(word)).collect();
    if parsed.len() < least {
        let word = words[parsed.len()];
        return Some(Err(format!("line {number}: {word:?} is not a number")));
    }
    Some(Ok(parsed))
}

/// A finite number.
pub fn finite(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_other_lines() {
        assert_eq!(numbers(" 2  1.5 Pass", 1, 2), Some(Ok(vec![2.0, 1.5])));
        assert_eq!(numbers("# Size", 1, 2), None);
        assert_eq!(numbers("", 1, 2), None);
    }

    #[test]
    fn wrong_rows_name_their_line() {
        let cut = numbers("2", 7, 2).unwrap().unwrap_err();
        assert!(cut.contains("line 7") && cut.contains("cut short"), "{cut}");
        for row in ["2 1,5", "2 nan", "2 inf"] {
            let wrong = numbers(row, 7, 2).unwrap().unwrap_err();
            assert!(wrong.contains("not a number"), "{wrong}");
        }
    }
}
