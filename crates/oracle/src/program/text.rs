//! The text form of programs: one call per line, concurrent calls between `together` and `end`.

use super::rule::Rule;
use super::words::{Call as Words, Word, put_field};
use super::{
    Action, Call, Key, MrId, MwId, ProcessId, Program, RecvWr, Remote, SendWr, Sge, Step, Waits,
};
use std::fmt;

impl Word for Key {
    fn put(&self, text: &mut String) {
        match self {
            Key::Mr(mr) => mr.put(text),
            Key::Mw(mw) => mw.put(text),
            Key::Bad => text.push_str("bad"),
        }
    }
    fn take(text: &str) -> Result<Self, String> {
        match text {
            "bad" => Ok(Key::Bad),
            _ if text.starts_with("mr") => MrId::take(text).map(Key::Mr),
            _ if text.starts_with("mw") => MwId::take(text).map(Key::Mw),
            _ => Err(format!("expected mrN, mwN or bad, found `{text}`")),
        }
    }
}

impl Word for Sge {
    fn put(&self, text: &mut String) {
        text.push_str(&format!("{}+{}@{}", self.at, self.len, self.key.word()));
    }
    fn take(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected AT+LEN@KEY, found `{text}`");
        let (range, key) = text.split_once('@').ok_or_else(wrong)?;
        let (at, len) = range.split_once('+').ok_or_else(wrong)?;
        Ok(Sge {
            at: Word::take(at)?,
            len: Word::take(len)?,
            key: Word::take(key)?,
        })
    }
}

impl Word for Remote {
    fn put(&self, text: &mut String) {
        text.push_str(&format!("{}@{}", self.at, self.key.word()));
    }
    fn take(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected AT@KEY, found `{text}`");
        let (at, key) = text.split_once('@').ok_or_else(wrong)?;
        Ok(Remote {
            at: Word::take(at)?,
            key: Word::take(key)?,
        })
    }
}

impl Word for SendWr {
    fn put(&self, text: &mut String) {
        let mut first = true;
        text.push_str("wr(");
        put_field(text, &mut first, "id", &self.id);
        put_field(text, &mut first, "do", &self.operation);
        put_field(text, &mut first, "sges", &self.sges);
        put_field(text, &mut first, "flags", &self.flags);
        if self.to.is_some() {
            put_field(text, &mut first, "to", &self.to);
        }
        if self.srq.is_some() {
            put_field(text, &mut first, "srq", &self.srq);
        }
        text.push(')');
    }
    fn take(text: &str) -> Result<Self, String> {
        let call = Words::parse(text)?;
        Ok(SendWr {
            id: call.field("id")?,
            operation: call.field("do")?,
            sges: call.field("sges")?,
            flags: call.field("flags")?,
            to: call.optional("to")?,
            srq: call.optional("srq")?,
        })
    }
}

impl Word for RecvWr {
    fn put(&self, text: &mut String) {
        let mut first = true;
        text.push_str("wr(");
        put_field(text, &mut first, "id", &self.id);
        put_field(text, &mut first, "sges", &self.sges);
        text.push(')');
    }
    fn take(text: &str) -> Result<Self, String> {
        let call = Words::parse(text)?;
        Ok(RecvWr {
            id: call.field("id")?,
            sges: call.field("sges")?,
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.by.word(), self.action.word())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [call] = &self.calls[..] {
            return writeln!(f, "{call}");
        }
        writeln!(f, "together")?;
        for call in &self.calls {
            writeln!(f, "  {call}")?;
        }
        writeln!(f, "end")
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.comment.lines() {
            writeln!(f, "# {line}")?;
        }
        writeln!(
            f,
            "program processes={} arena={} waits={}",
            self.processes,
            self.arena,
            self.waits.word()
        )?;
        for rule in &self.rules {
            writeln!(f, "{}", rule.line())?;
        }
        self.steps.iter().try_for_each(|step| write!(f, "{step}"))
    }
}

impl std::str::FromStr for Program {
    type Err = String;

    /// Parses the output of `Display`. The error has the line number.
    fn from_str(text: &str) -> Result<Program, String> {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            reader
                .line(line.trim())
                .map_err(|error| format!("line {}: {error}", index + 1))?;
        }
        if reader.together.is_some() {
            return Err("`together` without `end`".to_owned());
        }
        let head = reader
            .head
            .ok_or("no line `program processes=N arena=BYTES`")?;
        Ok(Program {
            comment: reader.comment,
            processes: head.processes,
            arena: head.arena,
            waits: head.waits,
            rules: reader.rules,
            steps: reader.steps,
        })
    }
}

#[derive(Clone, Copy)]
struct Head {
    processes: u16,
    arena: u32,
    waits: Waits,
}

#[derive(Default)]
struct Reader {
    comment: String,
    head: Option<Head>,
    rules: Vec<Rule>,
    steps: Vec<Step>,
    together: Option<Step>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            self.comment.push_str(comment.trim_start());
            self.comment.push('\n');
            return Ok(());
        }
        match line {
            "" => {}
            "together" => self.together = Some(Step::default()),
            "end" => {
                let step = self.together.take().ok_or("`end` without `together`")?;
                self.steps.push(step);
            }
            _ if line.starts_with("program ") => self.head = Some(head(line)?),
            _ if line.starts_with("rule ") => {
                let words = line
                    .strip_prefix("rule ")
                    .and_then(|rest| rest.split_once(' '));
                let (by, text) = words.ok_or("expected `rule pN RULE`")?;
                let rule = Rule::new(ProcessId::take(by)?, text)?;
                self.check_process(rule.by)?;
                self.rules.push(rule);
            }
            _ => {
                let (by, action) = line.split_once(' ').ok_or("expected `pN call(...)`")?;
                let call = Call {
                    by: ProcessId::take(by)?,
                    action: Action::take(action)?,
                };
                self.check_process(call.by)?;
                call.action.check(self.head.map_or(0, |head| head.arena))?;
                match &mut self.together {
                    Some(step) => step.calls.push(call),
                    None => self.steps.push(Step { calls: vec![call] }),
                }
            }
        }
        Ok(())
    }
}

impl Reader {
    fn check_process(&self, by: ProcessId) -> Result<(), String> {
        match self.head.is_none_or(|head| by.0 >= head.processes) {
            true => Err(format!("no process {}", by.word())),
            false => Ok(()),
        }
    }
}

/// Maximum arena size in bytes: limits the memory that a replayed file can request.
const MAX_ARENA: u32 = 1 << 28;
const MAX_PROCESSES: u16 = 16;

fn head(line: &str) -> Result<Head, String> {
    let mut waits = Waits::Polling;
    let (mut processes, mut arena) = (0u16, 0u32);
    for word in line.split_whitespace().skip(1) {
        match word.split_once('=') {
            Some(("processes", value)) => processes = Word::take(value)?,
            Some(("arena", value)) => arena = Word::take(value)?,
            Some(("waits", value)) => waits = Word::take(value)?,
            _ => {
                return Err(format!(
                    "expected processes=N, arena=BYTES or waits=HOW, found `{word}`"
                ));
            }
        }
    }
    if processes == 0 || processes > MAX_PROCESSES {
        return Err(format!("processes must be 1 to {MAX_PROCESSES}"));
    }
    if arena == 0 || arena > MAX_ARENA || arena % 4096 != 0 {
        return Err(format!(
            "arena must be a multiple of 4096 up to {MAX_ARENA}"
        ));
    }
    Ok(Head {
        processes,
        arena,
        waits,
    })
}
