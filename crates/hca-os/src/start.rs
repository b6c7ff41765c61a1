//! Starts the adapter's threads in programs that change their own code meanwhile.
//!
//! A new thread calls mmap(2) and munmap(2) for its heap. Open MPI and UCX overwrite the first
//! instructions of these functions ("memory hooks") while other threads may be running them; a
//! thread that returns from the kernel into the new instructions ends the process. So [`start`]
//! waits until the new thread has its heap. Afterwards the thread sleeps, or allocates from the
//! heap it has.
//!
//! `std::thread` cannot be used: it takes the dynamic loader's lock before the body begins, and a
//! library's constructor that opens the device holds that lock while it waits.

use crate::errno::{Errno, Result};
use crate::threads::SignalsBlocked;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

type ThreadBody = Box<dyn FnOnce() + Send>;

/// State shared by the creating and the new thread until the new one has its heap. It lies on the
/// creator's stack, so the new thread must not touch it after the post.
struct Beginning {
    has_heap: UnsafeCell<libc::sem_t>,
    name: &'static CStr,
    body: Option<ThreadBody>,
}

extern "C" fn enter(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: malloc(3) and free(3) of a byte, and the creator's `Beginning`, which the creator
    // keeps and does not touch until the post; its semaphore is initialised.
    let (name, body) = unsafe {
        // black_box, or the compiler would remove both calls.
        libc::free(std::hint::black_box(libc::malloc(1)));
        let beginning: *mut Beginning = beginning.cast();
        let taken = ((*beginning).name, (*beginning).body.take());
        libc::sem_post((*beginning).has_heap.get());
        taken
    };
    // SAFETY: this thread's number, and a terminated string.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    if let Some(body) = body {
        // A panic has been reported on standard error; the program's threads go on.
        let _ = catch_unwind(AssertUnwindSafe(body));
    }
    ptr::null_mut()
}

/// Returns the stack that a thread needs besides that of its body: in glibc the program's
/// thread-local variables (`__thread`) lie on it, however large they are. As `std::thread` does.
fn least(attributes: &libc::pthread_attr_t) -> usize {
    type Least = extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: a C string; glibc's function of this name takes the attributes, and no other library
    // has one.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr());
        match found.is_null() {
            true => libc::PTHREAD_STACK_MIN,
            false => std::mem::transmute::<*mut c_void, Least>(found)(attributes),
        }
    }
}

/// Starts a detached thread with all signals blocked; returns when it has its heap. The body has
/// `stack` bytes of stack; a `name` of more than 15 bytes is not set.
///
/// # Errors
/// The system's (pthread_create(3)), when it has no threads or memory left.
pub fn start(
    name: &'static CStr,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let mut beginning = Beginning {
        // SAFETY: a semaphore is plain data, initialised by sem_init below before its first use.
        has_heap: UnsafeCell::new(unsafe { std::mem::zeroed() }),
        name,
        body: Some(Box::new(body)),
    };
    let has_heap = beginning.has_heap.get();
    let _signals = SignalsBlocked::new();
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the semaphore and the attributes are initialised before they are used and destroyed
    // after their last use. The new thread has `beginning` until its post, for which this one
    // waits: a wait fails only when a signal handler has run, and none does here.
    unsafe {
        libc::sem_init(has_heap, 0, 0);
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        let whole = stack.saturating_add(least(attributes.assume_init_ref()));
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), whole.next_multiple_of(4096));
        let error: c_int = libc::pthread_create(
            thread.as_mut_ptr(),
            attributes.as_ptr(),
            enter,
            ptr::from_mut(&mut beginning).cast(),
        );
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if error != 0 {
            libc::sem_destroy(has_heap);
            return Err(Errno(error));
        }
        while libc::sem_wait(has_heap) != 0 {}
        libc::sem_destroy(has_heap);
        // The thread may have ended by now: only the thread itself may use its number.
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn thread_runs_its_body_under_its_name() {
        let (sender, receiver) = mpsc::channel();
        start(c"some-name", 64 << 10, move || {
            let name = std::fs::read_to_string("/proc/thread-self/comm");
            sender.send(name.unwrap()).unwrap();
        })
        .unwrap();
        assert_eq!(receiver.recv().unwrap(), "some-name\n");
    }

    #[test]
    fn panicking_thread_does_not_end_the_process() {
        let (sender, receiver) = mpsc::channel::<()>();
        start(c"panics", 256 << 10, move || {
            let _sender = sender;
            panic!("a test's");
        })
        .unwrap();
        assert!(receiver.recv().is_err());
    }

    #[test]
    fn impossible_stack_size_is_an_error() {
        assert!(start(c"none", 1 << 60, || ()).is_err());
    }
}
