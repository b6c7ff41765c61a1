//! Memory regions: ibv_reg_mr(3) and its relatives.

use libc::{c_int, c_uint, c_void, size_t};
use verbena_abi::*;

use crate::call::{CallDetails, arguments, ends, verbs};
use crate::names::Kind;
use crate::text::name;
use crate::words;

verbs! {
    fn ibv_reg_mr(
        pd: *mut ibv_pd, address: *mut c_void, length: size_t,
        access: c_int) -> *mut ibv_mr |mr, details| {
        region(details, mr, length);
        arguments!(details, "{}, {address:p}, {length} B, {}", name(Kind::Pd, pd),
            words::access(access as u32));
    }

    fn ibv_reg_mr_iova(
        pd: *mut ibv_pd, address: *mut c_void, length: size_t, iova: u64,
        access: c_int) -> *mut ibv_mr
    |mr, details| {
        region(details, mr, length);
        arguments!(
            details, "{}, {address:p}, {length} B, iova={iova:#x}, {}",
            name(Kind::Pd, pd), words::access(access as u32)
        );
    }

    fn ibv_reg_mr_iova2(
        pd: *mut ibv_pd, address: *mut c_void, length: size_t, iova: u64,
        access: c_uint) -> *mut ibv_mr
    |mr, details| {
        region(details, mr, length);
        arguments!(
            details, "{}, {address:p}, {length} B, iova={iova:#x}, {}",
            name(Kind::Pd, pd), words::access(access)
        );
    }

    fn ibv_reg_dmabuf_mr(
        pd: *mut ibv_pd, offset: u64, length: size_t, iova: u64, fd: c_int,
        access: c_int) -> *mut ibv_mr
    |mr, details| {
        region(details, mr, length);
        arguments!(
            details, "{}, offset={offset:#x}, {length} B, iova={iova:#x}, fd {fd}, {}",
            name(Kind::Pd, pd), words::access(access as u32)
        );
    }

    fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr |mr, details| {
        region(details, mr, 0);
        arguments!(details, "{}, {handle}", name(Kind::Pd, pd));
    }

    fn ibv_rereg_mr(
        mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, address: *mut c_void, length: size_t,
        access: c_int)
        -> c_int
    |result, details| {
        // This verb's error codes are negative, and `errno` is more precise.
        details.minus_one(result.max(-1));
        arguments!(details, "{}, {}", name(Kind::Mr, mr), words::rereg(flags));
        if !details.text {
            return;
        }
        if flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
            details.bytes = length as u64;
            details.arguments.push_str(&format!(", {address:p}, {length} B"));
        }
        if flags & IBV_REREG_MR_CHANGE_PD != 0 {
            details.arguments.push_str(&format!(", {}", name(Kind::Pd, pd)));
        }
        if flags & IBV_REREG_MR_CHANGE_ACCESS != 0 {
            details.arguments.push_str(&format!(", {}", words::access(access as u32)));
        }
    }
}

ends! {
    fn ibv_dereg_mr(mr: *mut ibv_mr) of Kind::Mr
}

/// Describes a new region, with its keys.
pub fn region(details: &mut CallDetails, mr: *mut ibv_mr, length: size_t) {
    details.object(Kind::Mr, mr);
    // SAFETY: null, or a valid object that the call has created.
    if let Some(mr) = unsafe { mr.as_ref() } {
        details.bytes = length as u64;
        details.with(format_args!("{{lkey={:#x}, rkey={:#x}}}", mr.lkey, mr.rkey));
    }
}
