//! Loads a libibverbs and its function table.

mod functions;

pub use functions::Functions;

use crate::error::{Error, Result};
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

/// The library's soname.
pub const SYSTEM_LIBRARY: &str = "libibverbs.so.1";

/// A loaded libibverbs.
pub struct Library {
    name: String,
    pub(crate) functions: Functions,
}

impl Library {
    /// Loads a library by path, or by a name that the dynamic loader searches for.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if the loader fails or a required function is missing.
    pub fn open(name: impl AsRef<Path>) -> Result<Arc<Library>> {
        let name = name.as_ref().display().to_string();
        let fail = |reason: String| Error::Load {
            library: name.clone(),
            reason,
        };
        let c_name = CString::new(name.as_str()).map_err(|_| fail("NUL in the name".into()))?;
        let functions = Functions::load(&c_name).map_err(fail)?;
        Ok(Arc::new(Library { name, functions }))
    }

    /// Loads the system's libibverbs, or its replacement in `LD_LIBRARY_PATH`.
    ///
    /// # Errors
    ///
    /// As for [`Library::open`].
    pub fn system() -> Result<Arc<Library>> {
        Library::open(SYSTEM_LIBRARY)
    }

    /// Returns the name or path that it was loaded by.
    pub fn name(&self) -> &str {
        &self.name
    }
}
