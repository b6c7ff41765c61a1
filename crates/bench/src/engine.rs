//! The engine: it runs benchmarks on targets (`measure`).

use crate::external::External;
use crate::host::Host;

/// The measuring engine, with the parts that the program provides.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// This host and its software adapter.
    pub host: &'static dyn Host,
    /// Starts the benchmarks that the engine does not start itself.
    pub external: &'a dyn External,
}
