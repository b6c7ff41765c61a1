//! Multicast groups of IP addresses: rdma_join_multicast(3), rdma_leave_multicast(3).

use super::attributes::QUEUE_KEY;
use super::written::Command;
use crate::abi::{CreateIdAnswer, DatagramParameters, DestroyId, JoinIpMulticast};
use crate::address;
use crate::causes;
use crate::channel::Waiting;
use crate::event::{Event, EventKind, Parameters};
use crate::identifier::Space;
use crate::membership::EVERY_MEMBER;
use crate::path::{Path, mapped};
use crate::state::{Membership, State};
use std::net::{IpAddr, Ipv6Addr};
use verbena_abi::ibv_gid;
use verbena_faults::cm::CmEvent;
use verbena_hca_net::link;
use verbena_hca_os::errno::{Errno, Result};

/// The bit of a P_Key that the addresses of groups always have.
const FULL_MEMBER: u16 = 0x8000;

/// Joins a group.
///
/// # Errors
/// EINVAL if the identifier has no device, or the address is not a group's.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn join(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: JoinIpMulticast = command.read()?;
    let address = address::parse(&wanted.addr)?.ok_or(Errno::EINVAL)?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    let (path, space) = (identifier.path, identifier.space);
    if !identifier.has_device() || !identifier.space.is_datagram() {
        return Err(Errno::EINVAL);
    }
    let mut vector = identifier.path.address_vector();
    let group = match link::is_ethernet() {
        true => roce_mgid(address.ip(), &identifier.path),
        false => mgid_of(address.ip(), identifier.space, identifier.path.pkey()),
    };
    let group = group.ok_or(Errno::EINVAL)?;
    let membership = Membership {
        uid: wanted.uid,
        identifier: wanted.id,
        events_reported: 0,
        administered: None,
    };
    let id = state.groups.insert(membership).ok_or(Errno::ENOMEM)?;
    let answer = CreateIdAnswer { id };
    // SAFETY: the caller promises valid addresses inside the command.
    let answered = unsafe { command.answer(wanted.response, &answer, size_of::<CreateIdAnswer>()) };
    if let Err(error) = answered {
        state.groups.remove(id);
        return Err(error);
    }
    let failure = causes::take(&[CmEvent::MulticastError]);
    if failure.is_none() && link::fabric().is_some() {
        state.begin_membership(id, path, group, space);
        return Ok(());
    }
    vector.dgid = group;
    if !link::is_ethernet() {
        vector.dlid = multicast_lid(&group);
    }
    vector.is_global = 1;
    let joined = DatagramParameters {
        qp_num: EVERY_MEMBER,
        qkey: QUEUE_KEY,
        ah_attr: vector,
        ..Default::default()
    };
    let waiting = Waiting {
        owner: wanted.id,
        group: Some(id),
        request: None,
        event: failure.unwrap_or(Event {
            kind: EventKind::MulticastJoin,
            status: 0,
            parameters: Parameters::Datagram(Box::new(joined)),
        }),
    };
    if let Some(channel) = state.channels.get_mut(&command.channel) {
        channel.push(waiting);
    }
    Ok(())
}

/// Leaves a group.
///
/// # Errors
/// ENOENT if there is no such membership.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn leave(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: DestroyId = command.read()?;
    let membership = state.groups.get(wanted.id).ok_or(Errno::ENOENT)?;
    let (identifier, reported) = (membership.identifier, membership.events_reported);
    state.identifier(command.channel, identifier)?;
    state.remove_membership(wanted.id);
    state.take_events(command.channel, |waiting| waiting.group == Some(wanted.id));
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe { command.answer_reported(wanted.response, reported) }
}

/// Returns the group's MGID over RoCE: the group's address itself (annex A17.9.1), which must have
/// the IP version of the identifier's source address.
fn roce_mgid(group: IpAddr, path: &Path) -> Option<[u8; 16]> {
    let is_v4 = |ip: Ipv6Addr| ip.to_ipv4_mapped().is_some();
    let (source, group) = (Ipv6Addr::from(path.source), mapped(group));
    let named = link::group(ibv_gid::from_bytes(group.octets()))?;
    (is_v4(source) == is_v4(named.into())).then(|| group.octets())
}

/// Returns the group's MGID (RFC 4391, section 4): of an IP group, link-local, in the partition.
/// RDMA_PS_UDP has another signature in the place of IP over InfiniBand's (Linux'
/// `cma_set_mgid`): subnet managers take groups with the latter for those of IP links. An IPv6
/// address that is an MGID already stays as it is.
fn mgid_of(group: IpAddr, space: Space, pkey: u16) -> Option<[u8; 16]> {
    let mut mgid = [0; 16];
    mgid[..2].copy_from_slice(&[0xff, 0x12]);
    mgid[4..6].copy_from_slice(&(pkey | FULL_MEMBER).to_be_bytes());
    match group {
        IpAddr::V4(v4) if v4.is_multicast() => {
            mgid[2..4].copy_from_slice(&[0x40, 0x1b]);
            mgid[12..].copy_from_slice(&v4.octets());
            mgid[12] &= 0x0f;
        }
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            let native = octets[0] == 0xff && octets[2..4] == [0xa0, 0x1b];
            if native {
                return Some(octets);
            }
            if !v6.is_multicast() {
                return None;
            }
            mgid[2..4].copy_from_slice(&[0x60, 0x1b]);
            mgid[6..].copy_from_slice(&octets[6..]);
        }
        IpAddr::V4(_) => return None,
    }
    if space == Space::Udp {
        mgid[3] = 0x01;
    }
    Some(mgid)
}

/// Returns a multicast LID for the group. Groups are distinguished by their MGIDs, so any one will
/// do.
fn multicast_lid(group: &[u8; 16]) -> u16 {
    const FIRST: u16 = 0xc000;
    let spread = group.iter().fold(0_u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u16::from(*byte))
    });
    FIRST + spread % 0x3ffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_group_becomes_an_infiniband_group() {
        let of = |text: &str, space| mgid_of(text.parse().unwrap(), space, 0x7fff);
        let mut expected = [0; 16];
        expected[..6].copy_from_slice(&[0xff, 0x12, 0x40, 0x1b, 0xff, 0xff]);
        expected[12..].copy_from_slice(&[0, 1, 2, 3]);
        assert_eq!(of("224.1.2.3", Space::Ipoib), Some(expected));
        expected[3] = 0x01;
        assert_eq!(of("224.1.2.3", Space::Udp), Some(expected));
        assert_eq!(of("127.0.0.1", Space::Udp), None);
        assert_eq!(of("::1", Space::Udp), None);
        let native = "ff12:a01b:ffff::7".parse::<std::net::Ipv6Addr>().unwrap();
        assert_eq!(of("ff12:a01b:ffff::7", Space::Udp), Some(native.octets()));
    }

    #[test]
    fn group_lids_are_in_the_multicast_range() {
        for byte in 0..=255 {
            let local = multicast_lid(&[byte; 16]);
            assert!((0xc000..0xffff).contains(&local));
        }
    }
}
