//! TUN devices: `Documentation/networking/tuntap.rst` of Linux.
#![allow(unsafe_code, reason = "the device's ioctls")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl, opcode};

/// The device node.
pub const NODE: &str = "/dev/net/tun";
/// Longest name of an interface in bytes.
pub const LONGEST_NAME: usize = 15;

const SET_INTERFACE: Opcode = opcode::write::<i32>(b'T', 202);
const SET_LINK: Opcode = opcode::write::<i32>(b'T', 205);
const SET_OFFLOADS: Opcode = opcode::write::<u32>(b'T', 208);
/// A device with IP packets, behind headers of `crate::offload`.
const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
/// Partial checksums, and long packets of TCP over IPv4 and IPv6, also with ECN.
const OFFLOADS: usize = 0x01 | 0x02 | 0x04 | 0x08;
/// Long packets of UDP, which Linux has since 6.2.
const UDP_OFFLOADS: usize = 0x20 | 0x40;
/// Type of InfiniBand interfaces (ARPHRD_INFINIBAND).
const INFINIBAND: usize = 32;

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// Opens the device node.
///
/// # Errors
///
/// The system's.
pub fn open() -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags);
    options.open(NODE)
}

/// Makes the open node the interface of this name, with InfiniBand's type, in the network namespace
/// of this process.
///
/// # Errors
///
/// The system's.
pub fn make_interface(node: impl AsFd, name: &str) -> io::Result<()> {
    let mut request = Request {
        name: [0; 16],
        flags: IFF_TUN | IFF_NO_PI | IFF_VNET_HDR,
        rest: [0; 22],
    };
    let bytes = name.as_bytes();
    let bytes = bytes.get(..LONGEST_NAME).unwrap_or(bytes);
    request.name[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: TUNSETIFF takes a pointer to a `struct ifreq`, which has this size and layout, and
    // keeps nothing of it.
    unsafe { ioctl(&node, Setter::<SET_INTERFACE, Request>::new(request)) }?;
    // SAFETY: TUNSETLINK takes a number in place of a pointer.
    unsafe { ioctl(&node, IntegerSetter::<SET_LINK>::new_usize(INFINIBAND)) }?;
    let set_offloads = |offloads: usize| {
        // SAFETY: TUNSETOFFLOAD takes a number in place of a pointer.
        unsafe { ioctl(&node, IntegerSetter::<SET_OFFLOADS>::new_usize(offloads)) }
    };
    set_offloads(OFFLOADS | UDP_OFFLOADS).or_else(|_| set_offloads(OFFLOADS))?;
    Ok(())
}
