//! Quantities: numbers with a dimension, in a unit that the profile names.

use crate::kernel::Time;

/// Dimension of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Nanoseconds.
    Time,
    /// Bytes per second; profiles use multiples of 10^6 or 10^9.
    Rate,
    /// Bytes.
    Bytes,
    /// A whole number of items.
    Count,
    /// A number without a unit: a share or a factor.
    Ratio,
}

impl Dimension {
    /// Returns the permitted units with their factors to the base unit.
    pub fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Dimension::Time => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("ps", 1e-3)],
            Dimension::Rate => &[
                ("MB/s", 1e6),
                ("GB/s", 1e9),
                ("Mflop/s", 1e6),
                ("Gflop/s", 1e9),
            ],
            Dimension::Bytes => &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1048576.0)],
            Dimension::Count => &[("1", 1.0)],
            Dimension::Ratio => &[("1", 1.0), ("%", 0.01)],
        }
    }
}

/// A type that represents a profile's quantity.
pub trait Quantity: Sized {
    /// Its dimension.
    const DIMENSION: Dimension;
    /// Converts from the base unit.
    ///
    /// # Errors
    ///
    /// Returns the reason if `base` is out of range.
    fn from_base(base: f64) -> Result<Self, String>;
}

fn whole(base: f64, least: f64) -> Result<u64, String> {
    if base.fract() != 0.0 || base < least || base > 1e18 {
        return Err(format!(
            "expected a whole number of at least {least}, found {base}"
        ));
    }
    Ok(base as u64)
}

impl Quantity for Time {
    const DIMENSION: Dimension = Dimension::Time;
    fn from_base(base: f64) -> Result<Time, String> {
        if !(0.0..1e12).contains(&base) {
            return Err(format!("expected a time of zero or more, found {base} ns"));
        }
        Ok(Time::from_nanos(base))
    }
}

/// Bytes (or operations) per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl Rate {
    /// Returns the time that `bytes` take at this rate.
    pub fn time(self, bytes: u64) -> Time {
        Time::rounded(bytes as f64 * 1e12 / self.0)
    }
}

impl Quantity for Rate {
    const DIMENSION: Dimension = Dimension::Rate;
    fn from_base(base: f64) -> Result<Rate, String> {
        if !(base > 0.0 && base < 1e18) {
            return Err(format!(
                "expected a rate above zero, found {} MB/s",
                base / 1e6
            ));
        }
        Ok(Rate(base))
    }
}

/// A size, at least one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Quantity for Bytes {
    const DIMENSION: Dimension = Dimension::Bytes;
    fn from_base(base: f64) -> Result<Bytes, String> {
        whole(base, 1.0).map(Bytes)
    }
}

/// A number of items, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl Quantity for Count {
    const DIMENSION: Dimension = Dimension::Count;
    fn from_base(base: f64) -> Result<Count, String> {
        whole(base, 1.0).map(Count)
    }
}

/// A number of ports, at least two: a switch with one port connects nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports(pub u64);

impl Quantity for Ports {
    const DIMENSION: Dimension = Dimension::Count;
    fn from_base(base: f64) -> Result<Ports, String> {
        whole(base, 2.0).map(Ports)
    }
}

/// A share or factor, zero or more.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

impl Quantity for Ratio {
    const DIMENSION: Dimension = Dimension::Ratio;
    fn from_base(base: f64) -> Result<Ratio, String> {
        if !(0.0..1e9).contains(&base) {
            return Err(format!("expected a number of zero or more, found {base}"));
        }
        Ok(Ratio(base))
    }
}
