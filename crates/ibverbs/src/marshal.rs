//! Conversion between the kernel's structures and the library's: `ibv_copy_*_from_kern`, which
//! rdma-core's other libraries (mainly librdmacm) apply to results of the kernel's connection
//! manager.
//!
//! Source of the kernel's layouts: `rdma/ib_user_verbs.h`, `rdma/ib_user_sa.h`; a test compares.

use libc::c_int;
use verbena_abi::*;

/// `struct ib_uverbs_ah_attr`, with the `ib_uverbs_global_route` at its beginning.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelAhAttr {
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    reserved_route: u8,
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
    reserved: u8,
}

/// `struct ib_uverbs_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelQpAttr {
    qp_attr_mask: u32,
    qp_state: u32,
    cur_qp_state: u32,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: u32,
    ah_attr: KernelAhAttr,
    alt_ah_attr: KernelAhAttr,
    max_send_wr: u32,
    max_recv_wr: u32,
    max_send_sge: u32,
    max_recv_sge: u32,
    max_inline_data: u32,
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    reserved: [u8; 5],
}

/// `struct ib_user_path_rec`. `dlid`, `slid`, `flow_label` and `pkey` are in network byte order,
/// as in the library's record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelPathRec {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: u16,
    slid: u16,
    raw_traffic: u32,
    flow_label: u32,
    reversible: u32,
    mtu: u32,
    pkey: u16,
    hop_limit: u8,
    traffic_class: u8,
    numb_path: u8,
    sl: u8,
    mtu_selector: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

impl From<&KernelAhAttr> for ibv_ah_attr {
    fn from(kernel: &KernelAhAttr) -> Self {
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid::from_bytes(kernel.dgid),
                flow_label: kernel.flow_label,
                sgid_index: kernel.sgid_index,
                hop_limit: kernel.hop_limit,
                traffic_class: kernel.traffic_class,
            },
            dlid: kernel.dlid,
            sl: kernel.sl,
            src_path_bits: kernel.src_path_bits,
            static_rate: kernel.static_rate,
            is_global: kernel.is_global,
            port_num: kernel.port_num,
        }
    }
}

impl From<&KernelPathRec> for ibv_sa_path_rec {
    fn from(kernel: &KernelPathRec) -> Self {
        ibv_sa_path_rec {
            dgid: ibv_gid::from_bytes(kernel.dgid),
            sgid: ibv_gid::from_bytes(kernel.sgid),
            dlid: kernel.dlid,
            slid: kernel.slid,
            raw_traffic: kernel.raw_traffic as c_int,
            flow_label: kernel.flow_label,
            hop_limit: kernel.hop_limit,
            traffic_class: kernel.traffic_class,
            reversible: kernel.reversible as c_int,
            numb_path: kernel.numb_path,
            pkey: kernel.pkey,
            sl: kernel.sl,
            mtu_selector: kernel.mtu_selector,
            mtu: kernel.mtu as u8,
            rate_selector: kernel.rate_selector,
            rate: kernel.rate,
            packet_life_time_selector: kernel.packet_life_time_selector,
            packet_life_time: kernel.packet_life_time,
            preference: kernel.preference,
        }
    }
}

impl From<&ibv_sa_path_rec> for KernelPathRec {
    fn from(record: &ibv_sa_path_rec) -> Self {
        KernelPathRec {
            dgid: record.dgid.bytes(),
            sgid: record.sgid.bytes(),
            dlid: record.dlid,
            slid: record.slid,
            raw_traffic: record.raw_traffic as u32,
            flow_label: record.flow_label,
            reversible: record.reversible as u32,
            mtu: record.mtu.into(),
            pkey: record.pkey,
            hop_limit: record.hop_limit,
            traffic_class: record.traffic_class,
            numb_path: record.numb_path,
            sl: record.sl,
            mtu_selector: record.mtu_selector,
            rate_selector: record.rate_selector,
            rate: record.rate,
            packet_life_time_selector: record.packet_life_time_selector,
            packet_life_time: record.packet_life_time,
            preference: record.preference,
        }
    }
}

/// Fills the first structure from the second, except the wanted state, which callers set before,
/// and the rate limit, which the kernel's structure lacks; rdma-core does the same.
///
/// # Safety
/// Both pointers must be valid for their types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    target: *mut ibv_qp_attr,
    source: *const KernelQpAttr,
) {
    // SAFETY: the caller promises valid pointers; no reference to the target is made, as it may be
    // uninitialised.
    unsafe {
        let kernel = &*source;
        (*target).cur_qp_state = kernel.cur_qp_state;
        (*target).path_mtu = kernel.path_mtu;
        (*target).path_mig_state = kernel.path_mig_state;
        (*target).qkey = kernel.qkey;
        (*target).rq_psn = kernel.rq_psn;
        (*target).sq_psn = kernel.sq_psn;
        (*target).dest_qp_num = kernel.dest_qp_num;
        (*target).qp_access_flags = kernel.qp_access_flags;
        (*target).cap = ibv_qp_cap {
            max_send_wr: kernel.max_send_wr,
            max_recv_wr: kernel.max_recv_wr,
            max_send_sge: kernel.max_send_sge,
            max_recv_sge: kernel.max_recv_sge,
            max_inline_data: kernel.max_inline_data,
        };
        (*target).ah_attr = (&kernel.ah_attr).into();
        (*target).alt_ah_attr = (&kernel.alt_ah_attr).into();
        (*target).pkey_index = kernel.pkey_index;
        (*target).alt_pkey_index = kernel.alt_pkey_index;
        (*target).en_sqd_async_notify = kernel.en_sqd_async_notify;
        (*target).sq_draining = kernel.sq_draining;
        (*target).max_rd_atomic = kernel.max_rd_atomic;
        (*target).max_dest_rd_atomic = kernel.max_dest_rd_atomic;
        (*target).min_rnr_timer = kernel.min_rnr_timer;
        (*target).port_num = kernel.port_num;
        (*target).timeout = kernel.timeout;
        (*target).retry_cnt = kernel.retry_cnt;
        (*target).rnr_retry = kernel.rnr_retry;
        (*target).alt_port_num = kernel.alt_port_num;
        (*target).alt_timeout = kernel.alt_timeout;
    }
}

macro_rules! copies {
    ($($name:ident: $source:ty => $target:ty;)*) => {$(
        /// Fills the first structure from the second.
        ///
        /// # Safety
        /// Both pointers must be valid for their types.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(target: *mut $target, source: *const $source) {
            // SAFETY: the caller promises valid pointers; `write`, as the target may be
            // uninitialised.
            unsafe { target.write((&*source).into()) }
        }
    )*};
}

copies! {
    ibv_copy_ah_attr_from_kern: KernelAhAttr => ibv_ah_attr;
    ibv_copy_path_rec_from_kern: KernelPathRec => ibv_sa_path_rec;
    ibv_copy_path_rec_to_kern: ibv_sa_path_rec => KernelPathRec;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Sizes and last fields of the kernel's headers (x86-64 and AArch64).
    #[test]
    fn layouts_equal_the_kernel_headers() {
        assert_eq!(size_of::<KernelAhAttr>(), 32);
        assert_eq!(offset_of!(KernelAhAttr, dlid), 24);
        assert_eq!(size_of::<KernelQpAttr>(), 144);
        assert_eq!(offset_of!(KernelQpAttr, pkey_index), 124);
        assert_eq!(size_of::<KernelPathRec>(), 64);
        assert_eq!(offset_of!(KernelPathRec, preference), 63);
    }

    #[test]
    fn path_records_round_trip() {
        let record = ibv_sa_path_rec {
            dgid: ibv_gid::from_bytes([1; 16]),
            sgid: ibv_gid::from_bytes([2; 16]),
            dlid: 3,
            slid: 4,
            raw_traffic: 1,
            flow_label: 5,
            hop_limit: 6,
            traffic_class: 7,
            reversible: 1,
            numb_path: 8,
            pkey: 0xffff,
            sl: 9,
            mtu_selector: 2,
            mtu: 4,
            rate_selector: 1,
            rate: 10,
            packet_life_time_selector: 2,
            packet_life_time: 11,
            preference: 12,
        };
        let back = ibv_sa_path_rec::from(&KernelPathRec::from(&record));
        assert_eq!(format!("{back:?}"), format!("{record:?}"));
    }
}
