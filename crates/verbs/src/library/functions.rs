//! The function table of a libibverbs.
//!
//! Symbols are looked up with their version, as the dynamic linker does: another library in the
//! process may export the same names. Names and version nodes are from rdma-core's
//! `libibverbs.map.in`.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::NonNull;
use verbena_abi as abi;

macro_rules! functions {
    (
        $($field:ident = $symbol:literal @ $node:literal : $type:ty;)*
        [optional] $($newer:ident = $newer_symbol:literal @ $newer_node:literal : $newer_type:ty;)*
    ) => {
        /// The functions of a libibverbs, with the types of the official header: the bare verbs,
        /// for programs that pass wrong keys and destroy objects in use. Older libraries lack the
        /// optional ones.
        #[allow(missing_docs, reason = "the names are C's without their prefix")]
        pub struct Functions { $(pub $field: $type,)* $(pub $newer: Option<$newer_type>,)* }

        impl Functions {
            /// Loads the library of this name, and looks up its functions.
            ///
            /// # Errors
            ///
            /// The loader's message, or the name of a required function that is missing.
            pub fn load(name: &CStr) -> Result<Functions, String> {
                // SAFETY: the name is a C string. Loading runs the library's constructors, as the
                // caller requested. The handle is never closed: providers have threads and exit
                // handlers in the library.
                let handle = unsafe { libc::dlopen(name.as_ptr(),
                    libc::RTLD_NOW | libc::RTLD_LOCAL) };
                let handle = NonNull::new(handle).ok_or_else(loader_error)?;
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
    ack_async_event = c"ibv_ack_async_event" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_async_event);
    get_async_event = c"ibv_get_async_event" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_context, *mut abi::ibv_async_event) -> c_int;
    create_srq = c"ibv_create_srq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_pd, *mut abi::ibv_srq_init_attr) -> *mut abi::ibv_srq;
    modify_srq = c"ibv_modify_srq" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_srq, *mut abi::ibv_srq_attr, c_int) -> c_int;
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
    attach_mcast = c"ibv_attach_mcast" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_qp, *const abi::ibv_gid, u16) -> c_int;
    detach_mcast = c"ibv_detach_mcast" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut abi::ibv_qp, *const abi::ibv_gid, u16) -> c_int;
    [optional]
    rereg_mr = c"ibv_rereg_mr" @ c"IBVERBS_1.1":
        unsafe extern "C" fn(
            *mut abi::ibv_mr, c_int, *mut abi::ibv_pd, *mut c_void, usize, c_int,
        ) -> c_int;
    query_gid_ex = c"_ibv_query_gid_ex" @ c"IBVERBS_1.11":
        unsafe extern "C" fn(
            *mut abi::ibv_context, u32, u32, *mut abi::ibv_gid_entry, u32, usize,
        ) -> c_int;
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

fn symbol(handle: NonNull<c_void>, name: &CStr, node: &CStr) -> Result<NonNull<c_void>, String> {
    #[cfg(not(target_env = "musl"))]
    // SAFETY: the handle is open, both names are C strings.
    let address = unsafe { libc::dlvsym(handle.as_ptr(), name.as_ptr(), node.as_ptr()) };
    #[cfg(target_env = "musl")] // musl's linker does not support symbol versions.
    // SAFETY: the handle is open, the name is a C string.
    let address = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    NonNull::new(address)
        .ok_or_else(|| format!("no {}@{}", name.to_string_lossy(), node.to_string_lossy()))
}
