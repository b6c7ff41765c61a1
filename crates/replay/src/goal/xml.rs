//! Reads the tags of a small XML document: elements and attributes, no text.

use super::text::Fault;

/// Largest number in an attribute.
const MOST: u64 = 1 << 31;

/// A tag and its attributes.
#[derive(Debug)]
pub(super) struct Tag<'a> {
    pub(super) line: usize,
    pub(super) name: &'a str,
    /// Whether it is an end tag.
    pub(super) ends: bool,
    /// Whether it is an element without contents.
    pub(super) empty: bool,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Tag<'a> {
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        let found = self.attributes.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns the number in an attribute; `None` if it is `none`.
    pub(super) fn number(&self, name: &str, none: Option<i64>) -> Result<Option<u64>, Fault> {
        let value = self.value(name).unwrap_or("");
        let number: Option<i64> = value.trim().parse().ok();
        match number {
            Some(number) if none == Some(number) => Ok(None),
            Some(number) if (0..=MOST as i64).contains(&number) => Ok(Some(number as u64)),
            _ => Err(Fault {
                line: self.line,
                reason: format!(
                    "<{}> needs `{name}`, a number up to {MOST}, and has {value:?}",
                    self.name
                ),
            }),
        }
    }
}

/// The tags of a document.
pub(super) struct Tags<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Tags<'a> {
    pub(super) fn new(text: &'a str) -> Tags<'a> {
        Tags {
            rest: text.strip_prefix('\u{feff}').unwrap_or(text),
            line: 1,
        }
    }

    /// Returns the current line, from 1, at most the text's last.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the next tag; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Tag<'a>>, Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            if blank == self.rest.len() {
                return Ok(None);
            }
            self.skip(blank);
            let end = if self.rest.starts_with("<!--") {
                "-->"
            } else if self.rest.starts_with("<?") {
                "?>"
            } else {
                return self.tag().map(Some);
            };
            match self.rest.find(end) {
                Some(at) => self.skip(at + end.len()),
                None => return Err(self.fault(format!("{end:?} is missing"))),
            }
        }
    }

    fn tag(&mut self) -> Result<Tag<'a>, Fault> {
        let (line, begun) = (self.line, self.rest);
        let Some(inside) = begun.strip_prefix('<') else {
            return Err(self.fault("a tag is expected".to_owned()));
        };
        // The end of the tag: the first '>' outside quotes.
        let mut quote: Option<char> = None;
        let end = inside.find(|c: char| match (quote, c) {
            (None, '>') => true,
            (None, '"' | '\'') => {
                quote = Some(c);
                false
            }
            (Some(open), _) if open == c => {
                quote = None;
                false
            }
            _ => false,
        });
        let Some(end) = end else {
            return Err(self.fault("'>' is missing".to_owned()));
        };
        let inside = &inside[..end];
        let (inside, ends) = match inside.strip_prefix('/') {
            Some(name) => (name, true),
            None => (inside, false),
        };
        let (inside, empty) = match inside.strip_suffix('/') {
            Some(name) => (name, true),
            None => (inside, false),
        };
        let name_end = inside.find(char::is_whitespace).unwrap_or(inside.len());
        let (name, list) = inside.split_at(name_end);
        let attributes = attributes(list).map_err(|reason| self.fault(reason))?;
        self.skip(end + 2);
        Ok(Tag {
            line,
            name,
            ends,
            empty,
            attributes,
        })
    }

    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        if !rest.is_empty() {
            self.line += passed.matches('\n').count();
        }
        self.rest = rest;
    }

    fn fault(&self, reason: String) -> Fault {
        Fault {
            line: self.line,
            reason,
        }
    }
}

fn attributes(list: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut found = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let pair = rest.split_once('=').and_then(|(name, value)| {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, rest) = value[1..].split_once(quote)?;
            Some((name.trim(), value, rest))
        });
        let Some((name, value, after)) = pair else {
            return Err("an attribute is expected, as name=\"value\"".to_owned());
        };
        if found.iter().any(|(other, _)| *other == name) {
            return Err(format!("the attribute {name:?} is there twice"));
        }
        found.push((name, value));
        rest = after.trim_start();
    }
    Ok(found)
}
