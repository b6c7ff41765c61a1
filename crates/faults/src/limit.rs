//! Limits of the adapter that rules lower: `adapter: max_qp 16`.

use std::fmt;

/// The limits in rules, named as the attributes of ibv_query_device(3), and `max_inline_data`.
pub const NAMES: [&str; 14] = [
    "max_qp",
    "max_cq",
    "max_srq",
    "max_pd",
    "max_ah",
    "max_mr",
    "max_mw",
    "max_mr_size",
    "max_cqe",
    "max_srq_wr",
    "max_qp_wr",
    "max_sge",
    "max_inline_data",
    "max_qp_rd_atom",
];

/// A limit and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The name.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

impl Limit {
    /// Reads it; none for another text.
    pub(crate) fn read(text: &str) -> Option<Limit> {
        let (name, value) = text.split_once(' ')?;
        Some(Limit {
            name: NAMES.into_iter().find(|known| *known == name)?,
            value: value.trim().parse().ok()?,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.name, self.value)
    }
}
