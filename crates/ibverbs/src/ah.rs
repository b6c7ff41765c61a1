//! Address handles: ibv_create_ah(3), ibv_init_ah_from_wc(3), ibv_create_ah_from_wc(3),
//! ibv_resolve_eth_l2_from_gid.

use std::sync::Arc;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::ah::AddressHandle;
use verbena_hca_net::device::{self, Device};
use verbena_hca_net::link;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::handle::{Handle, Object};
use crate::{arguments, context, outcome, pd};

/// An address handle.
pub struct AhObject {
    ah: Arc<AddressHandle>,
}

impl Object for AhObject {
    type C = ibv_ah;
    const TAG: [u8; 4] = *b"ah  ";
}

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no address handle.
///
/// # Safety
/// `ah` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(ah: *mut ibv_ah) -> Result<&'a Arc<AddressHandle>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<AhObject>::of(ah) }.map(|handle| &handle.object.ah)
}

/// Creates an address handle.
///
/// # Safety
/// `pd` must be null or live; `attributes` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(
    pd: *mut ibv_pd,
    attributes: *mut ibv_ah_attr,
) -> *mut ibv_ah {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_ah", unsafe {
        arguments::input(attributes).and_then(|attributes| create(pd, attributes))
    })
}

unsafe fn create(pd: *mut ibv_pd, attributes: &ibv_ah_attr) -> Result<*mut ibv_ah> {
    // SAFETY: callers promise null or live pointers.
    let (domain, context) = unsafe { (pd::of(pd)?, pd::context_of(pd)) };
    // SAFETY: the context of a live domain is live.
    let adapter = unsafe { &context::of(context)?.object.context };
    let ah = AddressHandle::create(&adapter.process, adapter.device, domain, attributes)?;
    Ok(Handle::create(
        ibv_ah {
            context,
            pd,
            handle: 0,
        },
        AhObject { ah },
    ))
}

/// Destroys an address handle.
///
/// # Safety
/// `ah` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_destroy_ah",
        unsafe { of(ah) }.map(|object| {
            object.destroy();
            // SAFETY: live, and not used again.
            unsafe { Handle::<AhObject>::destroy(ah) };
        }),
    )
}

/// Computes the attributes for a reply to a message. Returns -1 on failure.
///
/// # Safety
/// `context` must be null or live; `wc` null or valid, and `grh` too if the completion has a GRH;
/// `attributes` null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attributes: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_init_ah_from_wc", unsafe {
        context::device(context).and_then(|device| {
            let wc = arguments::input(wc)?;
            let grh = grh.as_ref().filter(|_| wc.wc_flags & IBV_WC_GRH != 0);
            arguments::output(attributes, way_back(device, port, wc, grh)?)
        })
    })
}

/// Creates an address handle for the sender of a message.
///
/// # Safety
/// `pd` must be null or live; `wc` null or valid, and `grh` too if the completion has a GRH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_ah_from_wc", unsafe {
        arguments::input(wc).and_then(|wc| {
            let grh = grh.as_ref().filter(|_| wc.wc_flags & IBV_WC_GRH != 0);
            let device = context::device(pd::context_of(pd))?;
            create(pd, &way_back(device, port, wc, grh)?)
        })
    })
}

/// Returns the attributes with source and destination swapped. Fails if the message was not for a
/// local GID.
fn way_back(device: Device, port: u8, wc: &ibv_wc, grh: Option<&ibv_grh>) -> Result<ibv_ah_attr> {
    /// Sufficient for any route: the hop limit of a received message does not apply to the reply.
    const HOP_LIMIT: u8 = 255;
    let mut attributes = ibv_ah_attr {
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        port_num: port,
        ..Default::default()
    };
    if wc.wc_flags & IBV_WC_GRH != 0 {
        let grh = grh.ok_or_else(|| {
            refused!(
                EINVAL,
                "wc_flags has IBV_WC_GRH, and grh is NULL: give the first 40 bytes of the \
                 receive's buffer"
            )
        })?;
        let (source, destination) = addresses(grh);
        let host_port = device.port("port_num", port)?;
        // A multicast message has the group's GID as its destination; a reply starts at a local
        // GID.
        let own = match link::group(destination) {
            Some(_) => Some(device::index_towards(host_port, source)),
            None => device::index_of(host_port, destination),
        };
        let own = own.ok_or_else(|| {
            refused!(
                EINVAL,
                "the destination GID of the grh is not a GID of port {port}: give the 40 bytes \
                 received with this completion"
            )
        })?;
        // IBA 8.3: version in 4 bits, traffic class in 8, flow label in 20.
        let word = u32::from_be(grh.version_tclass_flow);
        attributes.is_global = 1;
        attributes.grh = ibv_global_route {
            dgid: source,
            flow_label: word & 0x000f_ffff,
            sgid_index: own as u8,
            hop_limit: HOP_LIMIT,
            traffic_class: (word >> 20) as u8,
        };
    }
    Ok(attributes)
}

/// Returns source and destination of a route. Over RoCE the last 20 of the 40 bytes may be an IPv4
/// header (annex A17.4.5.1), whose addresses are returned as mapped ones.
fn addresses(grh: &ibv_grh) -> (ibv_gid, ibv_gid) {
    const VERSION: u32 = 0xf000_0000;
    if u32::from_be(grh.version_tclass_flow) & VERSION == 6 << 28 {
        return (grh.sgid, grh.dgid);
    }
    // The IPv4 header begins 12 bytes after the start of the source GID.
    let bytes = grh.dgid.bytes();
    let mapped = |at: usize| {
        let mut gid = [0; 16];
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&bytes[at..at + 4]);
        ibv_gid::from_bytes(gid)
    };
    (mapped(8), mapped(12))
}

/// Resolves the Ethernet address of a GID: not supported, as there is no Ethernet.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut ibv_context,
    _attributes: *mut ibv_ah_attr,
    _mac: *mut u8,
    _vlan: *mut u16,
) -> c_int {
    let error = refused!(
        EOPNOTSUPP,
        "the adapter sends through the kernel's sockets, which resolve Ethernet addresses \
         themselves"
    );
    outcome::errno_value("ibv_resolve_eth_l2_from_gid", Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_os::errno::Errno;

    const GRH_TO: fn(ibv_gid) -> ibv_grh = |dgid| ibv_grh {
        version_tclass_flow: (6u32 << 28 | 0xab << 20 | 0x12345).to_be(),
        hop_limit: 3,
        sgid: ibv_gid::from_bytes([7; 16]),
        dgid,
        ..ZERO
    };
    const ZERO: ibv_grh = ibv_grh {
        version_tclass_flow: 0,
        paylen: 0,
        next_hdr: 0,
        hop_limit: 0,
        sgid: ibv_gid::from_bytes([0; 16]),
        dgid: ibv_gid::from_bytes([0; 16]),
    };

    #[test]
    fn source_and_destination_are_swapped() {
        let wc = ibv_wc {
            slid: 5,
            sl: 2,
            dlid_path_bits: 1,
            ..Default::default()
        };
        let back = way_back(Device::FIRST, 1, &wc, None).unwrap();
        assert_eq!(
            (back.dlid, back.sl, back.src_path_bits, back.port_num),
            (5, 2, 1, 1)
        );
        assert_eq!(back.is_global, 0);
    }

    #[test]
    fn a_reply_address_reverses_the_grh() {
        let wc = ibv_wc {
            wc_flags: IBV_WC_GRH,
            ..Default::default()
        };
        let back = way_back(Device::FIRST, 1, &wc, Some(&GRH_TO(device::gid(1)))).unwrap();
        assert_eq!(back.is_global, 1);
        assert_eq!(back.grh.dgid.bytes(), [7; 16]);
        assert_eq!(back.grh.flow_label, 0x12345);
        assert_eq!(back.grh.traffic_class, 0xab);
    }

    #[test]
    fn a_message_for_another_gid_has_no_reply_address() {
        let wc = ibv_wc {
            wc_flags: IBV_WC_GRH,
            ..Default::default()
        };
        let other = GRH_TO(ibv_gid::from_bytes([9; 16]));
        assert_eq!(
            way_back(Device::FIRST, 1, &wc, Some(&other)).err(),
            Some(Errno::EINVAL)
        );
        assert_eq!(
            way_back(Device::FIRST, 1, &wc, None).err(),
            Some(Errno::EINVAL)
        );
    }
}
