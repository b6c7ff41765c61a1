//! Splits a tool's output into lines, without prefixes of launchers, logs and mail.

use std::collections::BTreeMap;

/// A line with its position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its text, trimmed.
    pub text: &'a str,
}

impl Line<'_> {
    /// Returns whether it has no content: blank, a rule of dashes, a Markdown fence.
    pub fn is_rule(&self) -> bool {
        self.text
            .chars()
            .all(|letter| "-=*#+|`~ \t".contains(letter))
    }
}

/// Returns the lines by the process that a launcher names in front of them: lines of processes are
/// interleaved.
pub fn by_process(text: &str) -> Vec<Vec<Line<'_>>> {
    let mut streams: BTreeMap<&str, Vec<Line<'_>>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let (process, text) = without_prefixes(line);
        let number = index + 1;
        streams
            .entry(process)
            .or_default()
            .push(Line { number, text });
    }
    let mut streams: Vec<Vec<Line<'_>>> = streams.into_values().collect();
    streams.sort_by_key(|lines| lines[0].number);
    streams
}

/// Returns the process that a launcher names, if any, and the rest of the line.
fn without_prefixes(line: &str) -> (&str, &str) {
    let (mut process, mut rest) = ("", line.trim());
    loop {
        if let Some(quoted) = rest.strip_prefix('>') {
            rest = quoted.trim_start();
        } else if let Some(timed) = without_time(rest) {
            rest = timed;
        } else if let Some((tag, tagged)) = tag(rest) {
            (process, rest) = (tag, tagged.trim_start());
        } else {
            return (process, rest);
        }
    }
}

/// Returns the rest after a time (`00:55:22 `), with which CI logs begin lines.
fn without_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let parts: Vec<&str> = time.split(':').collect();
    let two = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(two)).then(|| rest.trim_start())
}

/// Returns the process from a launcher's prefix and the rest of the line: `[1,0]<stdout>:` (Open
/// MPI), `[0] ` (MPICH), `0: ` (Slurm).
fn tag(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix('[') {
        let (name, text) = rest.split_once(']')?;
        let stream = |text: &'_ str, name: &str| text.starts_with(name);
        for output in ["<stdout>:", "<stderr>:"] {
            if stream(text, output) {
                return Some((name, &text[output.len()..]));
            }
        }
        // iperf3 numbers its streams this way, with blanks before the number; NCCL and UCX name
        // threads.
        let is_rank = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        let is_stream = text
            .trim_start()
            .split_once('-')
            .is_some_and(|(from, _)| from.trim().parse::<f64>().is_ok());
        return (is_rank && !is_stream).then_some((name, text));
    }
    let (name, text) = line.split_once(':')?;
    let is_rank = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    // NetPIPE numbers its rows this way.
    let mut words = text.split_whitespace();
    let is_row = words.next().is_some_and(|word| word.parse::<f64>().is_ok())
        && words.next() == Some("bytes");
    let is_label = text.is_empty() || text.starts_with(' ');
    (is_rank && is_label && !is_row).then_some((name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_and_mail_prefixes_are_removed() {
        for (line, process, text) in [
            ("> > 8 1.2", "", "8 1.2"),
            ("[1,0]<stdout>:8 1.2", "1,0", "8 1.2"),
            (
                "[prterun-a-7@1,3]<stdout>: 8 1.2",
                "prterun-a-7@1,3",
                "8 1.2",
            ),
            (" 0: 8 1.2", "0", "8 1.2"),
            ("> [2] # Size", "2", "# Size"),
            ("00:55:22   8   1.2", "", "8   1.2"),
            (
                "  3:  64 bytes 10 times --> 1.0 Mbps in 2.0 usec",
                "",
                "3:  64 bytes 10 times --> 1.0 Mbps in 2.0 usec",
            ),
            (
                "[  5]   0.00-2.00   sec  2.19 GBytes",
                "",
                "[  5]   0.00-2.00   sec  2.19 GBytes",
            ),
            (
                "[5] 0.00-2.00 sec 2.19 GBytes",
                "",
                "[5] 0.00-2.00 sec 2.19 GBytes",
            ),
            ("[thread 0]  77", "", "[thread 0]  77"),
        ] {
            assert_eq!(without_prefixes(line), (process, text), "{line}");
        }
    }

    #[test]
    fn interleaved_lines_are_separated_by_process() {
        let text = "0: a\n1: b\n0: c\n1: d\n";
        let texts: Vec<Vec<&str>> = by_process(text)
            .iter()
            .map(|lines| lines.iter().map(|line| line.text).collect())
            .collect();
        assert_eq!(texts, [["a", "c"], ["b", "d"]]);
    }
}
