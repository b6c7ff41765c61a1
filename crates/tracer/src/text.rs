//! Structures as text.

use std::ffi::CStr;
use std::fmt::{self, Display, Write as _};
use std::slice;

use verbena_abi::*;

use crate::names::{Kind, Name};
use crate::state::STATE;
use crate::words;

/// Number of items of a list that are shown.
const SHOWN: usize = 16;

/// Returns the name of an object.
pub fn name<T>(kind: Kind, object: *const T) -> Name {
    STATE.lock().names.of(kind, object.addr())
}

/// Returns `[a, b, ... 5 more]`.
pub fn list<T: Display>(items: impl Iterator<Item = T>) -> String {
    let mut text = String::from("[");
    let mut count = 0;
    for item in items {
        match count {
            0 => write!(text, "{item}"),
            1..SHOWN => write!(text, ", {item}"),
            _ => Ok(()),
        }
        .expect("writing to a string succeeds");
        count += 1;
    }
    if count > SHOWN {
        let _ = write!(text, ", ... {} more", count - SHOWN);
    }
    text.push(']');
    text
}

/// Returns the requests of a linked list that the program posts.
///
/// # Safety
/// `request` must be null, or the first of a list that is valid as long as the result is used.
pub unsafe fn chain<T: 'static>(
    mut request: *const T,
    next: fn(&T) -> *mut T,
) -> impl Iterator<Item = &'static T> {
    std::iter::from_fn(move || {
        // SAFETY: the caller promises a valid list.
        let this = unsafe { request.as_ref() }?;
        request = next(this);
        Some(this)
    })
}

/// Returns the buffers of a request.
///
/// # Safety
/// `list` must be null or have `count` elements.
pub unsafe fn buffers<'a>(list: *const ibv_sge, count: libc::c_int) -> &'a [ibv_sge] {
    match usize::try_from(count) {
        // SAFETY: not null, and the caller promises `count` elements.
        Ok(count) if !list.is_null() => unsafe { slice::from_raw_parts(list, count) },
        _ => &[],
    }
}

/// Returns the sum of their lengths, in bytes.
pub fn length(buffers: &[ibv_sge]) -> u64 {
    buffers.iter().map(|one| u64::from(one.length)).sum()
}

/// Returns `0x7f12c000 64 B lkey=0x11`, or a list of several.
pub fn format_sges(buffers: &[ibv_sge]) -> String {
    let sge = |one: &ibv_sge| format!("{:#x} {} B lkey={:#x}", one.addr, one.length, one.lkey);
    match buffers {
        [one] => sge(one),
        several => list(several.iter().map(sge)),
    }
}

/// Describes the capacity of a queue pair.
pub fn capacity(cap: &ibv_qp_cap) -> String {
    format!(
        "{{send_wr={}, recv_wr={}, send_sge={}, recv_sge={}, inline={}}}",
        cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data
    )
}

/// Describes a path.
pub fn path(attr: &ibv_ah_attr) -> String {
    let mut text = format!(
        "{{port={}, dlid={:#x}, sl={}",
        attr.port_num, attr.dlid, attr.sl
    );
    if attr.is_global != 0 {
        let grh = &attr.grh;
        let _ = write!(
            text,
            ", dgid={:?}, sgid_index={}, hop_limit={}, traffic_class={:#x}",
            grh.dgid, grh.sgid_index, grh.hop_limit, grh.traffic_class
        );
    }
    text.push('}');
    text
}

/// Describes the attributes of a queue pair that are in the mask.
pub fn qp_attributes(attr: &ibv_qp_attr, mask: libc::c_int) -> String {
    let hexadecimal = |number: u32| format!("{number:#x}");
    let known: [(libc::c_int, &str, &dyn Display); 17] = [
        (IBV_QP_STATE, "state", &words::qp_state(attr.qp_state)),
        (
            IBV_QP_CUR_STATE,
            "cur_state",
            &words::qp_state(attr.cur_qp_state),
        ),
        (IBV_QP_PKEY_INDEX, "pkey_index", &attr.pkey_index),
        (IBV_QP_PORT, "port", &attr.port_num),
        (
            IBV_QP_ACCESS_FLAGS,
            "access",
            &words::access(attr.qp_access_flags),
        ),
        (IBV_QP_QKEY, "qkey", &hexadecimal(attr.qkey)),
        (IBV_QP_PATH_MTU, "mtu", &words::mtu(attr.path_mtu)),
        (IBV_QP_DEST_QPN, "dest_qp", &hexadecimal(attr.dest_qp_num)),
        (IBV_QP_RQ_PSN, "rq_psn", &hexadecimal(attr.rq_psn)),
        (IBV_QP_SQ_PSN, "sq_psn", &hexadecimal(attr.sq_psn)),
        (IBV_QP_MAX_QP_RD_ATOMIC, "rd_atomic", &attr.max_rd_atomic),
        (
            IBV_QP_MAX_DEST_RD_ATOMIC,
            "dest_rd_atomic",
            &attr.max_dest_rd_atomic,
        ),
        (IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", &attr.min_rnr_timer),
        (IBV_QP_TIMEOUT, "timeout", &attr.timeout),
        (IBV_QP_RETRY_CNT, "retry_cnt", &attr.retry_cnt),
        (IBV_QP_RNR_RETRY, "rnr_retry", &attr.rnr_retry),
        (
            IBV_QP_PATH_MIG_STATE,
            "path_mig_state",
            &words::path_migration(attr.path_mig_state),
        ),
    ];
    let mut rest = mask;
    let mut fields = Vec::new();
    for (bit, word, value) in known {
        if rest & bit != 0 {
            rest &= !bit;
            fields.push(format!("{word}={value}"));
        }
    }
    let composed = [
        (IBV_QP_AV, "path", path(&attr.ah_attr)),
        (IBV_QP_ALT_PATH, "alt_path", path(&attr.alt_ah_attr)),
        (IBV_QP_CAP, "cap", capacity(&attr.cap)),
    ];
    for (bit, word, value) in composed {
        if rest & bit != 0 {
            rest &= !bit;
            fields.push(format!("{word}={value}"));
        }
    }
    if rest != 0 {
        fields.push(format!("mask={rest:#x}"));
    }
    format!("{{{}}}", fields.join(", "))
}

/// Describes a completion.
pub fn completion(wc: &ibv_wc) -> String {
    let mut text = format!("{{wr_id={:#x}, {}", wc.wr_id, words::status(wc.status));
    // Of a failed completion, only the IDs are defined.
    if wc.status == IBV_WC_SUCCESS {
        let _ = write!(text, ", {}", words::completion(wc.opcode));
        if wc.opcode & IBV_WC_RECV != 0 {
            let _ = write!(text, ", {} B", wc.byte_len);
        }
        if wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) != 0 {
            // SAFETY: both members are 32 bits.
            let word = unsafe { wc.imm.imm_data };
            match wc.wc_flags & IBV_WC_WITH_IMM {
                0 => write!(text, ", invalidated={word:#x}"),
                _ => write!(text, ", imm={:#x}", u32::from_be(word)),
            }
            .expect("writing to a string succeeds");
        }
        if wc.wc_flags & IBV_WC_GRH != 0 {
            let _ = write!(text, ", {}", words::completion_flags(IBV_WC_GRH));
        }
    } else {
        let _ = write!(text, ", vendor_err={:#x}", wc.vendor_err);
    }
    let _ = write!(text, ", qp={:#x}}}", wc.qp_num);
    text
}

/// Returns a C string of the library as text.
///
/// # Safety
/// `text` must be null, or a zero-terminated string.
pub unsafe fn string(text: *const libc::c_char) -> impl fmt::Display {
    if text.is_null() {
        return "NULL".to_owned();
    }
    // SAFETY: not null, and the caller promises a terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{:?}", text.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_abbreviated() {
        assert_eq!(list(std::iter::empty::<u8>()), "[]");
        assert_eq!(list(1..=2), "[1, 2]");
        assert!(list(1..=20).ends_with("16, ... 4 more]"));
    }

    #[test]
    fn only_masked_attributes_are_shown() {
        let attr = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: 1,
            timeout: 14,
            ..Default::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_RATE_LIMIT;
        assert_eq!(
            qp_attributes(&attr, mask),
            "{state=INIT, port=1, mask=0x2000000}"
        );
    }

    #[test]
    fn a_failed_completion_shows_only_defined_fields() {
        let wc = ibv_wc {
            wr_id: 7,
            status: IBV_WC_RETRY_EXC_ERR,
            opcode: IBV_WC_RECV,
            byte_len: 99,
            qp_num: 0x11,
            ..Default::default()
        };
        assert_eq!(
            completion(&wc),
            "{wr_id=0x7, RETRY_EXC_ERR, vendor_err=0x0, qp=0x11}"
        );
    }
}
