//! Loads a libibverbs and its function table.
//!
//! Symbols are looked up with their version, as the dynamic linker does: another library in the
//! process may export the same names. Names and version nodes are from rdma-core's
//! `libibverbs.map.in`.

use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// The library's soname.
pub const SYSTEM_LIBRARY: &str = "libibverbs.so.1";

/// A loaded libibverbs.
pub struct Library {
    name: String,
    pub(crate) functions: Functions,
}

macro_rules! functions {
    (
        $($field:ident = $symbol:literal @ $node:literal : $type:ty;)*
        [optional] $($newer:ident = $newer_symbol:literal @ $newer_node:literal : $newer_type:ty;)*
    ) => {
        /// The functions in use, with the types of the official header. Older libraries lack the
        /// optional ones.
        pub(crate) struct Functions { $(pub $field: $type,)* $(pub $newer: Option<$newer_type>,)* }

        impl Functions {
            fn load(handle: NonNull<c_void>) -> std::result::Result<Functions, String> {
                Ok(Functions { $($field: {
                    let address = symbol(handle, $symbol, $node)?;
                    // SAFETY: the symbol of this name and version node has this type in every
                    // libibverbs; public nodes never change (rdma-core's ABI rules).
                    unsafe { std::mem::transmute::<NonNull<c_void>, $type>(address) }
                },)* $($newer: symbol(handle, $newer_symbol, $newer_node).ok().map(|address| {
                    // SAFETY: the symbol of this name and version node has this type in every
                    // libibverbs that has it; public nodes never change (rdma-core's ABI rules).
                    unsafe { std::mem::transmute::<NonNull<c_void>, $newer_type>(address) }
                }),)* })
            }
        }
    };
}

functions! {
    get_device_list = c"ibv_get_device_list" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut c_int) -> *mut *mut abi::ibv_device;
    free_device_list = c"ibv_free_device_list" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut *mut abi::ibv_device);
    open_device = c"ibv_open_device" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_device) -> *mut abi::ibv_context;
    close_device = c"ibv_close_device" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context) -> c_int;
    query_device = c"ibv_query_device" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context, *mut abi::ibv_device_attr) -> c_int;
    query_port = c"ibv_query_port" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context, u8, *mut abi::ibv_port_attr) -> c_int;
    query_gid = c"ibv_query_gid" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context, u8, c_int, *mut abi::ibv_gid) -> c_int;
    query_pkey = c"ibv_query_pkey" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context, u8, c_int, *mut u16) -> c_int;
    alloc_pd = c"ibv_alloc_pd" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context) -> *mut abi::ibv_pd;
    dealloc_pd = c"ibv_dealloc_pd" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd) -> c_int;
    reg_mr = c"ibv_reg_mr" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd, *mut c_void, usize, c_int) -> *mut abi::ibv_mr;
    dereg_mr = c"ibv_dereg_mr" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_mr) -> c_int;
    create_comp_channel = c"ibv_create_comp_channel" @ c"IBVERBS_1.0":
        unsafe extern "C" fn(*mut abi::ibv_context) -> *mut abi::ibv_comp_channel;
    destroy_comp_channel = c"ibv_destroy_comp_channel" @ c"IBVERBS_1.0":
        unsafe extern "C" fn(*mut abi::ibv_comp_channel) -> c_int;
    create_cq = c"ibv_create_cq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut abi::ibv_context, c_int, *mut c_void, *mut abi::ibv_comp_channel, c_int,
        ) -> *mut abi::ibv_cq;
    destroy_cq = c"ibv_destroy_cq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_cq) -> c_int;
    get_cq_event = c"ibv_get_cq_event" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut abi::ibv_comp_channel, *mut *mut abi::ibv_cq, *mut *mut c_void,
        ) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_cq, c_uint);
    create_srq = c"ibv_create_srq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd, *mut abi::ibv_srq_init_attr) -> *mut abi::ibv_srq;
    destroy_srq = c"ibv_destroy_srq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_srq) -> c_int;
    create_qp = c"ibv_create_qp" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd, *mut abi::ibv_qp_init_attr) -> *mut abi::ibv_qp;
    modify_qp = c"ibv_modify_qp" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_qp, *mut abi::ibv_qp_attr, c_int) -> c_int;
    query_qp = c"ibv_query_qp" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut abi::ibv_qp, *mut abi::ibv_qp_attr, c_int, *mut abi::ibv_qp_init_attr,
        ) -> c_int;
    destroy_qp = c"ibv_destroy_qp" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_qp) -> c_int;
    create_ah = c"ibv_create_ah" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd, *mut abi::ibv_ah_attr) -> *mut abi::ibv_ah;
    destroy_ah = c"ibv_destroy_ah" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_ah) -> c_int;
    [optional]
    query_gid_ex = c"_ibv_query_gid_ex" @ c"IBVERBS_1.11":
        unsafe extern "C" fn(
            *mut abi::ibv_context, u32, u32, *mut abi::ibv_gid_entry, u32, usize,
        ) -> c_int;
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
        // SAFETY: the name is a C string. Loading runs the library's constructors, as the caller
        // requested. The handle is never closed: providers have threads and exit handlers in the
        // library.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| fail(loader_error()))?;
        let functions = Functions::load(handle).map_err(fail)?;
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

fn loader_error() -> String {
    // SAFETY: dlerror returns NULL or a C string that lives until the next dl call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown reason".to_owned();
    }
    // SAFETY: `text` is not null, so it is a C string that lives until this thread's next dl call.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn symbol(
    handle: NonNull<c_void>,
    name: &CStr,
    node: &CStr,
) -> std::result::Result<NonNull<c_void>, String> {
    #[cfg(not(target_env = "musl"))]
    // SAFETY: the handle is open, both names are C strings.
    let address = unsafe { libc::dlvsym(handle.as_ptr(), name.as_ptr(), node.as_ptr()) };
    #[cfg(target_env = "musl")] // musl's linker does not support symbol versions.
    // SAFETY: the handle is open, the name is a C string.
    let address = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    NonNull::new(address)
        .ok_or_else(|| format!("no {}@{}", name.to_string_lossy(), node.to_string_lossy()))
}
