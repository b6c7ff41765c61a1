//! The table of an adapter: a file of text lines, `OPERATION PLACEMENT BYTES VISIBLE COMPLETION
//! SENDING MEMORY POSTING`, times in nanoseconds, and a last line with their number. Before them
//! may be the line `port SPEED WIDTH MTU` with codes of ibv_query_port(3).

use crate::operation::{Operation, Placement};
use crate::port::Port;
use std::fmt::Write as _;

/// First line of the file.
const HEADER: &str = "verbena emulation 1";

/// Longest name of a system.
const LONGEST_NAME: usize = 200;

/// Most points of a curve.
const MOST_POINTS: usize = 100;

/// Longest time, one minute.
const LONGEST: f64 = 60e9;

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

impl Times {
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
    /// Too many points.
    #[error("line {0}: more than 100 sizes of one operation")]
    Points(usize),
    /// The last line is missing or another one.
    #[error("it does not end with the number of its lines")]
    End,
    /// Nothing about writes.
    #[error("it has no line that begins with `write reference`")]
    NoWrites,
}

/// The times of all operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    system: String,
    port: Option<Port>,
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

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\nsystem {}\n", self.system);
        if let Some(port) = self.port {
            let _ = writeln!(text, "port {port}");
        }
        let kinds = Operation::ALL.into_iter().zip(&self.curves);
        let kinds = kinds.flat_map(|(operation, both)| {
            let both = Placement::ALL.into_iter().zip(both);
            both.map(move |(placement, curve)| (operation, placement, curve))
        });
        let mut points = 0;
        for (operation, placement, curve) in kinds {
            points += curve.len();
            for (bytes, times) in curve {
                let _ = write!(text, "{operation} {} {bytes}", placement.name());
                for value in times.values() {
                    let _ = write!(text, " {value:.3}");
                }
                text.push('\n');
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
            points += 1;
            let ((operation, placement), bytes, times) = point(line).ok_or(Error::Line(number))?;
            let curve = &mut table.curves[operation as usize][placement as usize];
            if curve.last().is_some_and(|(last, _)| *last >= bytes) {
                return Err(Error::Order(number));
            }
            if curve.len() == MOST_POINTS {
                return Err(Error::Points(number));
            }
            curve.push((bytes, times));
        }
        if !is_complete || !text.ends_with('\n') {
            return Err(Error::End);
        }
        let writes = &table.curves[Operation::Write as usize][Placement::Reference as usize];
        match writes.is_empty() {
            false => Ok(table),
            true => Err(Error::NoWrites),
        }
    }
}

type Key = (Operation, Placement);

fn point(line: &str) -> Option<(Key, u64, Times)> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let operation = Operation::ALL.into_iter().find(|one| one.name() == word)?;
    let word = words.next()?;
    let placement = Placement::ALL.into_iter().find(|one| one.name() == word)?;
    let bytes = words.next()?.parse().ok()?;
    let mut values = [0.0; 5];
    for value in &mut values {
        *value = words.next()?.parse().ok()?;
        if !(0.0..=LONGEST).contains(value) {
            return None;
        }
    }
    let is_all = words.next().is_none();
    is_all.then_some(((operation, placement), bytes, Times::of(values)))
}

fn interpolated(curve: &[(u64, Times)], bytes: u64) -> Times {
    let above = curve.partition_point(|(size, _)| *size < bytes);
    let last = curve.len().saturating_sub(1);
    let (low, high) = match above {
        0 => (0, 0),
        above if above > last => (last.saturating_sub(1), last),
        above => (above - 1, above),
    };
    let (Some((from, low)), Some((to, high))) = (curve.get(low), curve.get(high)) else {
        return Times::default();
    };
    if to == from {
        return *high;
    }
    let share = (bytes - from) as f64 / (to - from) as f64;
    let (low, high) = (low.values(), high.values());
    let value = |at: usize| (low[at] + share * (high[at] - low[at])).clamp(0.0, LONGEST);
    Times::of(std::array::from_fn(value))
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
        ) {
            let mut table = small();
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
