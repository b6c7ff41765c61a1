//! An opened device and its asynchronous events: ibv_open_device(3).

use crate::causes;
use crate::device::Device;
use crate::event::{AsyncEvent, EventQueue};
use crate::link;
use crate::process::Process;
use std::sync::Arc;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refusal;

/// An opened device. A process may open it several times; the contexts share its memory keys and
/// queue pairs.
pub struct Context {
    /// The adapter of this process.
    pub process: Arc<Process>,
    /// The device.
    pub device: Device,
    /// Asynchronous events.
    pub events: Arc<EventQueue<AsyncEvent>>,
}

impl Context {
    /// Opens one of the software adapter's devices.
    ///
    /// # Errors
    /// As [`Process::current`], [`EventQueue::new`] and [`Process::join`].
    pub fn open(device: Device) -> Result<Arc<Context>> {
        refusal::prepare();
        causes::limits::follow();
        let context = Arc::new(Context {
            process: Process::current()?,
            device,
            events: Arc::new(EventQueue::new()?),
        });
        context.process.ports.watch().add(device, &context.events);
        context.process.follow_link();
        causes::events::follow(&context.process);
        if link::is_shared_out() {
            // `verbena port` notifies the processes in the registry only.
            context.process.join()?;
        }
        Ok(context)
    }
}
