//! The options that change an emulated adapter, or the software adapter, by one parameter of LogGP
//! each.

use verbena_emulation::knob::{Change, Knob, Parameter, Shown, read_time};
use verbena_emulation::table::Table;
use verbena_faults::rule::Rule;

use crate::failure::Failure;

/// Heading of these options in the help.
const HEADING: &str = "Emulation";

#[derive(Debug, clap::Args)]
pub struct KnobOptions {
    /// Change the time for posting a request, e.g. +500ns or x2
    ///
    /// With `--as`. For this time the processor is busy. A time (ns, us, ms, s) is the new value
    /// for the smallest write; "+TIME" adds; "xN" multiplies. A processor cannot post faster than
    /// it does without --as.
    #[arg(long, value_name = "CHANGE", help_heading = HEADING,
        value_parser = |text: &str| Knob::read(Parameter::Overhead, text))]
    overhead: Option<Knob>,

    /// Change the time of a message on its way, e.g. +5us, 20us or x2
    ///
    /// The time from the end of posting until the smallest write has arrived. Completions come
    /// later by twice as much, as the acknowledgement takes longer too. Without `--as`, "+TIME"
    /// alone.
    #[arg(long, value_name = "CHANGE", help_heading = HEADING,
        value_parser = |text: &str| Knob::read(Parameter::Latency, text))]
    latency: Option<Knob>,

    /// Change the time between two messages of a port, e.g. +1us or x2
    ///
    /// With `--as`. Single messages take as long as before.
    #[arg(long, value_name = "CHANGE", help_heading = HEADING,
        value_parser = |text: &str| Knob::read(Parameter::Gap, text))]
    gap: Option<Knob>,

    /// Change the rate of long messages, e.g. 10Gb/s or x0.5
    ///
    /// In kb/s, Mb/s or Gb/s of payload. Without `--as`, a rate alone: no direction of a process
    /// carries more.
    #[arg(long, value_name = "CHANGE", help_heading = HEADING,
        value_parser = |text: &str| Knob::read(Parameter::Rate, text))]
    rate: Option<Knob>,

    /// Delay each message by a random time up to this one, e.g. 2us
    ///
    /// Evenly distributed from 0, for each request and each answer by itself; order within a queue
    /// pair is kept. `--seed` makes other draws.
    #[arg(long, value_name = "TIME", help_heading = HEADING, value_parser = read_time)]
    jitter: Option<f64>,
}

impl KnobOptions {
    /// Changes a table, and prints each change on standard error.
    pub fn apply(&self, table: &mut Table) {
        let knobs = [self.overhead, self.latency, self.gap, self.rate];
        // The changed table has no times above a minute.
        let original = table.clone();
        for knob in knobs.into_iter().flatten() {
            let parameter = knob.parameter();
            let before = Knob::value(parameter, &original);
            let after = Shown(parameter, knob.changed(&original));
            eprintln!(
                "verbena: as {}: {} {after} instead of {}",
                table.system(),
                parameter.name(),
                Shown(parameter, before)
            );
            knob.turn(table);
        }
    }

    /// Returns whether some take effect as rules about links.
    pub fn are_rules(&self, is_emulated: bool) -> bool {
        let knobs = [self.overhead, self.latency, self.gap, self.rate];
        self.jitter.is_some() || (!is_emulated && knobs.iter().any(Option::is_some))
    }

    /// Returns the rules about links by which they take effect, with their names: jitter, and
    /// without an emulated adapter latency and rate.
    ///
    /// # Errors
    /// Names an option that has no effect without an emulated adapter.
    pub fn rules(&self, is_emulated: bool) -> Result<Vec<(String, Rule)>, Failure> {
        let mut texts = Vec::new();
        let nanoseconds = |time: f64| time.round() as u64;
        if !is_emulated {
            let knobs = [self.overhead, self.latency, self.gap, self.rate];
            for knob in knobs.into_iter().flatten() {
                texts.push(rule_of(knob)?);
            }
        }
        if let Some(time) = self.jitter {
            let shown = Shown(Parameter::Latency, time);
            let rule = format!("link: jitter {} ns", nanoseconds(time));
            texts.push((format!("jitter {shown}"), rule));
        }
        let rule = |(name, text): (String, String)| {
            let rule = text.parse::<Rule>();
            let rule = rule.map_err(|error| Failure::Input(format!("{name}: {error}")))?;
            Ok((name, rule))
        };
        texts.into_iter().map(rule).collect()
    }
}

/// Returns the name and the rule by which a change of the software adapter takes effect.
fn rule_of(knob: Knob) -> Result<(String, String), Failure> {
    let parameter = knob.parameter();
    let wrong = |why: &str| Failure::Input(format!("--{} {why}", parameter.name()));
    match (parameter, knob.change()) {
        (Parameter::Latency, Change::Plus(time)) if time > 0.0 && time < 1.0 => Err(wrong(
            "without --as is added in whole nanoseconds: at least +1ns",
        )),
        (Parameter::Latency, Change::Plus(time)) => Ok((
            format!("latency +{}", Shown(parameter, time)),
            format!("link: delay {} ns", time.round() as u64),
        )),
        (Parameter::Latency, _) => Err(wrong(
            "without --as is a time to add, such as +5us: the software adapter's latency is what \
             this machine needs, and not a number to replace or multiply",
        )),
        (Parameter::Rate, Change::To(rate)) => Ok((
            format!("rate {}", Shown(parameter, rate)),
            // In bits a nanosecond.
            format!("link: rate {} kb/s", (rate * 1e6).round() as u64),
        )),
        (Parameter::Rate, _) => Err(wrong(
            "without --as is a rate, such as 10Gb/s: the software adapter's is what this machine \
             copies, and not a number to multiply",
        )),
        (Parameter::Overhead, _) => Err(wrong(
            "needs --as SYSTEM: it changes the time of a modelled adapter; add --as connectx-qdr, \
             for example",
        )),
        (Parameter::Gap, _) => Err(wrong(
            "needs --as SYSTEM: the software adapter has no port that messages occupy one after \
             another",
        )),
    }
}
