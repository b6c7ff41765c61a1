//! Splits a schedule's text into tokens: names, numbers, marks, ends of lines. Skips spaces and
//! comments.

use super::text::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// Letters, digits and underscores, starting with a letter.
    Name(&'a str),
    /// Digits.
    Number(u64),
    /// `-1`: any.
    Any,
    /// `:`, `{` or `}`.
    Mark(char),
    /// The end of a line.
    End,
}

impl Word<'_> {
    /// Describes the token for an error.
    pub fn told(self) -> String {
        match self {
            Word::Name(name) => format!("{name:?}"),
            Word::Number(number) => number.to_string(),
            Word::Any => "-1".to_owned(),
            Word::Mark(mark) => format!("{mark:?}"),
            Word::End => "the end of the line".to_owned(),
        }
    }
}

pub(super) struct Words<'a> {
    rest: &'a str,
    here: usize,
    /// Line of the token that was taken last.
    line: usize,
    next: Option<Word<'a>>,
}

impl<'a> Words<'a> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'a str) -> Words<'a> {
        Words {
            rest: text,
            here: 1,
            line: 1,
            next: None,
        }
    }

    /// Takes the next token; `None` at the end of the text.
    pub fn take(&mut self) -> Result<Option<Word<'a>>, Fault> {
        let word = match self.next.take() {
            Some(word) => Some(word),
            None => self.read()?,
        };
        if word.is_some() {
            self.line = self.here;
        }
        if word == Some(Word::End) {
            self.here += 1;
        }
        Ok(word)
    }

    /// Returns the next token without taking it.
    pub fn look(&mut self) -> Result<Option<Word<'a>>, Fault> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        Ok(self.next)
    }

    /// Returns an error about the token that was taken last.
    pub fn fault(&self, reason: String) -> Fault {
        Fault {
            line: self.line,
            reason,
        }
    }

    pub fn line(&self) -> usize {
        self.line
    }

    fn read(&mut self) -> Result<Option<Word<'a>>, Fault> {
        self.pass_comments()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let word = match first {
            '\n' => {
                self.split(1);
                Word::End
            }
            ':' | '{' | '}' => {
                self.split(1);
                Word::Mark(first)
            }
            'a'..='z' | 'A'..='Z' => {
                let of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                Word::Name(self.split_while(of_name))
            }
            '0'..='9' => {
                let digits = self.split_while(|letter| letter.is_ascii_digit());
                let number = digits.parse().map_err(|_| Fault {
                    line: self.here,
                    reason: format!("{digits} is more than {}", u64::MAX),
                })?;
                Word::Number(number)
            }
            '-' if self.rest.starts_with("-1") => {
                self.split(2);
                Word::Any
            }
            other => {
                return Err(Fault {
                    line: self.here,
                    reason: format!("{other:?} is not part of a schedule"),
                });
            }
        };
        Ok(Some(word))
    }

    /// Skips spaces and comments, which may span several lines.
    fn pass_comments(&mut self) -> Result<(), Fault> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            if self.rest.starts_with("//") {
                self.split_while(|letter| letter != '\n');
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(Fault {
                        line: self.here,
                        reason: "the comment that begins here has no end (*/)".to_owned(),
                    });
                };
                let comment = self.split(end + 2);
                self.here += comment.matches('\n').count();
            } else {
                return Ok(());
            }
        }
    }

    fn split(&mut self, at: usize) -> &'a str {
        let (word, rest) = self.rest.split_at(at);
        self.rest = rest;
        word
    }

    fn split_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !belongs(letter));
        self.split(end.unwrap_or(self.rest.len()))
    }
}
