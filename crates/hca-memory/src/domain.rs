//! Protection domains: ibv_alloc_pd(3).

use crate::process_memory::ProcessMemory;
use crate::quota::{self, QuotaShare};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// A protection domain, or a parent domain made of one.
pub struct Pd {
    memory: Arc<ProcessMemory>,
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
    pub fn allocate(memory: &Arc<ProcessMemory>) -> Result<Arc<Pd>> {
        let quota_share = quota::PROTECTION_DOMAINS.take()?;
        let number = NEXT_PD.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Pd {
            memory: memory.clone(),
            number,
            users: AtomicUsize::new(0),
            quota_share: Mutex::new(Some(quota_share)),
        }))
    }

    /// Returns a parent domain, which protects exactly as its protection domain does
    /// (ibv_alloc_parent_domain(3)).
    pub fn parent_of(pd: &Arc<Pd>) -> Arc<Pd> {
        Arc::new(Pd {
            memory: pd.memory.clone(),
            number: pd.number,
            users: AtomicUsize::new(0),
            quota_share: Mutex::new(None),
        })
    }

    /// Returns its number.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the memory that it protects.
    pub fn memory(&self) -> &Arc<ProcessMemory> {
        &self.memory
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
