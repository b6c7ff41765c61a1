//! Devices, protection domains, address handles and queries.

use std::slice;

use libc::{c_int, c_void, size_t};
use verbena_abi::*;

use crate::call::{arguments, call, ends, verbs};
use crate::names::Kind;
use crate::real::real;
use crate::state::STATE;
use crate::text::{self, name, string};
use crate::{alive, context_ops, words};

verbs! {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device |list, details| {
        details.minus_one(if list.is_null() { -1 } else { 0 });
        if list.is_null() && !count.is_null() {
            // SAFETY: the program's place for the count. A library that fails has set it to 0; one
            // that was not called, because the call was refused, has not.
            unsafe { count.write(0) };
        }
        if !list.is_null() {
            // SAFETY: the library returns an array of devices that ends with null.
            let devices = unsafe {
                let length = (0..).take_while(|&at| !(*list.add(at)).is_null()).count();
                slice::from_raw_parts(list, length)
            };
            // SAFETY: devices of the list have a zero-terminated name.
            let names = devices.iter().map(|device| unsafe { string((**device).name.as_ptr()) });
            details.gave(text::list(names));
        }
        arguments!(details, "{}", if count.is_null() { "NULL" } else { "&count" });
    }

    fn ibv_query_device(
        context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int |result, details| {
        details.errno_value(result);
        if details.succeeded() && !attr.is_null() {
            // SAFETY: the call succeeded and has filled it.
            let attr = unsafe { &*attr };
            details.with(format_args!(
                "{{ports={}, max_qp={}, max_qp_wr={}, max_cqe={}, max_mr_size={:#x}}}",
                attr.phys_port_cnt, attr.max_qp, attr.max_qp_wr, attr.max_cqe, attr.max_mr_size
            ));
        }
        arguments!(details, "{}", name(Kind::Context, context));
    }

    fn ibv_query_gid(
        context: *mut ibv_context, port: u8, index: c_int,
        gid: *mut ibv_gid) -> c_int |result, details| {
        details.minus_one(result);
        if details.succeeded() && !gid.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(format_args!("{:?}", unsafe { *gid }));
        }
        arguments!(details, "{}, port={port}, index={index}", name(Kind::Context, context));
    }

    fn ibv_query_pkey(
        context: *mut ibv_context, port: u8, index: c_int,
        pkey: *mut u16) -> c_int |result, details| {
        details.minus_one(result);
        if details.succeeded() && !pkey.is_null() {
            // SAFETY: the call succeeded and has filled it.
            details.with(format_args!("{:#06x}", u16::from_be(unsafe { *pkey })));
        }
        arguments!(details, "{}, port={port}, index={index}", name(Kind::Context, context));
    }

    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd |pd, details| {
        details.object(Kind::Pd, pd);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah |ah, details| {
        details.object(Kind::Ah, ah);
        // SAFETY: null, or valid during the program's call.
        let path = unsafe { attr.as_ref() }.map_or("NULL".into(), text::path);
        arguments!(details, "{}, {path}", name(Kind::Pd, pd));
    }

    fn ibv_create_ah_from_wc(
        pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh,
        port: u8) -> *mut ibv_ah |ah, details| {
        details.object(Kind::Ah, ah);
        // SAFETY: null, or valid during the program's call.
        let wc = unsafe { wc.as_ref() }.map_or("NULL".into(), text::completion);
        let grh = if grh.is_null() { "NULL" } else { "grh" };
        arguments!(details, "{}, {wc}, {grh}, port={port}", name(Kind::Pd, pd));
    }

    fn ibv_fork_init() -> c_int |result, details| {
        details.errno_value(result);
    }

    fn ibv_query_port(
        context: *mut ibv_context, port: u8, attr: *mut c_void
    ) -> c_int |result, details| {
        let _ = attr;
        details.errno_value(result);
        arguments!(details, "{}, port={port}", name(Kind::Context, context));
    }

    fn ibv_get_pkey_index(
        context: *mut ibv_context, port: u8, pkey: u16
    ) -> c_int |result, details| {
        details.minus_one(result);
        let (context, pkey) = (name(Kind::Context, context), u16::from_be(pkey));
        arguments!(details, "{context}, port={port}, {pkey:#06x}");
    }

    fn ibv_init_ah_from_wc(
        context: *mut ibv_context, port: u8, wc: *mut ibv_wc, grh: *mut ibv_grh,
        attr: *mut ibv_ah_attr
    ) -> c_int |result, details| {
        let _ = (wc, grh, attr);
        details.errno_value(result);
        arguments!(details, "{}, port={port}", name(Kind::Context, context));
    }

    fn _ibv_query_gid_ex(
        context: *mut ibv_context, port: u32, index: u32, entry: *mut c_void, flags: u32,
        size: size_t
    ) -> c_int |result, details| {
        let _ = (entry, size);
        details.errno_value(result);
        let context = name(Kind::Context, context);
        arguments!(details, "{context}, port={port}, index={index}, flags={flags:#x}");
    }

    fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd |pd, details| {
        details.object(Kind::Pd, pd);
        arguments!(details, "{}, {handle}", name(Kind::Context, context));
    }

    fn ibv_import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm |dm, details| {
        details.object(Kind::Dm, dm);
        arguments!(details, "{}, {handle}", name(Kind::Context, context));
    }
}

ends! {
    fn ibv_dealloc_pd(pd: *mut ibv_pd) of Kind::Pd
    fn ibv_destroy_ah(ah: *mut ibv_ah) of Kind::Ah
}

/// Opens a device, and puts the tracer's functions into its table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    type Open = unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
    let real = real!(ibv_open_device: Open);
    // SAFETY: null, or a device of the library's list.
    let called = match unsafe { device.as_ref() } {
        // SAFETY: the library's devices have a zero-terminated name.
        Some(device) => unsafe { string(device.name.as_ptr()) }.to_string(),
        None => "NULL".into(),
    };
    let context = call(
        "ibv_open_device",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(device) },
        |context, details| {
            details.object(Kind::Context, context);
            arguments!(details, "{called}");
        },
    );
    // SAFETY: null, or a device that was just opened, so nothing else uses it yet.
    unsafe { context_ops::replace(context) };
    context
}

/// Opens the device of another context, and puts the tracer's functions into its table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(descriptor: c_int) -> *mut ibv_context {
    type Import = unsafe extern "C" fn(c_int) -> *mut ibv_context;
    let real = real!(ibv_import_device: Import);
    let context = call(
        "ibv_import_device",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(descriptor) },
        |context, details| {
            details.object(Kind::Context, context);
            arguments!(details, "fd {descriptor}");
        },
    );
    // SAFETY: null, or a device that was just opened, so nothing else uses it yet.
    unsafe { context_ops::replace(context) };
    context
}

/// Closes a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    type Close = unsafe extern "C" fn(*mut ibv_context) -> c_int;
    let real = real!(ibv_close_device: Close);
    let called = STATE.lock().names.take(Kind::Context, context.addr());
    alive::gone(Kind::Context, context.addr());
    // Before the call: the next device may be opened at this address as soon as this one is closed.
    STATE.lock().replaced.remove_context(context);
    call(
        "ibv_close_device",
        // SAFETY: the program's call, with its own arguments.
        || unsafe { real(context) },
        |result, details| {
            details.minus_one(result);
            arguments!(details, "{called}");
        },
    )
}

/// Describes a port's attributes, for the slot of `ibv_query_port`.
pub fn port(attr: &ibv_port_attr) -> String {
    format!(
        "{{state={}, active_mtu={}, lid={:#x}, gid_tbl_len={}}}",
        words::port_state(attr.state),
        words::mtu(attr.active_mtu),
        attr.lid,
        attr.gid_tbl_len
    )
}
