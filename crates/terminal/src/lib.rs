//! Text for terminals: [`output`] writes it to standard output, wrapped at the terminal's width and
//! coloured if supported; [`style`] marks emphasis, and [`bars`] draws bars and small curves.
#![forbid(unsafe_code)]

pub mod bars;
pub mod output;
mod size;
pub mod style;
mod wrap;

pub use size::{columns, has_colour, shows_blocks};
