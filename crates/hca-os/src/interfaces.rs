//! The network interfaces of this network namespace and their addresses: getifaddrs(3),
//! netdevice(7).
//!
//! By system calls and not from sysfs, which shows the namespace in which it was mounted.

use crate::errno::{Errno, Result};
use std::ffi::CStr;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// The kernel's index of it.
    pub index: u32,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it has a carrier, too (IFF_RUNNING).
    pub is_running: bool,
    /// Whether it leads to this host alone.
    pub is_loopback: bool,
    /// Its hardware address; zeros if it has none.
    pub hardware: [u8; 6],
    /// Bytes of the longest packet, from the IP header on.
    pub mtu: u32,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<IpAddr>,
}

/// Returns all interfaces, in the kernel's order.
///
/// # Errors
/// The system's, when it has no descriptors or memory left.
pub fn all() -> Result<Vec<Description>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is valid for writing; the list is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(Errno::last());
    }
    let mut found: Vec<Description> = Vec::new();
    let mut at = first;
    // SAFETY: the list is the C library's, well formed, and not freed yet.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: every entry has a terminated name.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let text = name.to_string_lossy().into_owned();
        let place = found.iter().position(|interface| interface.name == text);
        let place = place.unwrap_or_else(|| {
            let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
            found.push(Description {
                name: text,
                // SAFETY: a terminated name.
                index: unsafe { libc::if_nametoindex(name.as_ptr()) },
                is_up: has(libc::IFF_UP),
                is_running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
                is_loopback: has(libc::IFF_LOOPBACK),
                hardware: [0; 6],
                mtu: mtu(name).unwrap_or(0),
                addresses: Vec::new(),
            });
            found.len() - 1
        });
        // SAFETY: an address of the C library's list, of the family that it says.
        unsafe { note(&mut found[place], entry.ifa_addr) };
    }
    // SAFETY: from getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Adds an address to the description.
///
/// # Safety
/// `address` is null or a socket address of the family that it says.
unsafe fn note(interface: &mut Description, address: *const libc::sockaddr) {
    // SAFETY: the caller promises null or a socket address; its family determines the structure.
    unsafe {
        let Some(generic) = address.as_ref() else {
            return;
        };
        match i32::from(generic.sa_family) {
            libc::AF_INET => {
                let address = &*address.cast::<libc::sockaddr_in>();
                let octets = address.sin_addr.s_addr.to_ne_bytes();
                interface.addresses.push(Ipv4Addr::from(octets).into());
            }
            libc::AF_INET6 => {
                let address = &*address.cast::<libc::sockaddr_in6>();
                let octets = address.sin6_addr.s6_addr;
                interface.addresses.push(Ipv6Addr::from(octets).into());
            }
            libc::AF_PACKET => {
                let address = &*address.cast::<libc::sockaddr_ll>();
                if usize::from(address.sll_halen) == interface.hardware.len() {
                    interface.hardware.copy_from_slice(&address.sll_addr[..6]);
                }
            }
            _ => (),
        }
    }
}

fn mtu(name: &CStr) -> Option<u32> {
    // SAFETY: the call takes no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: socket(2) just returned this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: `request` is a valid ifreq with a terminated name.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) };
    // SAFETY: SIOCGIFMTU fills this field.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (answer == 0).then(|| u32::try_from(mtu).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_is_listed_once_with_all_addresses() {
        let all = all().unwrap();
        let mut names: Vec<_> = all.iter().map(|one| one.name.clone()).collect();
        names.sort();
        let listed = names.len();
        names.dedup();
        assert_eq!(names.len(), listed);
        for interface in all.iter().filter(|one| one.is_loopback) {
            assert!(interface.index > 0);
            assert!(interface.mtu > 0);
            assert!(interface.addresses.iter().all(IpAddr::is_loopback));
        }
    }
}
