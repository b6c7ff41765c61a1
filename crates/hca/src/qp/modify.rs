//! Changing and querying attributes.

use super::{Qp, check, ports, transition};
use crate::device;
use crate::link;
use crate::roce::path::{Path, interface_towards};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_abi::*;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;
use verbena_hca_shm::context_table::Interfaces;

impl Qp {
    /// Changes state and attributes: all of `mask` or none. On return, peers have stopped any
    /// access that the queue pair no longer allows.
    ///
    /// # Errors
    /// EINVAL as in ibv_modify_qp(3). For a peer on another host also EADDRNOTAVAIL for a source
    /// GID that is not an address (any more), and ENETDOWN if the RoCE port could not be opened.
    pub fn modify(self: &Arc<Qp>, new: &ibv_qp_attr, mask: c_int) -> Result<()> {
        if mask & IBV_QP_STATE != 0 {
            self.complete_acknowledged_before(new.qp_state);
        }
        {
            let mut attributes = self.lock_attributes();
            let from = self.state();
            if mask & IBV_QP_CUR_STATE != 0 && new.cur_qp_state != from {
                return Err(refused!(
                    EINVAL,
                    "cur_qp_state is {}, and the queue pair is in {}",
                    transition::state_name(new.cur_qp_state),
                    transition::state_name(from)
                ));
            }
            let to = if mask & IBV_QP_STATE != 0 {
                new.qp_state
            } else {
                from
            };
            transition::check(self.kind, from, to, mask)?;
            let new = &ports::of_host(self.device, new, mask)?;
            let joined = || self.process.groups.port_of(self.number);
            check::port(&attributes, new, mask, joined)?;
            check::values(new, mask)?;
            let path = self.path_of_packets(new, from, to)?;
            self.answer_before(to);
            let allowed = attributes.qp_access_flags;
            if to == IBV_QPS_RESET {
                *attributes = ibv_qp_attr {
                    cap: self.cap,
                    ..ibv_qp_attr::default()
                };
            } else {
                take(&mut attributes, new, mask);
            }
            let revokes = allowed & !attributes.qp_access_flags != 0;
            self.apply(&attributes, from, to, mask, path);
            let ends = matches!(to, IBV_QPS_RESET | IBV_QPS_ERR);
            let fences = ends && from != IBV_QPS_RESET || revokes;
            if fences && !planted::is(Bug::ModifyFence) {
                self.memory.fence();
            }
        }
        if matches!(self.kind, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND)
            && mask & IBV_QP_DEST_QPN != 0
            && !self.goes_by_packets()
        {
            self.connect_to_peer();
        }
        Ok(())
    }

    fn apply(
        self: &Arc<Qp>,
        attributes: &ibv_qp_attr,
        from: ibv_qp_state,
        to: ibv_qp_state,
        mask: c_int,
        path: Option<Path>,
    ) {
        let mut send = self.lock_send();
        if matches!(to, IBV_QPS_ERR | IBV_QPS_RESET) {
            self.execute_soon(&mut send);
        }
        match to {
            IBV_QPS_ERR => {
                self.enter_error(&mut send);
                return;
            }
            IBV_QPS_RESET => {
                self.reset(&mut send);
                self.show_attributes(attributes, send.interfaces);
                send.configure(attributes);
                return;
            }
            _ => (),
        }
        send.configure(attributes);
        if mask & IBV_QP_AV != 0 {
            send.interfaces = Interfaces {
                own: link::interface_number(attributes.port_num),
                peer: interface_towards(&attributes.ah_attr),
            };
            let index = send.posted();
            send.begin_counting(&attributes.ah_attr, index);
            self.meet_peer(&mut send, attributes.dest_qp_num, &attributes.ah_attr);
        }
        if mask & IBV_QP_SQ_PSN != 0 {
            send.set_psn(attributes.sq_psn);
        }
        {
            let mut receive = self.lock_receive();
            receive.qkey = attributes.qkey;
            receive.port = attributes.port_num;
            receive.rnr_timer = attributes.min_rnr_timer;
            receive.mtu = send.mtu;
        }
        self.show_attributes(attributes, send.interfaces);
        self.prepare_packets(&mut send, attributes, to, path);
        self.set_state(&mut send, to);
        if to == IBV_QPS_SQD && from == IBV_QPS_RTS {
            send.set_notify_drained(attributes.en_sqd_async_notify != 0);
            self.check_drained(&mut send);
        }
        if to == IBV_QPS_RTS && matches!(from, IBV_QPS_SQD | IBV_QPS_SQE) {
            self.transmit(&mut send);
        }
    }

    /// Publishes the attributes that peers need, before the state permits peers to act on them.
    pub(super) fn show_attributes(&self, attributes: &ibv_qp_attr, interfaces: Interfaces) {
        let record = self.memory.contexts().queue_pair(self.number);
        let xrcd = self.xrcd.as_ref().map_or(0, |xrcd| xrcd.identity());
        record
            .destination
            .store(attributes.dest_qp_num, Ordering::Relaxed);
        record.pd.store(self.pd_number(), Ordering::Relaxed);
        record
            .access
            .store(attributes.qp_access_flags, Ordering::SeqCst);
        record
            .receive_psn
            .store(attributes.rq_psn, Ordering::Relaxed);
        record
            .rd_atomic
            .store(attributes.max_dest_rd_atomic.into(), Ordering::Relaxed);
        record
            .rnr_timer
            .store(attributes.min_rnr_timer.into(), Ordering::Relaxed);
        record
            .incarnation
            .store(self.incarnation(), Ordering::Relaxed);
        record.xrcd.store(xrcd, Ordering::Relaxed);
        let p_key = device::pkey(attributes.port_num, attributes.pkey_index);
        record.p_key.store(p_key.into(), Ordering::Relaxed);
        record
            .interfaces
            .store(interfaces.as_word(), Ordering::Relaxed);
        record.change_gate();
    }

    /// Returns the current attributes.
    pub fn query(&self) -> ibv_qp_attr {
        let mut attributes = *self.lock_attributes();
        attributes.qp_state = self.state();
        attributes.cur_qp_state = attributes.qp_state;
        attributes.cap = self.cap;
        let send = self.lock_send();
        attributes.sq_draining = u8::from(attributes.qp_state == IBV_QPS_SQD && !send.is_drained());
        ports::of_device(attributes)
    }
}

fn take(attributes: &mut ibv_qp_attr, new: &ibv_qp_attr, mask: c_int) {
    macro_rules! take {
        ($($bit:ident => $($field:ident),+;)*) => {
            $(if mask & $bit != 0 { $(attributes.$field = new.$field;)+ })*
        };
    }
    take! {
        IBV_QP_EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
        IBV_QP_ACCESS_FLAGS => qp_access_flags;
        IBV_QP_PKEY_INDEX => pkey_index;
        IBV_QP_PORT => port_num;
        IBV_QP_QKEY => qkey;
        IBV_QP_AV => ah_attr;
        IBV_QP_PATH_MTU => path_mtu;
        IBV_QP_TIMEOUT => timeout;
        IBV_QP_RETRY_CNT => retry_cnt;
        IBV_QP_RNR_RETRY => rnr_retry;
        IBV_QP_MAX_QP_RD_ATOMIC => max_rd_atomic;
        IBV_QP_ALT_PATH => alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout;
        IBV_QP_MIN_RNR_TIMER => min_rnr_timer;
        IBV_QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
        IBV_QP_PATH_MIG_STATE => path_mig_state;
        IBV_QP_RATE_LIMIT => rate_limit;
    }
    // 24-bit numbers: higher bits are not part of the attribute.
    if mask & IBV_QP_RQ_PSN != 0 {
        attributes.rq_psn = new.rq_psn & 0xff_ffff;
    }
    if mask & IBV_QP_SQ_PSN != 0 {
        attributes.sq_psn = new.sq_psn & 0xff_ffff;
    }
    if mask & IBV_QP_DEST_QPN != 0 {
        attributes.dest_qp_num = new.dest_qp_num & 0xff_ffff;
    }
}
