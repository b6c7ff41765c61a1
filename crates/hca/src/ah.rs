//! Address handles: ibv_create_ah(3).

use crate::device::{Device, gid_at, port_name};
use crate::fabric::Fabric;
use crate::link;
use crate::roce::adapter::Adapter;
use crate::roce::fallback::thread::learn_reachability;
use crate::roce::path::{self, Path};
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verbena_abi::{ibv_ah_attr, ibv_gid};
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::quota::{self, QuotaShare};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refusal;
use verbena_hca_os::refused;
use verbena_wire::Qpn;

/// The destination of a datagram.
pub struct AddressHandle {
    pd: Arc<Pd>,
    attributes: ibv_ah_attr,
    quota_share: Mutex<Option<QuotaShare>>,
    /// Version of the fabric and number of the interface that it leads to there; 0 for none.
    known_interface: AtomicU64,
}

impl AddressHandle {
    /// Creates a handle for the attributes, at a port of `device`.
    ///
    /// # Errors
    /// EINVAL for a port or source GID that the device does not have, or with Ethernet without a
    /// global route; ENOMEM at the advertised limit.
    pub fn create<A: Adapter>(
        adapter: &Arc<A>,
        device: Device,
        pd: &Arc<Pd>,
        attributes: &ibv_ah_attr,
    ) -> Result<Arc<AddressHandle>> {
        let mut attributes = *attributes;
        attributes.port_num = device.port("ah_attr.port_num", attributes.port_num)?;
        check(&attributes)?;
        let quota_share = quota::ADDRESS_HANDLES.take()?;
        pd.retain();
        probe_path(adapter, &attributes);
        Ok(Arc::new(AddressHandle {
            pd: pd.clone(),
            attributes,
            quota_share: Mutex::new(Some(quota_share)),
            known_interface: AtomicU64::new(0),
        }))
    }

    /// Returns its attributes, with the host's number of the port.
    pub fn attributes(&self) -> &ibv_ah_attr {
        &self.attributes
    }

    /// Returns the number of the interface that it leads to ([`path::interface_towards`]).
    #[inline]
    pub(crate) fn interface(&self) -> u32 {
        match link::fabric() {
            None => path::local_interface_towards(&self.attributes),
            Some(fabric) => self.interface_on(fabric),
        }
    }

    /// As [`AddressHandle::interface`], on a fabric, which is asked once in each of its versions.
    fn interface_on(&self, fabric: &Fabric) -> u32 {
        let version = fabric.version() as u32;
        let known = self.known_interface.load(Ordering::Relaxed);
        if known != 0 && (known >> 32) as u32 == version {
            return known as u32;
        }
        let Some(interface) = fabric.network(&self.attributes) else {
            return path::NOWHERE;
        };
        let known = u64::from(version) << 32 | u64::from(interface);
        self.known_interface.store(known, Ordering::Relaxed);
        interface
    }

    /// Returns whether datagrams carry a global route header.
    pub(crate) fn is_global(&self) -> bool {
        self.attributes.is_global != 0
    }

    pub(crate) fn is_multicast(&self) -> bool {
        self.is_global() && link::group(self.attributes.grh.dgid).is_some()
    }

    /// Ends the handle's life for the application. Work requests may still refer to it.
    pub fn destroy(&self) {
        let mut quota_share = self
            .quota_share
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if quota_share.take().is_some() {
            self.pd.release();
        }
    }
}

/// Over RoCE, probes the path to an unknown host: the loss of a datagram is never reported.
fn probe_path<A: Adapter>(adapter: &Arc<A>, attributes: &ibv_ah_attr) {
    if !path::leads_elsewhere(attributes) {
        return;
    }
    if let Some(port) = adapter.port()
        && let Ok(path) = Path::of(&port.senders, attributes)
    {
        learn_reachability(adapter, &path, Qpn::GSI);
    }
}

/// Checks that the device can send to these attributes. An Ethernet port has no LID, and reaches no
/// destination without a GID.
///
/// # Errors
/// EINVAL for a missing global route with Ethernet, a source GID that the port does not have, and
/// one of another family than the destination group.
pub fn check(attributes: &ibv_ah_attr) -> Result<()> {
    let (port, index) = (attributes.port_num, attributes.grh.sgid_index);
    match (attributes.is_global != 0, link::is_ethernet()) {
        (true, _) => (),
        (false, false) => return Ok(()),
        (false, true) => {
            return Err(refused!(
                EINVAL,
                "ah_attr.is_global is 0: a RoCE port has no LID, so set is_global and grh (dgid, \
                 sgid_index)"
            ));
        }
    }
    match gid_at(port, index.into()) {
        None if !link::is_ethernet() && link::fabric().is_none() => Err(refused!(
            EINVAL,
            "ah_attr.grh.sgid_index is {index}, and {} has one GID, at index 0: {}",
            port_name(port),
            link::ROCE_HINT
        )),
        None => Err(refused!(
            EINVAL,
            "ah_attr.grh.sgid_index is {index}, and the GID table of {} has no GID there: list it \
             with ibv_devinfo -v",
            port_name(port)
        )),
        Some(source) if !reaches(source, attributes) => Err(refused!(
            EINVAL,
            "ah_attr.grh.sgid_index {index} has another family (IPv4, IPv6) than the group in \
             dgid: use a GID of the group's family"
        )),
        Some(_) => {
            notice_roce_address(attributes);
            Ok(())
        }
    }
}

/// Reports, once in a process, a destination that is the address of a RoCE port while the local
/// ports are InfiniBand. No GID of an InfiniBand port has that form, so only a program that made it
/// of an IP address gets here. InfiniBand reaches the queue pair by its number regardless of the
/// GID, so this is no refusal.
fn notice_roce_address(attributes: &ibv_ah_attr) {
    static WAS_REPORTED: AtomicBool = AtomicBool::new(false);
    let address = Ipv6Addr::from(attributes.grh.dgid.bytes());
    if link::is_ethernet() || address.to_ipv4_mapped().is_none() {
        return;
    }
    if !WAS_REPORTED.swap(true, Ordering::Relaxed) {
        refusal::report(format_args!(
            "ah_attr.grh.dgid is {address}, the GID of a RoCE port: {}",
            link::ROCE_HINT
        ));
    }
}

/// Returns whether a packet can go from a GID to the multicast group of the attributes, if they
/// name one: over RoCE both must be IPv4 or both IPv6.
fn reaches(source: ibv_gid, attributes: &ibv_ah_attr) -> bool {
    let is_v4 = |bytes: [u8; 16]| Ipv6Addr::from(bytes).to_ipv4_mapped().is_some();
    match link::group(attributes.grh.dgid) {
        Some(group) => is_v4(group) == is_v4(source.bytes()),
        None => true,
    }
}
