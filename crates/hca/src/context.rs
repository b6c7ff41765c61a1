//! An opened device, its protection domains and its asynchronous events: ibv_open_device(3), ibv_alloc_pd(3).

use crate::errno::{Errno, Result};
use crate::event::{AsyncEvent, EventQueue};
use crate::process::Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// An opened device. A process may open it several times; the contexts share its memory keys and queue pairs.
pub struct Context {
    /// The adapter of this process.
    pub process: Arc<Process>,
    /// What happened outside of any completion.
    pub events: EventQueue<AsyncEvent>,
}

impl Context {
    /// Opens the software adapter.
    pub fn open() -> Result<Arc<Context>> {
        Ok(Arc::new(Context {
            process: Process::current()?,
            events: EventQueue::new()?,
        }))
    }
}

/// A protection domain, or a parent domain made of one.
pub struct Pd {
    context: Arc<Context>,
    number: u32,
    users: AtomicUsize,
}

static NEXT_PD: AtomicU32 = AtomicU32::new(1);

impl Pd {
    /// A new protection domain.
    pub fn allocate(context: &Arc<Context>) -> Result<Arc<Pd>> {
        let number = NEXT_PD.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Pd {
            context: context.clone(),
            number,
            users: AtomicUsize::new(0),
        }))
    }

    /// A parent domain: protects exactly as its protection domain does (ibv_alloc_parent_domain(3)).
    pub fn parent_of(pd: &Arc<Pd>) -> Arc<Pd> {
        let (context, number) = (pd.context.clone(), pd.number);
        Arc::new(Pd {
            context,
            number,
            users: AtomicUsize::new(0),
        })
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.context.process
    }

    /// Counts an object that lives in the domain.
    pub fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one of these back.
    pub fn release(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the domain's life for the application.
    ///
    /// # Errors
    /// EBUSY while regions, windows, queue pairs, shared receive queues or address handles live in it.
    pub fn deallocate(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) > 0 {
            Err(Errno::EBUSY)
        } else {
            Ok(())
        }
    }
}
