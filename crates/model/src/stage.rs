//! Names of the stages of an operation, used for spans ([`crate::kernel::Sim::span`]). Time not
//! covered by a stage is spent in the adapter: engines, pipeline, a switch of queue pairs, waiting
//! for a turn.

/// The processor builds the request.
pub const POST: &str = "post";
/// The doorbell, with or without the request inside, crosses the bus.
pub const DOORBELL: &str = "doorbell";
/// The request is held by a correction of the latency (`crate::correction`).
pub const ANCHOR: &str = "anchor";
/// The adapter fetches the work request.
pub const REQUEST: &str = "work request";
/// The adapter fetches a queue pair's context.
pub const CONTEXT: &str = "context";
/// The adapter fetches a translation.
pub const TRANSLATION: &str = "translation";
/// The adapter reads the payload from memory.
pub const PAYLOAD: &str = "payload";
/// The packet is on a link.
pub const WIRE: &str = "wire";
/// The packet is inside a switch.
pub const SWITCH: &str = "switch";
/// The adapter writes to memory.
pub const PLACEMENT: &str = "placement";
/// The acknowledgement returns.
pub const ACKNOWLEDGEMENT: &str = "acknowledgement";
/// The adapter writes a completion.
pub const COMPLETION: &str = "completion";
/// The processor sees a completion.
pub const POLL: &str = "poll";
/// The processor sees changed memory.
pub const NOTICE: &str = "notice";
/// The message-passing library prepares a message.
pub const SEND: &str = "library send";
/// The library copies a message's data into its buffers.
pub const COPY_OUT: &str = "copy out";
/// The library matches a message with a receive, or processes a protocol message.
pub const MATCH: &str = "library match";
/// A waiting rank starts to process a message.
pub const WAKEUP: &str = "wake-up";
/// The library copies a message's data out of its buffers.
pub const COPY_IN: &str = "copy in";
/// The library registers a buffer.
pub const REGISTRATION: &str = "registration";
