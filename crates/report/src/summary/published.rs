//! Published figures of real adapters, all measured over a wire.

use crate::headline::Subject;

/// Meaning of a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The figure itself.
    Exactly,
    /// An upper limit.
    AtMost,
}

/// A published figure of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The measured quantity.
    pub subject: Subject,
    /// The adapter.
    pub adapter: String,
    /// The figure, in the subject's unit.
    pub value: f64,
    /// Its meaning.
    pub extent: Extent,
}

impl Published {
    /// Returns the figure with its unit.
    pub fn text(&self) -> String {
        let value = self.subject.display(self.value);
        match self.extent {
            Extent::Exactly => value,
            Extent::AtMost => format!("at most {value}"),
        }
    }
}
