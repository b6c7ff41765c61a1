//! The extended posting interface (ibv_wr_post(3)): `ibv_wr_start`, builders, setters,
//! `ibv_wr_complete`. The functions are in the queue pair's structure, where the header's inline
//! functions call them.
//!
//! Between start and complete or abort, the queue pair's [`Batch`] belongs to one thread. A builder
//! appends a request to it, a setter changes the last one; nothing is executed or reported until
//! `wr_complete` posts all requests or none.

use libc::{c_int, c_void};
use verbena_abi::*;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::batch::{Batch, Request, Work};
use crate::handle::Handle;
use crate::outcome;
use crate::qp::QpObject;

const ATOMIC: u64 = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
const DATAGRAM: u64 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
const UNRELIABLE: u64 = DATAGRAM
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_BIND_MW
    | IBV_QP_EX_WITH_SEND_WITH_INV;
const RELIABLE: u64 = UNRELIABLE
    | IBV_QP_EX_WITH_RDMA_READ
    | ATOMIC
    | IBV_QP_EX_WITH_FLUSH
    | IBV_QP_EX_WITH_ATOMIC_WRITE;

/// Bytes of an atomic write's value, which is inline data.
const ATOMIC_WRITE_LENGTH: usize = 8;

/// Checks that a queue pair of this type supports all of these operations.
///
/// # Errors
/// EOPNOTSUPP if not.
pub fn check_operations(kind: ibv_qp_type, operations: u64) -> Result<()> {
    let possible = match kind {
        IBV_QPT_RC | IBV_QPT_XRC_SEND => RELIABLE,
        IBV_QPT_UC => UNRELIABLE,
        IBV_QPT_UD => DATAGRAM,
        _ => 0,
    };
    if operations & !possible == 0 {
        Ok(())
    } else {
        Err(refused!(
            EOPNOTSUPP,
            "send_ops_flags requests {:#x}, which a queue pair of type {kind} does not support: \
             it supports {possible:#x}",
            operations & !possible
        ))
    }
}

/// Returns the bytes of inline data that the operations themselves need.
pub fn inline_needed(operations: u64) -> u32 {
    if operations & IBV_QP_EX_WITH_ATOMIC_WRITE != 0 {
        ATOMIC_WRITE_LENGTH as u32
    } else {
        0
    }
}

/// Fills in the functions.
pub fn fill(c: &mut ibv_qp_ex) {
    c.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    c.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    c.wr_bind_mw = Some(wr_bind_mw);
    c.wr_local_inv = Some(wr_local_inv);
    c.wr_rdma_read = Some(wr_rdma_read);
    c.wr_rdma_write = Some(wr_rdma_write);
    c.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    c.wr_send = Some(wr_send);
    c.wr_send_imm = Some(wr_send_imm);
    c.wr_send_inv = Some(wr_send_inv);
    c.wr_send_tso = Some(wr_send_tso);
    c.wr_set_ud_addr = Some(wr_set_ud_addr);
    c.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    c.wr_set_inline_data = Some(wr_set_inline_data);
    c.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    c.wr_set_sge = Some(wr_set_sge);
    c.wr_set_sge_list = Some(wr_set_sge_list);
    c.wr_start = Some(wr_start);
    c.wr_complete = Some(wr_complete);
    c.wr_abort = Some(wr_abort);
    c.wr_atomic_write = Some(wr_atomic_write);
    c.wr_flush = Some(wr_flush);
}

/// Returns the queue pair's batch, if it was created with this interface.
///
/// # Safety
/// `qp` must be the structure that holds the slot, as the header passes it.
#[inline]
unsafe fn batch<'a>(qp: *mut ibv_qp_ex) -> Option<&'a Batch> {
    // SAFETY: the caller promises the structure that holds the slot.
    unsafe { Handle::<QpObject>::known(qp) }
        .object
        .batch
        .as_deref()
}

/// Returns the collected requests.
///
/// # Safety
/// That of [`batch`]; and the calling thread must be between `wr_start` and the batch's end.
#[inline]
unsafe fn work<'a>(qp: *mut ibv_qp_ex) -> Option<&'a mut Work> {
    // SAFETY: the caller promises the structure that holds the slot, and that this thread owns the
    // batch.
    unsafe { batch(qp).map(|batch| batch.work()) }
}

/// Appends a request for `opcode`, which requires the `operation` flag, with the fields that the
/// program has set in the structure.
///
/// # Safety
/// That of [`work`].
#[inline]
unsafe fn build(
    qp: *mut ibv_qp_ex,
    opcode: ibv_wr_opcode,
    operation: u64,
    set: impl FnOnce(&mut Request),
) {
    // SAFETY: the caller promises the structure that holds the slot, and that this thread owns the
    // batch.
    unsafe {
        let Some(batch) = batch(qp) else { return };
        let work = batch.work();
        if batch.operations & operation == 0 {
            work.fail(|| {
                refused!(
                    EOPNOTSUPP,
                    "the queue pair was created without {operation:#x} (IBV_QP_EX_WITH_*) in \
                     send_ops_flags, which this work request needs"
                )
            });
        }
        // Inline data has its own setter here; the flag has no meaning.
        let flags = (*qp).wr_flags & !IBV_SEND_INLINE;
        let mut request = Request::new((*qp).wr_id, opcode, flags);
        set(&mut request);
        work.push(request);
    }
}

macro_rules! builders {
    ($(
        $name:ident($($argument:ident: $type:ty),*): $opcode:ident if $operation:ident,
        |$request:ident| $set:block
    )*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex, $($argument: $type),*) {
            // SAFETY: the header passes the structure and the program's valid arguments.
            unsafe { build(qp, $opcode, $operation, |$request| $set) }
        }
    )*};
}

builders! {
    wr_atomic_cmp_swp(rkey: u32, remote_address: u64, compare: u64, swap: u64):
        IBV_WR_ATOMIC_CMP_AND_SWP if IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
            request.compare_add = compare;
            request.swap = swap;
        }
    wr_atomic_fetch_add(rkey: u32, remote_address: u64, add: u64):
        IBV_WR_ATOMIC_FETCH_AND_ADD if IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
            request.compare_add = add;
        }
    wr_local_inv(key: u32):
        IBV_WR_LOCAL_INV if IBV_QP_EX_WITH_LOCAL_INV, |request| { request.immediate = key; }
    wr_rdma_read(rkey: u32, remote_address: u64):
        IBV_WR_RDMA_READ if IBV_QP_EX_WITH_RDMA_READ, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
        }
    wr_rdma_write(rkey: u32, remote_address: u64):
        IBV_WR_RDMA_WRITE if IBV_QP_EX_WITH_RDMA_WRITE, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
        }
    wr_rdma_write_imm(rkey: u32, remote_address: u64, immediate: u32):
        IBV_WR_RDMA_WRITE_WITH_IMM if IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
            request.immediate = immediate;
        }
    wr_send():
        IBV_WR_SEND if IBV_QP_EX_WITH_SEND, |_request| {}
    wr_send_imm(immediate: u32):
        IBV_WR_SEND_WITH_IMM if IBV_QP_EX_WITH_SEND_WITH_IMM, |request| {
            request.immediate = immediate;
        }
    wr_send_inv(key: u32):
        IBV_WR_SEND_WITH_INV if IBV_QP_EX_WITH_SEND_WITH_INV, |request| {
            request.immediate = key;
        }
    wr_send_tso(_header: *mut c_void, _header_length: u16, _segment: u16):
        IBV_WR_TSO if IBV_QP_EX_WITH_TSO, |_request| {}
}

unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_address: u64,
    length: usize,
    placement: u8,
    selectivity: u8,
) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    unsafe {
        let Some(work) = work(qp) else { return };
        let is_known = placement & !(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) == 0;
        let is_level = matches!(selectivity, IBV_FLUSH_RANGE | IBV_FLUSH_MR);
        // The length of a flush is limited like every message's, as it is in the same header field.
        let is_message = length <= verbena_hca_net::device::MAX_MESSAGE as usize;
        if placement == 0 || !is_known || !is_level || !is_message {
            work.fail(|| {
                refused!(
                    EINVAL,
                    "ibv_wr_flush with length {length}, type {placement:#x} and \
                     level {selectivity:#x}: at most {} bytes, IBV_FLUSH_GLOBAL or \
                     IBV_FLUSH_PERSISTENT or both, IBV_FLUSH_RANGE or IBV_FLUSH_MR",
                    verbena_hca_net::device::MAX_MESSAGE
                )
            });
        }
        build(qp, IBV_WR_FLUSH, IBV_QP_EX_WITH_FLUSH, |request| {
            request.rkey = rkey;
            request.remote_address = remote_address;
            request.compare_add = length as u64;
            request.swap = u64::from(placement) | u64::from(selectivity) << 8;
        });
    }
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    window: *mut ibv_mw,
    key: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the header passes the structure; `info` is null or valid during the call.
    unsafe {
        let Some(work) = work(qp) else { return };
        let place = work.add_bind(window, key, info.as_ref().copied().unwrap_or_default());
        build(qp, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW, |request| {
            request.bind = place;
        });
    }
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_address: u64,
    value: *const c_void,
) {
    // SAFETY: the header passes the structure; `value` has 8 bytes, valid during the call.
    unsafe {
        build(
            qp,
            IBV_WR_ATOMIC_WRITE,
            IBV_QP_EX_WITH_ATOMIC_WRITE,
            |request| {
                request.rkey = rkey;
                request.remote_address = remote_address;
            },
        );
        if let Some(work) = work(qp) {
            work.set_inline([(value.cast(), ATOMIC_WRITE_LENGTH)].into_iter());
        }
    }
}

unsafe extern "C" fn wr_set_ud_addr(
    qp: *mut ibv_qp_ex,
    address: *mut ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    if let Some(last) = unsafe { work(qp) }.and_then(Work::last) {
        last.address = address;
        last.remote_qpn = remote_qpn;
        last.remote_qkey = remote_qkey;
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    if let Some(last) = unsafe { work(qp) }.and_then(Work::last) {
        last.srq = remote_srqn;
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    if let Some(work) = unsafe { work(qp) } {
        work.set_buffers(&[ibv_sge { addr, length, lkey }]);
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    unsafe {
        if let Some(work) = work(qp) {
            match crate::arguments::array(list, count) {
                Ok(list) => work.set_buffers(list),
                Err(error) => work.fail(|| error),
            }
        }
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, data: *mut c_void, length: usize) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    unsafe {
        if let Some(work) = work(qp) {
            work.set_inline([(data.cast_const().cast(), length)].into_iter());
        }
    }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    unsafe {
        if let Some(work) = work(qp) {
            match crate::arguments::array(list, count) {
                Ok(list) => work.set_inline(
                    list.iter()
                        .map(|buffer| (buffer.addr.cast_const().cast(), buffer.length)),
                ),
                Err(error) => work.fail(|| error),
            }
        }
    }
}

/// Begins a batch.
unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    if let Some(batch) = unsafe { batch(qp) } {
        batch.begin();
    }
}

/// Drops the batch.
unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the header passes the structure and the program's valid arguments.
    if let Some(batch) = unsafe { batch(qp) } {
        batch.abort();
    }
}

/// Posts the batch: all of it, or nothing with an error.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the header passes the structure and the program's valid arguments.
    unsafe {
        let object = &Handle::<QpObject>::known(qp).object;
        let Some(batch) = object.batch.as_deref() else {
            let error = refused!(
                EINVAL,
                "the queue pair was created without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS: create it \
                 with ibv_create_qp_ex for this"
            );
            return outcome::errno_value("ibv_wr_complete", Err(error));
        };
        outcome::errno_value("ibv_wr_complete", batch.complete(&object.qp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_os::errno::Errno;

    #[test]
    fn operations_of_other_transports_are_refused() {
        assert_eq!(check_operations(IBV_QPT_RC, RELIABLE), Ok(()));
        assert_eq!(check_operations(IBV_QPT_UC, UNRELIABLE), Ok(()));
        assert_eq!(check_operations(IBV_QPT_UD, DATAGRAM), Ok(()));
        let refused = Err(Errno::EOPNOTSUPP);
        assert_eq!(
            check_operations(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ),
            refused
        );
        assert_eq!(
            check_operations(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE),
            refused
        );
        assert_eq!(check_operations(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), refused);
        assert_eq!(
            check_operations(IBV_QPT_XRC_RECV, IBV_QP_EX_WITH_SEND),
            refused
        );
    }
}
