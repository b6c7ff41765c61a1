//! An opened device, its protection domains and its asynchronous events: ibv_open_device(3),
//! ibv_alloc_pd(3).

use crate::device::Device;
use crate::event::{AsyncEvent, EventQueue};
use crate::link;
use crate::process::Process;
use crate::quota::{self, QuotaShare};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refusal;
use verbena_hca_os::refused;

/// An opened device. A process may open it several times; the contexts share its memory keys and
/// queue pairs.
pub struct Context {
    /// The adapter of this process.
    pub process: Arc<Process>,
    /// The device.
    pub device: Device,
    /// Asynchronous events.
    pub events: EventQueue<AsyncEvent>,
}

impl Context {
    /// Opens one of the software adapter's devices.
    ///
    /// # Errors
    /// As [`Process::current`], [`EventQueue::new`] and [`Process::join`].
    pub fn open(device: Device) -> Result<Arc<Context>> {
        refusal::prepare();
        let context = Arc::new(Context {
            process: Process::current()?,
            device,
            events: EventQueue::new()?,
        });
        context.process.watch.add(&context);
        context.process.follow_link();
        if link::is_shared_out() {
            // `verbena port` notifies the processes in the registry only.
            context.process.join()?;
        }
        Ok(context)
    }
}

/// A protection domain, or a parent domain made of one.
pub struct Pd {
    context: Arc<Context>,
    number: u32,
    users: AtomicUsize,
    quota_share: Mutex<Option<QuotaShare>>,
}

static NEXT_PD: AtomicU32 = AtomicU32::new(1);

impl Pd {
    /// Allocates a protection domain.
    ///
    /// # Errors
    /// ENOMEM at the advertised limit.
    pub fn allocate(context: &Arc<Context>) -> Result<Arc<Pd>> {
        let quota_share = quota::PROTECTION_DOMAINS.take()?;
        let number = NEXT_PD.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Pd {
            context: context.clone(),
            number,
            users: AtomicUsize::new(0),
            quota_share: Mutex::new(Some(quota_share)),
        }))
    }

    /// Returns a parent domain, which protects exactly as its protection domain does
    /// (ibv_alloc_parent_domain(3)).
    pub fn parent_of(pd: &Arc<Pd>) -> Arc<Pd> {
        let (context, number) = (pd.context.clone(), pd.number);
        Arc::new(Pd {
            context,
            number,
            users: AtomicUsize::new(0),
            quota_share: Mutex::new(None),
        })
    }

    /// Returns its context.
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

    /// Uncounts one.
    pub fn release(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the domain's life for the application.
    ///
    /// # Errors
    /// EBUSY while regions, windows, queue pairs, shared receive queues or address handles live in
    /// it.
    pub fn deallocate(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) > 0 {
            return Err(refused!(
                EBUSY,
                "{} objects belong to the protection domain: destroy its memory regions, windows, \
                 queue pairs, shared receive queues, address handles and parent domains first",
                self.users.load(Ordering::Relaxed)
            ));
        }
        // Released now, and not when the last work request that refers to the domain is dropped.
        let mut quota_share = self
            .quota_share
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *quota_share = None;
        Ok(())
    }
}
