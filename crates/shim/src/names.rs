//! The names of the adapter's devices.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use libc::{c_char, ssize_t};

use crate::errno;
use crate::library::Function;

/// `ssize_t verbena_device_names(char *buffer, size_t size)`: stores the names of the devices
/// without their index; returns their length, or a negative errno.
type StoreNames = unsafe extern "C" fn(*mut c_char, usize) -> ssize_t;

// SAFETY: Verbena's own function has this signature.
static STORE: Function<StoreNames> = unsafe { Function::new(c"verbena_device_names") };

/// The software adapter's names.
const OWN: &[u8] = b"verbena";

/// Longest names.
const LONGEST: usize = 32;

/// The names of an emulated adapter's devices, once they are known; their length is 0 before.
static KNOWN: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Names of devices without their index.
pub struct Names {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Names {
    /// Returns those of this process: those of the software adapter, unless it emulates another
    /// one; then the library knows them. Preserves `errno`.
    pub fn get() -> Names {
        // SAFETY: a C string; the result is null or a C string.
        let is_emulated = unsafe {
            let value = libc::getenv(c"VERBENA_AS".as_ptr());
            !value.is_null() && !CStr::from_ptr(value).is_empty()
        };
        let emulated = match is_emulated {
            false => None,
            true => errno::kept(Names::emulated),
        };
        // While the library is being loaded, nothing is known yet.
        emulated.unwrap_or_else(Names::own)
    }

    /// Returns those of the software adapter.
    pub fn own() -> Names {
        let mut bytes = [0; LONGEST];
        bytes[..OWN.len()].copy_from_slice(OWN);
        let length = OWN.len();
        Names { bytes, length }
    }

    fn emulated() -> Option<Names> {
        let mut bytes = [0; LONGEST];
        let length = LENGTH.load(Ordering::Acquire);
        if length > 0 {
            for (byte, known) in bytes.iter_mut().zip(&KNOWN) {
                *byte = known.load(Ordering::Relaxed);
            }
            return Some(Names { bytes, length });
        }
        let store = STORE.get()?;
        // SAFETY: the buffer has this size.
        let stored = unsafe { store(bytes.as_mut_ptr().cast(), LONGEST) };
        let length = usize::try_from(stored).ok()?;
        if !(1..LONGEST).contains(&length) {
            return None;
        }
        for (byte, known) in bytes.iter().zip(&KNOWN) {
            known.store(*byte, Ordering::Relaxed);
        }
        LENGTH.store(length, Ordering::Release);
        Some(Names { bytes, length })
    }

    /// Returns them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
