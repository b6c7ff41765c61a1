//! An IP interface of an adapter, as `ip.*` use it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use verbena_fabric::Result;

/// An IP interface that an adapter carries, in one process.
pub struct Interface {
    /// Its mode: `datagram` or `connected` (RFC 4391, RFC 4755), or `ethernet`.
    pub mode: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// An address of it.
    pub address: IpAddr,
    /// Number of processes that carry its packets: none if the kernel does.
    pub carriers: usize,
    /// Makes its sockets.
    pub sockets: Box<dyn Sockets>,
}

/// Makes sockets in the network namespace of an interface.
pub trait Sockets {
    /// Listens for TCP connections.
    ///
    /// # Errors
    ///
    /// The system's.
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener>;

    /// Connects over TCP, within ten seconds.
    ///
    /// # Errors
    ///
    /// The system's.
    fn connect(&self, to: SocketAddr) -> io::Result<TcpStream>;

    /// Binds a socket of UDP.
    ///
    /// # Errors
    ///
    /// The system's.
    fn datagrams(&self, address: SocketAddr) -> io::Result<UdpSocket>;
}

/// Opens the interfaces of the adapter in this process, one of the pair. The number is the same in
/// both, and differs from that of other jobs.
///
/// # Errors
///
/// [`verbena_fabric::Error::Unsupported`] if the adapter carries none that the pair can use;
/// another error if one cannot be made.
pub type Open<'a> = dyn Fn(u32) -> Result<Vec<Interface>> + 'a;
