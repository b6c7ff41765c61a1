//! The network interface of a hardware adapter's port: `ib0` of IP over InfiniBand, or the Ethernet
//! interface of a RoCE adapter, as the kernel lists it in sysfs.

use crate::host::Host;
use crate::resolved::{Port, Resolved};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use verbena_fabric::{Error, Result};
use verbena_workloads::ip_interface::{Interface, Sockets};

/// Time limit of a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// Sockets of this process's own network namespace.
struct Own;

impl Sockets for Own {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address)
    }

    fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&to, CONNECTING)
    }

    fn datagrams(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind(address)
    }
}

/// Returns the interface of the target's first port.
pub fn open(host: &dyn Host, target: &Resolved) -> Result<Vec<Interface>> {
    let port = target.ports.first();
    let port = port.ok_or_else(|| Error::invalid("ip", "the adapter has no port"))?;
    let found = find(Path::new("/sys/class/infiniband"), port)
        .map_err(|error| Error::adapter("finding its IP interface", error.to_string()))?;
    let found = found.ok_or_else(|| {
        Error::unsupported("ip.* (its port has no IP interface)", port.to_string())
    })?;
    let addresses = host.interface_addresses(&found.name).map_err(|error| {
        Error::adapter(
            "asking for the addresses of its interface",
            error.to_string(),
        )
    })?;
    let address = preferred(&addresses).ok_or_else(|| {
        let what = format!("ip.* ({} has no address)", found.name);
        Error::unsupported(what, port.to_string())
    })?;
    Ok(vec![Interface {
        mode: found.mode,
        mtu: found.mtu,
        address,
        carriers: 0,
        sockets: Box::new(Own),
    }])
}

/// Returns the first IPv4 address, else the first IPv6 address that needs no interface beside it.
fn preferred(addresses: &[IpAddr]) -> Option<IpAddr> {
    let is_routed = |address: &&IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let first = addresses.iter().find(|address| address.is_ipv4());
    first.or_else(|| addresses.iter().find(is_routed)).copied()
}

#[derive(Debug, PartialEq)]
struct Found {
    name: String,
    mode: String,
    mtu: u32,
}

/// Hardware types of interfaces (linux/if_arp.h).
const ETHERNET: &str = "1";
const INFINIBAND: &str = "32";

/// Finds the interface of a port below `devices` (/sys/class/infiniband): each interface of a
/// device is in its `device/net`, with the port, counted from 0, in `dev_port`. An interface for a
/// partition has the same port; the one whose name sorts first counts.
fn find(devices: &Path, port: &Port) -> io::Result<Option<Found>> {
    let directory = devices.join(&port.device).join("device/net");
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        let read =
            |file: &str| fs::read_to_string(path.join(file)).map(|text| text.trim().to_owned());
        if read("dev_port")? != (port.number.max(1) - 1).to_string() {
            continue;
        }
        let mode = match read("type")?.as_str() {
            ETHERNET => "ethernet".to_owned(),
            INFINIBAND => read("mode")?,
            _ => continue,
        };
        let wrong = |_| io::Error::other("the MTU of the interface is not a number");
        let name = path.file_name().unwrap_or_default();
        return Ok(Some(Found {
            name: name.to_string_lossy().into_owned(),
            mode,
            mtu: read("mtu")?.parse().map_err(wrong)?,
        }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, number: u8) -> Port {
        Port {
            device: device.to_owned(),
            number,
        }
    }

    #[test]
    fn the_interface_of_a_port_is_found_as_the_kernel_lists_it() {
        let root = std::env::temp_dir().join(format!("verbena-ip-{}", std::process::id()));
        let write = |interface: &str, files: &[(&str, &str)]| {
            let directory = root.join(interface);
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in files {
                fs::write(directory.join(name), format!("{text}\n")).unwrap();
            }
        };
        let port_0 = [
            ("dev_port", "0"),
            ("type", "32"),
            ("mode", "connected"),
            ("mtu", "65520"),
        ];
        write("mlx4_0/device/net/ib0", &port_0);
        write("mlx4_0/device/net/ib0.8001", &port_0);
        let port_1 = [
            ("dev_port", "1"),
            ("type", "32"),
            ("mode", "datagram"),
            ("mtu", "2044"),
        ];
        write("mlx4_0/device/net/ib1", &port_1);
        write(
            "mlx5_1/device/net/eth4",
            &[("dev_port", "0"), ("type", "1"), ("mtu", "9000")],
        );
        fs::create_dir_all(root.join("rxe0")).unwrap();
        let found = |device: &str, number| find(&root, &port(device, number)).unwrap();
        let expected = |name: &str, mode: &str, mtu| {
            let (name, mode) = (name.to_owned(), mode.to_owned());
            Some(Found { name, mode, mtu })
        };
        assert_eq!(found("mlx4_0", 1), expected("ib0", "connected", 65_520));
        assert_eq!(found("mlx4_0", 2), expected("ib1", "datagram", 2044));
        assert_eq!(found("mlx5_1", 1), expected("eth4", "ethernet", 9000));
        assert_eq!(found("mlx5_1", 2), None);
        assert_eq!(found("rxe0", 1), None);
        fs::write(root.join("mlx5_1/device/net/eth4/mtu"), "many").unwrap();
        assert!(find(&root, &port("mlx5_1", 1)).is_err());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn an_address_that_needs_an_interface_is_not_used() {
        let all = ["fe80::1", "fd00::1", "10.0.0.1"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(preferred(&all), Some(all[2]));
        assert_eq!(preferred(&all[..2]), Some(all[1]));
        assert_eq!(preferred(&all[..1]), None);
    }
}
