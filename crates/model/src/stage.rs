//! The stages of an operation, as spans are called ([`crate::kernel::Sim::span`]). What is none of these is the adapter's
//! own: engines, pipeline, a change of queue pair, waiting for a turn.

/// The processor builds the request.
pub const POST: &str = "post";
/// The doorbell, with or without the request inside, on its way over the bus.
pub const DOORBELL: &str = "doorbell";
/// The adapter fetches the work request.
pub const REQUEST: &str = "work request";
/// The adapter fetches a queue pair's context.
pub const CONTEXT: &str = "context";
/// The adapter fetches a translation.
pub const TRANSLATION: &str = "translation";
/// The adapter reads the payload from memory.
pub const PAYLOAD: &str = "payload";
/// On a link.
pub const WIRE: &str = "wire";
/// Inside a switch.
pub const SWITCH: &str = "switch";
/// The adapter writes to memory.
pub const PLACEMENT: &str = "placement";
/// The acknowledgement's way back.
pub const ACKNOWLEDGEMENT: &str = "acknowledgement";
/// The adapter writes a completion.
pub const COMPLETION: &str = "completion";
/// The processor sees a completion.
pub const POLL: &str = "poll";
/// The processor sees that memory has changed.
pub const NOTICE: &str = "notice";
