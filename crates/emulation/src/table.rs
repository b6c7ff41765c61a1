//! The table of an adapter: a file of text lines, `OPERATION PLACEMENT BYTES VISIBLE COMPLETION
//! SENDING MEMORY POSTING`, times in nanoseconds, and a last line with their number. Before them
//! may be the line `port SPEED WIDTH MTU` with codes of ibv_query_port(3), the line `device NAME
//! VENDOR PCI-VENDOR PART REVISION`, lines `limit NAME VALUE`, and for an adapter that processes
//! one request at a time the line `serial CHANGE` and lines `turn OPERATION PLACEMENT BYTES ONE TWO
//! FOUR EIGHT RESUMED` ([`crate::serial`]), which the last line counts, too.

use crate::device::{Device, Limit};
use crate::operation::{Operation, Placement};
use crate::port::Port;
use crate::serial::{Serial, Turn};
use std::fmt::Write as _;

/// First line of the file.
const HEADER: &str = "verbena emulation 1";

/// Longest name of a system.
const LONGEST_NAME: usize = 200;

/// Most points of a curve.
const MOST_POINTS: usize = 100;

/// Most limits.
const MOST_LIMITS: usize = 100;

/// Longest time, one minute.
pub(crate) const LONGEST: f64 = 60e9;

/// The times of one request, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    /// From the start of posting until the data are at the peer: in its memory, or its receive
    /// completed; a read or atomic takes the data then.
    pub visible: f64,
    /// From the start of posting until the completion.
    pub completion: f64,
    /// Time for which the request occupies the sending side of its node, and the receiving side of
    /// the peer's.
    pub sending: f64,
    /// Time for which it occupies the memory of both nodes.
    pub memory: f64,
    /// Time for which posting it keeps the processor busy.
    pub posting: f64,
}

/// Times as they are in a line.
pub(crate) trait Values: Copy + Default {
    /// Returns the times with these values.
    fn of(values: [f64; 5]) -> Self;
    /// Returns their values.
    fn values(self) -> [f64; 5];
}

impl Values for Times {
    fn of(values: [f64; 5]) -> Times {
        let [visible, completion, sending, memory, posting] = values;
        Times {
            visible,
            completion,
            sending,
            memory,
            posting,
        }
    }

    fn values(self) -> [f64; 5] {
        [
            self.visible,
            self.completion,
            self.sending,
            self.memory,
            self.posting,
        ]
    }
}

/// Why a table cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first line is another one.
    #[error("it does not begin with {HEADER:?}")]
    Header,
    /// A line cannot be read.
    #[error("line {0} is not OPERATION PLACEMENT BYTES and five times in nanoseconds")]
    Line(usize),
    /// The points of a curve do not grow.
    #[error("line {0}: the sizes of an operation must increase")]
    Order(usize),
    /// The port's codes are others.
    #[error("line {0}: a port has the codes of a rate, a width and an MTU")]
    Port(usize),
    /// The identity is no name and four numbers.
    #[error("line {0}: a device has the name of its devices and four numbers")]
    Device(usize),
    /// A limit is no name and a number.
    #[error("line {0}: a limit has the name of an attribute and a number")]
    Limit(usize),
    /// Too many points.
    #[error("line {0}: more than 100 sizes of one operation")]
    Points(usize),
    /// The last line is missing or another one.
    #[error("it does not end with the number of its lines")]
    End,
    /// The change of a serial adapter is no time.
    #[error("line {0}: `serial` and the time of a change in nanoseconds")]
    Serial(usize),
    /// Nothing about writes.
    #[error("it has no line that begins with `write reference`")]
    NoWrites,
    /// Nothing about the turns of writes.
    #[error("it has no line that begins with `turn write reference`")]
    NoTurns,
}

/// The times of all operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    system: String,
    port: Option<Port>,
    device: Option<Device>,
    limits: Vec<Limit>,
    serial: Option<Serial>,
    /// By operation and placement.
    curves: [[Vec<(u64, Times)>; 2]; Operation::ALL.len()],
}

impl Table {
    /// Returns a table without any times; [`Table::add`] adds them.
    pub fn new(system: &str) -> Table {
        let printable = system.chars().filter(|one| !one.is_control());
        Table {
            system: printable.take(LONGEST_NAME).collect(),
            port: None,
            device: None,
            limits: Vec::new(),
            serial: None,
            curves: Default::default(),
        }
    }

    /// Returns the name of the emulated system.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// Returns the port of the emulated adapter; none to keep that of the software adapter.
    pub fn port(&self) -> Option<Port> {
        self.port
    }

    /// Sets the port.
    pub fn set_port(&mut self, port: Port) {
        self.port = Some(port);
    }

    /// Returns the identity of the emulated adapter; none to keep that of the software adapter.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Returns the known limits of the emulated adapter.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Sets the identity and the limits.
    pub fn set_device(&mut self, device: Device, limits: Vec<Limit>) {
        self.device = Some(device);
        self.limits = limits;
    }

    /// Returns the turns of an adapter that processes one request at a time; none for another.
    pub fn serial(&self) -> Option<&Serial> {
        self.serial.as_ref()
    }

    /// Sets the turns; those of writes by reference may not be missing.
    pub fn set_serial(&mut self, serial: Serial) {
        self.serial = Some(serial);
    }

    /// Adds the times of an operation with so many bytes.
    pub fn add(&mut self, operation: Operation, placement: Placement, bytes: u64, times: Times) {
        let curve = &mut self.curves[operation as usize][placement as usize];
        let place = curve.partition_point(|(size, _)| *size < bytes);
        match curve.get_mut(place) {
            Some(found) if found.0 == bytes => found.1 = times,
            _ => curve.insert(place, (bytes, times)),
        }
    }

    /// Returns the times of a request: between two points in proportion, below the first as there,
    /// above the last with the slope of the last two. An operation without points has those of a
    /// similar one.
    pub fn times(&self, operation: Operation, placement: Placement, bytes: u64) -> Times {
        let (mut operation, mut placement) = (operation, placement);
        loop {
            let curve = &self.curves[operation as usize][placement as usize];
            match placement {
                _ if !curve.is_empty() => return interpolated(curve, bytes),
                Placement::Inline => placement = Placement::Reference,
                Placement::Reference if operation == Operation::Write => return Times::default(),
                Placement::Reference => operation = operation.similar(),
            }
        }
    }

    /// Replaces the times of each point; they stay between 0 and a minute. The turns of writes
    /// change as their times on the sending side do.
    pub(crate) fn change(&mut self, new: impl Fn(Operation, u64, Times) -> Times) {
        let before = self.clone();
        for (operation, both) in Operation::ALL.into_iter().zip(&mut self.curves) {
            for (bytes, times) in both.iter_mut().flatten() {
                let values = new(operation, *bytes, *times).values();
                *times = Times::of(values.map(|value| value.clamp(0.0, LONGEST)));
            }
        }
        let Some(mut serial) = self.serial.take() else {
            return;
        };
        for placement in Placement::ALL {
            for (bytes, turn) in serial.curve_mut(Operation::Write, placement) {
                let sending = |of: &Table| of.times(Operation::Write, placement, *bytes).sending;
                let more = sending(self) - sending(&before);
                let values = turn.values();
                *turn = Turn::of(values.map(|value| (value + more).clamp(0.0, LONGEST)));
            }
        }
        self.serial = Some(serial);
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\nsystem {}\n", self.system);
        if let Some(port) = self.port {
            let _ = writeln!(text, "port {port}");
        }
        if let Some(device) = &self.device {
            let _ = writeln!(text, "device {device}");
        }
        for limit in &self.limits {
            let _ = writeln!(text, "limit {limit}");
        }
        let mut points = 0;
        if let Some(serial) = &self.serial {
            let _ = writeln!(text, "serial {:.3}", serial.change);
            for (operation, placement) in TURNS {
                let curve = serial.curve(operation, placement);
                points += write_curve(&mut text, "turn ", (operation, placement), curve);
            }
        }
        for (operation, both) in Operation::ALL.into_iter().zip(&self.curves) {
            for (placement, curve) in Placement::ALL.into_iter().zip(both) {
                points += write_curve(&mut text, "", (operation, placement), curve);
            }
        }
        let _ = writeln!(text, "end {points}");
        text
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// Names the line that cannot be read.
    pub fn read(text: &str) -> Result<Table, Error> {
        let mut lines = text.lines().zip(1..);
        if lines.next().map(|(line, _)| line) != Some(HEADER) {
            return Err(Error::Header);
        }
        let system = lines
            .next()
            .and_then(|(line, _)| line.strip_prefix("system "));
        let mut table = Table::new(system.ok_or(Error::Line(2))?);
        let mut points = 0;
        let mut is_complete = false;
        for (line, number) in lines {
            if is_complete {
                return Err(Error::Line(number));
            }
            is_complete = line == format!("end {points}");
            if is_complete {
                continue;
            }
            if let Some(port) = line.strip_prefix("port ").filter(|_| number == 3) {
                table.port = Some(Port::read(port).ok_or(Error::Port(number))?);
                continue;
            }
            if points == 0 && table.read_device(line, number)? {
                continue;
            }
            if let Some(change) = line.strip_prefix("serial ") {
                if points > 0 || table.serial.is_some() {
                    return Err(Error::Serial(number));
                }
                let change = time(change).ok_or(Error::Serial(number))?;
                table.serial = Some(Serial::new(change));
                continue;
            }
            points += 1;
            if let Some(line) = line.strip_prefix("turn ") {
                let (key, bytes, turn) = point::<Turn>(line).ok_or(Error::Line(number))?;
                let serial = table.serial.as_mut().filter(|_| TURNS.contains(&key));
                let serial = serial.ok_or(Error::Line(number))?;
                push(serial.curve_mut(key.0, key.1), (bytes, turn), number)?;
                continue;
            }
            let ((operation, placement), bytes, times) =
                point::<Times>(line).ok_or(Error::Line(number))?;
            let curve = &mut table.curves[operation as usize][placement as usize];
            push(curve, (bytes, times), number)?;
        }
        if !is_complete || !text.ends_with('\n') {
            return Err(Error::End);
        }
        let (operation, placement) = (Operation::Write, Placement::Reference);
        if table.curves[operation as usize][placement as usize].is_empty() {
            return Err(Error::NoWrites);
        }
        let has_no_turns = |serial: &Serial| serial.curve(operation, placement).is_empty();
        match table.serial.as_ref().is_some_and(has_no_turns) {
            false => Ok(table),
            true => Err(Error::NoTurns),
        }
    }

    /// Reads a line about the device. Returns false for another line.
    fn read_device(&mut self, line: &str, number: usize) -> Result<bool, Error> {
        if let Some(device) = line.strip_prefix("device ") {
            let device = Device::read(device).filter(|_| self.device.is_none());
            self.device = Some(device.ok_or(Error::Device(number))?);
            return Ok(true);
        }
        if let Some(limit) = line.strip_prefix("limit ") {
            let limit = Limit::read(limit).filter(|_| self.limits.len() < MOST_LIMITS);
            self.limits.push(limit.ok_or(Error::Limit(number))?);
            return Ok(true);
        }
        Ok(false)
    }
}

type Key = (Operation, Placement);

/// Operations that have turns of their own.
const TURNS: [Key; 4] = [
    (Operation::Write, Placement::Reference),
    (Operation::Write, Placement::Inline),
    (Operation::Read, Placement::Reference),
    (Operation::Read, Placement::Inline),
];

/// Adds the lines of a curve; returns their number.
fn write_curve<T: Values>(
    text: &mut String,
    prefix: &str,
    (operation, placement): Key,
    curve: &[(u64, T)],
) -> usize {
    for (bytes, times) in curve {
        let _ = write!(text, "{prefix}{operation} {} {bytes}", placement.name());
        for value in times.values() {
            let _ = write!(text, " {value:.3}");
        }
        text.push('\n');
    }
    curve.len()
}

/// Adds a point to a curve.
fn push<T>(curve: &mut Vec<(u64, T)>, point: (u64, T), number: usize) -> Result<(), Error> {
    if curve.last().is_some_and(|(last, _)| *last >= point.0) {
        return Err(Error::Order(number));
    }
    if curve.len() == MOST_POINTS {
        return Err(Error::Points(number));
    }
    curve.push(point);
    Ok(())
}

/// Reads a time in nanoseconds.
fn time(word: &str) -> Option<f64> {
    let time = word.parse().ok()?;
    (0.0..=LONGEST).contains(&time).then_some(time)
}

fn point<T: Values>(line: &str) -> Option<(Key, u64, T)> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let operation = Operation::ALL.into_iter().find(|one| one.name() == word)?;
    let word = words.next()?;
    let placement = Placement::ALL.into_iter().find(|one| one.name() == word)?;
    let bytes = words.next()?.parse().ok()?;
    let mut values = [0.0; 5];
    for value in &mut values {
        *value = time(words.next()?)?;
    }
    let is_all = words.next().is_none();
    is_all.then_some(((operation, placement), bytes, T::of(values)))
}

/// Returns the times between the points of a curve, which has some.
pub(crate) fn interpolated<T: Values>(curve: &[(u64, T)], bytes: u64) -> T {
    let above = curve.partition_point(|(size, _)| *size < bytes);
    let last = curve.len().saturating_sub(1);
    let (low, high) = match above {
        0 => (0, 0),
        above if above > last => (last.saturating_sub(1), last),
        above => (above - 1, above),
    };
    let (Some((from, low)), Some((to, high))) = (curve.get(low), curve.get(high)) else {
        return T::default();
    };
    if to == from {
        return *high;
    }
    let share = (bytes - from) as f64 / (to - from) as f64;
    let (low, high) = (low.values(), high.values());
    let value = |at: usize| (low[at] + share * (high[at] - low[at])).clamp(0.0, LONGEST);
    T::of(std::array::from_fn(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(visible: f64) -> Times {
        Times {
            visible,
            completion: 2.0 * visible,
            ..Times::default()
        }
    }

    fn small() -> Table {
        let mut table = Table::new("connectx5-edr");
        table.add(Operation::Write, Placement::Reference, 64, times(1000.0));
        table.add(Operation::Write, Placement::Reference, 8, times(900.0));
        table.add(Operation::Write, Placement::Inline, 8, times(700.0));
        table
    }

    fn visible(table: &Table, operation: Operation, placement: Placement, bytes: u64) -> f64 {
        table.times(operation, placement, bytes).visible
    }

    #[test]
    fn times_are_interpolated_and_extrapolated() {
        let table = small();
        let at = |bytes| visible(&table, Operation::Write, Placement::Reference, bytes);
        assert_eq!(
            [at(0), at(8), at(36), at(64)],
            [900.0, 900.0, 950.0, 1000.0]
        );
        assert_eq!(at(120), 1100.0);
        assert_eq!(at(u64::MAX), LONGEST);
    }

    #[test]
    fn an_operation_without_points_takes_those_of_a_similar_one() {
        let table = small();
        assert_eq!(
            visible(&table, Operation::Atomic, Placement::Reference, 8),
            900.0
        );
        assert_eq!(
            visible(&table, Operation::Datagram, Placement::Inline, 8),
            900.0
        );
        assert_eq!(
            visible(&table, Operation::Write, Placement::Inline, 1000),
            700.0
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        let read = |rest: &str| Table::read(&format!("{HEADER}\nsystem x\n{rest}"));
        let good = "write reference 8 1 2 3 4 5\n";
        assert!(read(&format!("{good}end 1\n")).is_ok());
        for cut in ["", "end 1", "end 2\n", "end 0\n"] {
            assert!(read(&format!("{good}{cut}")).is_err(), "{cut:?}");
        }
        assert_eq!(read(&format!("{good}end 1\n{good}")), Err(Error::Line(5)));
        assert_eq!(Table::read("x"), Err(Error::Header));
        assert_eq!(Table::read(HEADER), Err(Error::Line(2)));
        assert_eq!(read("end 0\n"), Err(Error::NoWrites));
        assert_eq!(read(""), Err(Error::End));
        assert_eq!(read("write reference 8 1 2 3 4"), Err(Error::Line(3)));
        assert_eq!(read("write reference 8 1 2 3 4 5 6"), Err(Error::Line(3)));
        assert_eq!(read("write reference 8 1 2 3 4 NaN"), Err(Error::Line(3)));
        assert_eq!(read("write reference 8 1 2 3 4 -1"), Err(Error::Line(3)));
        for (wrong, error) in [
            ("serial -1\n", Error::Serial(3)),
            ("serial 1\nserial 1\n", Error::Serial(4)),
            ("turn write reference 8 1 2 3 4 5\n", Error::Line(3)),
            (
                "serial 1\nturn send reference 8 1 2 3 4 5\n",
                Error::Line(4),
            ),
            ("serial 1\nturn write reference 8 1 2 3 4\n", Error::Line(4)),
            (
                "serial 1\nwrite reference 8 1 2 3 4 5\nend 1\n",
                Error::NoTurns,
            ),
        ] {
            assert_eq!(read(wrong), Err(error), "{wrong:?}");
        }
        let twice = "write reference 8 1 2 3 4 5\nwrite reference 8 1 2 3 4 5";
        assert_eq!(read(twice), Err(Error::Order(4)));
    }

    proptest! {
        #[test]
        fn a_table_is_read_as_it_was_written(
            points in prop::collection::btree_map(
                (0..6usize, 0..2usize, 0..1u64 << 40),
                prop::array::uniform5(0..60_000_000_000_000u64),
                0..50,
            ),
            turns in prop::option::of(prop::collection::btree_map(
                0..1u64 << 40,
                prop::array::uniform5(0..60_000_000_000_000u64),
                1..50,
            )),
        ) {
            let mut table = small();
            if let Some(turns) = turns {
                let mut serial = Serial::new(440.0);
                for (bytes, values) in turns {
                    let turn = Turn::of(values.map(|thousandths| thousandths as f64 / 1000.0));
                    serial.add(Operation::Write, Placement::Reference, bytes, turn);
                    serial.add(Operation::Read, Placement::Reference, bytes, turn);
                }
                table.set_serial(serial);
            }
            for ((operation, placement, bytes), values) in points {
                let times = Times::of(values.map(|thousandths| thousandths as f64 / 1000.0));
                table.add(Operation::ALL[operation], Placement::ALL[placement], bytes, times);
            }
            let read = Table::read(&table.text()).unwrap();
            prop_assert_eq!(read.text(), table.text());
        }

        #[test]
        fn malformed_tables_do_not_panic(text in ".{0,200}") {
            let _ = Table::read(&text);
            let _ = Table::read(&format!("{HEADER}\nsystem x\n{text}"));
        }
    }
}
