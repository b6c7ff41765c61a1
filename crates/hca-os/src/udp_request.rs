//! UDP sockets for question and answer: waiting for an answer, and answering from the address that
//! was asked: udp(7), ip(7), ipv6(7).

use crate::ancillary::Ancillary;
use crate::errno::{Errno, Result};
use crate::inet::SocketName;
use crate::udp::{Arrived, Udp};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

impl Udp {
    /// Waits for a datagram, or for the network's error for a sent one, no longer than `timeout`.
    /// Takes one of either and returns the datagram's length, or the error.
    ///
    /// # Errors
    /// EAGAIN when nothing arrived; ECONNREFUSED when no socket has the port that was asked
    /// ([`Udp::keep_failures`]), and the network's others.
    pub fn receive_within(&self, buffer: &mut [u8], timeout: Duration) -> Result<usize> {
        let mut wanted = libc::pollfd {
            fd: self.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
        // SAFETY: `wanted` is one valid pollfd.
        unsafe { libc::poll(&mut wanted, 1, milliseconds.try_into().unwrap_or(i32::MAX)) };
        // SAFETY: `buffer` is writable for its length.
        let n = unsafe {
            libc::recv(
                self.as_fd().as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(n).map_err(|_| Errno::last())
    }

    /// Answers a datagram: sends to its source, from the address and the interface that it arrived
    /// at.
    ///
    /// # Errors
    /// The system's, when it cannot be sent.
    pub fn answer(&self, arrived: &Arrived<'_>, bytes: &[u8]) -> Result<()> {
        let name = SocketName::of(arrived.source);
        let mut vector = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = name.pointer().cast_mut().cast();
        message.msg_namelen = name.length;
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        let mut ancillary = Ancillary::new();
        match arrived.destination.to_ipv4_mapped() {
            Some(ip) => {
                let from = libc::in_pktinfo {
                    ipi_ifindex: arrived.interface as libc::c_int,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from_ne_bytes(ip.octets()),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                ancillary.add(libc::IPPROTO_IP, libc::IP_PKTINFO, from);
            }
            None => {
                let from = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: arrived.destination.octets(),
                    },
                    ipi6_ifindex: arrived.interface,
                };
                ancillary.add(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, from);
            }
        }
        ancillary.attach(&mut message);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `message` points to live buffers of the stated lengths.
        let n = unsafe { libc::sendmsg(self.as_fd().as_raw_fd(), &message, flags) };
        if n < 0 { Err(Errno::last()) } else { Ok(()) }
    }
}
