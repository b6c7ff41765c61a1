//! The network interfaces of this network namespace and their addresses: getifaddrs(3), netdevice(7).
//!
//! Asked of the kernel and not read from sysfs, which shows the namespace that it was mounted in.

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
    /// The number by which the kernel knows it.
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
    /// Those of them that nothing can be sent from: the kernel is still looking whether they are somebody else's, too, or
    /// has found that they are (RFC 4862, 5.4).
    pub tentative: Vec<Ipv6Addr>,
}

/// All interfaces, in the kernel's order.
///
/// # Errors
/// The system's, when it has no descriptors or memory left.
pub fn all() -> Result<Vec<Description>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is valid for writing; the list is given back below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(Errno::last());
    }
    let mut found: Vec<Description> = Vec::new();
    let mut at = first;
    // SAFETY: the list is the C library's, well formed, and not given back yet.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: every entry has a name that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let text = name.to_string_lossy().into_owned();
        let place = found.iter().position(|interface| interface.name == text);
        let place = place.unwrap_or_else(|| {
            let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
            found.push(Description {
                name: text,
                // SAFETY: a valid name.
                index: unsafe { libc::if_nametoindex(name.as_ptr()) },
                is_up: has(libc::IFF_UP),
                is_running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
                is_loopback: has(libc::IFF_LOOPBACK),
                hardware: [0; 6],
                mtu: mtu(name).unwrap_or(0),
                addresses: Vec::new(),
                tentative: Vec::new(),
            });
            found.len() - 1
        });
        // SAFETY: an address of the C library's list, of the family that it says.
        unsafe { note(&mut found[place], entry.ifa_addr) };
    }
    // SAFETY: from getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(first) };
    // Where there is no such file, IPv6 or all of /proc is missing. Without the latter an address counts as one that can be
    // used, and who sends from it too early is told so by the kernel.
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    for (index, address) in table.lines().filter_map(tentative) {
        let its = found.iter_mut().find(|one| one.index == index);
        if let Some(its) = its.filter(|one| one.addresses.contains(&address.into())) {
            its.tentative.push(address);
        }
    }
    Ok(found)
}

/// The interface and the address of a line of if_inet6, if nothing can be sent from it. The columns, all in hexadecimal:
/// address, interface, length of the prefix, scope, flags (proc_pid_net(5)); then the name.
fn tentative(line: &str) -> Option<(u32, Ipv6Addr)> {
    let mut columns = line.split_ascii_whitespace();
    let address = u128::from_str_radix(columns.next()?, 16).ok()?;
    let index = u32::from_str_radix(columns.next()?, 16).ok()?;
    let flags = u32::from_str_radix(columns.nth(2)?, 16).ok()?;
    // One that is optimistic can be used while the kernel looks (RFC 4429).
    let is_tentative = flags & libc::IFA_F_TENTATIVE != 0 && flags & libc::IFA_F_OPTIMISTIC == 0;
    is_tentative.then(|| (index, Ipv6Addr::from(address)))
}

/// # Safety
/// `address` is null or a socket address of the family that it says.
unsafe fn note(interface: &mut Description, address: *const libc::sockaddr) {
    // SAFETY: as promised to us; the family says which structure it is.
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
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: just made, owned by nobody else.
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
    // SAFETY: `request` is a valid ifreq with a name that ends with a zero byte.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) };
    // SAFETY: SIOCGIFMTU fills this field.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (answer == 0).then(|| u32::try_from(mtu).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_still_looked_for_is_tentative() {
        let line =
            |flags: &str| format!("fe80000000000000b8cbfffffe2d7a10 0b 40 20 {flags}       d0");
        let address: Ipv6Addr = "fe80::b8cb:ffff:fe2d:7a10".parse().unwrap();
        // Tentative; so, and found to be somebody else's.
        for flags in ["40", "c0", "48", "c8"] {
            assert_eq!(tentative(&line(flags)), Some((11, address)), "{flags}");
        }
        // Permanent; without a search; temporary and optimistic.
        for flags in ["80", "82", "45", "00"] {
            assert_eq!(tentative(&line(flags)), None, "{flags}");
        }
        for broken in ["", "fe80 0b 40 20", "g 0b 40 20 40 d0"] {
            assert_eq!(tentative(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_interface_is_listed_once_with_all_its_addresses() {
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
