//! Protection, parent and thread domains: ibv_alloc_pd(3), ibv_alloc_parent_domain(3),
//! ibv_alloc_td(3), ibv_import_pd(3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;
use verbena_abi::*;
use verbena_hca_memory::domain::Pd;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::exports::Exports;
use crate::handle::{Handle, Object};
use crate::{arguments, context, outcome};

/// A protection domain, or a parent domain.
pub struct PdObject {
    /// The adapter's object.
    pub pd: Arc<Pd>,
    parent: Option<Parent>,
}

/// The parts of a parent domain, which it keeps in use.
struct Parent {
    pd: Arc<Pd>,
    thread: Option<Arc<AtomicUsize>>,
}

impl Object for PdObject {
    type C = ibv_pd;
    const TAG: [u8; 4] = *b"pd  ";
}

/// A thread domain: the program's promise that one thread at a time uses the objects created with
/// it, which saves a completion queue a lock. Counts the parent domains created with it.
pub struct TdObject {
    users: Arc<AtomicUsize>,
}

impl Object for TdObject {
    type C = ibv_td;
    const TAG: [u8; 4] = *b"td  ";
}

static PDS: Exports<Pd> = Exports::empty();

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no domain.
///
/// # Safety
/// `pd` must be null or live, and stay so while the result is used.
pub unsafe fn of<'a>(pd: *mut ibv_pd) -> Result<&'a Arc<Pd>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<PdObject>::of(pd) }.map(|handle| &handle.object.pd)
}

/// Returns whether the program promises that only one thread at a time uses the objects of a parent
/// domain.
///
/// # Errors
/// EINVAL if it is no domain.
///
/// # Safety
/// That of [`of`].
pub unsafe fn is_of_one_thread(pd: *mut ibv_pd) -> Result<bool> {
    // SAFETY: the caller promises null or a live pointer.
    let object = &unsafe { Handle::<PdObject>::of(pd) }?.object;
    let parent = object.parent.as_ref();
    Ok(parent.is_some_and(|parent| parent.thread.is_some()))
}

/// Returns the context of a domain.
///
/// # Safety
/// `pd` must be live.
pub unsafe fn context_of(pd: *mut ibv_pd) -> *mut ibv_context {
    // SAFETY: a live pointer is valid.
    unsafe { (*pd).context }
}

/// Creates a protection domain.
///
/// # Safety
/// `context` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer(
        "ibv_alloc_pd",
        unsafe { context::of(context) }.and_then(|handle| {
            let pd = Pd::allocate(&handle.object.context.process.memory)?;
            let c = ibv_pd {
                context,
                handle: PDS.add(&pd),
            };
            Ok(Handle::create(c, PdObject { pd, parent: None }))
        }),
    )
}

/// Destroys a protection or parent domain.
///
/// # Safety
/// `pd` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_dealloc_pd",
        unsafe { Handle::<PdObject>::of(pd) }.and_then(|handle| {
            handle.object.pd.deallocate()?;
            // SAFETY: live, and not used again.
            unsafe {
                PDS.remove((*pd).handle);
                let object = Handle::<PdObject>::destroy(pd);
                if let Some(parent) = object.parent {
                    parent.pd.release();
                    if let Some(thread) = parent.thread {
                        thread.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
            Ok(())
        }),
    )
}

/// Slot of ibv_alloc_parent_domain: creates a parent domain; never calls its custom allocators. The
/// adapter's queues do not use memory of the program. Only processors access memory, so the
/// permission to allocate it outside a confidential guest's protection is accepted and unused.
///
/// # Safety
/// `context` must be null or live; `attributes` null or valid, with live pointers.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    const KNOWN: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
        | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
        | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_alloc_parent_domain", unsafe {
        context::of(context).and_then(|_| {
            let attributes = arguments::input(attributes)?;
            if attributes.comp_mask & !KNOWN != 0 {
                return Err(refused!(
                    EOPNOTSUPP,
                    "comp_mask is {:#x}, and only IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, \
                     _PD_CONTEXT and _ALLOW_CC_UNPROTECTED_ALLOC are supported",
                    attributes.comp_mask
                ));
            }
            let inner = of(attributes.pd)?.clone();
            let thread = if attributes.td.is_null() {
                None
            } else {
                Some(Handle::<TdObject>::of(attributes.td)?.object.users.clone())
            };
            inner.retain();
            if let Some(thread) = &thread {
                thread.fetch_add(1, Ordering::Relaxed);
            }
            let pd = Pd::parent_of(&inner);
            let c = ibv_pd {
                context,
                handle: PDS.add(&pd),
            };
            let parent = Some(Parent { pd: inner, thread });
            Ok(Handle::create(c, PdObject { pd, parent }))
        })
    })
}

/// Slot of ibv_alloc_td: creates a thread domain.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid.
pub unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attributes: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_alloc_td", unsafe {
        context::of(context).and_then(|_| {
            let mask = arguments::input(attributes)?.comp_mask;
            if mask != 0 {
                return Err(refused!(
                    EINVAL,
                    "comp_mask is {mask:#x}, and thread domains have no attributes: set it to 0"
                ));
            }
            let users = Arc::new(AtomicUsize::new(0));
            Ok(Handle::create(ibv_td { context }, TdObject { users }))
        })
    })
}

/// Slot of ibv_dealloc_td: destroys a thread domain.
///
/// # Safety
/// `td` must be null or live, and not be used again.
pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_dealloc_td",
        unsafe { Handle::<TdObject>::of(td) }.and_then(|handle| {
            if handle.object.users.load(Ordering::Relaxed) > 0 {
                return Err(refused!(
                    EBUSY,
                    "parent domains use the thread domain: ibv_dealloc_pd them first"
                ));
            }
            // SAFETY: live, and not used again.
            unsafe { Handle::<TdObject>::destroy(td) };
            Ok(())
        }),
    )
}

/// Returns a second pointer to a domain of this process, by its handle number.
///
/// # Safety
/// `context` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(context: *mut ibv_context, number: u32) -> *mut ibv_pd {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer(
        "ibv_import_pd",
        unsafe { context::of(context) }.and_then(|_| {
            let pd = PDS.find(number)?;
            let c = ibv_pd {
                context,
                handle: number,
            };
            Ok(Handle::create(c, PdObject { pd, parent: None }))
        }),
    )
}

/// Releases a pointer from [`ibv_import_pd`]; the domain remains.
///
/// # Safety
/// `pd` must be null or a pointer from [`ibv_import_pd`], and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut ibv_pd) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if Handle::<PdObject>::of(pd).is_ok() {
            Handle::<PdObject>::destroy(pd);
        }
    }
}
