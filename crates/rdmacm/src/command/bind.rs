//! Address and route resolution: rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3).

use super::written::Command;
use crate::abi::{BindIp, ResolveIp, ResolveRoute};
use crate::address;
use crate::alarm::Alarm;
use crate::causes;
use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind};
use crate::hosts::Hosts;
use crate::path::{Path, mapped};
use crate::port::{PortRequest, Ports};
use crate::state::State;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use verbena_abi::ibv_gid;
use verbena_faults::cm::CmEvent;
use verbena_hca_net::link;
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refusal::{self, keep_reason};
use verbena_hca_os::refused;

/// Binds an identifier to an address and port.
///
/// # Errors
/// EADDRNOTAVAIL if the address is not this host's; EADDRNOTAVAIL or EADDRINUSE if the port is
/// taken ([`crate::port`]); EAFNOSUPPORT.
pub fn bind(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: BindIp = command.read()?;
    let address = address::parse(&wanted.addr)?.ok_or(Errno(libc::EAFNOSUPPORT))?;
    state.identifier(command.channel, wanted.id)?;
    bind_to(state, wanted.id, address)
}

/// Binds identifier `number`, as [`bind`] does.
///
/// # Errors
/// Those of [`bind`]; EINVAL if it has an address.
pub fn bind_to(state: &mut State, number: u32, address: SocketAddr) -> Result<()> {
    let State {
        identifiers,
        hosts,
        ports,
        ..
    } = state;
    let identifier = identifiers.get_mut(number).ok_or(Errno::ENOENT)?;
    if identifier.state != ConnectionState::Idle {
        return Err(refused!(
            EINVAL,
            "the identifier already has an address: bind once, before anything else"
        ));
    }
    if !address.ip().is_unspecified() && !address::is_ours(address) {
        return Err(keep_reason(
            Errno(libc::EADDRNOTAVAIL),
            format_args!(
                "{} is not an address of this host: list them with `ip address`",
                address.ip()
            ),
        ));
    }
    // The interface may have ended.
    let path = match address.ip().is_unspecified() {
        true => None,
        false => Some(reached(hosts, address, address).map_err(|_| Errno(libc::EADDRNOTAVAIL))?),
    };
    if identifier.options.reuse_address && address.port() != 0 {
        // The port is reserved when it listens; until then others may have it too.
        identifier.source = Some(address);
    } else {
        let (port, address) = ports
            .reserve(
                identifier.space.number(),
                PortRequest::new(address, identifier.options.family_only),
            )
            .map_err(|error| {
                keep_reason(
                    error,
                    format_args!("port {}: it is in use, or not permitted", address.port()),
                )
            })?;
        identifier.port = Some(port);
        identifier.source = Some(address);
    }
    if let Some(path) = path {
        identifier.path = path;
    }
    identifier.state = ConnectionState::Bound;
    Ok(())
}

/// Longest wait for an interface with the address to resolve, and the time between two attempts, in
/// nanoseconds.
const LONGEST_RESOLUTION: u64 = 3_000_000_000;
const BETWEEN_ATTEMPTS: u64 = 10_000_000;

/// Finds the device towards an address. Every address of this host belongs to the device; another
/// host's does over RoCE, if its route starts at a port, and over InfiniBand if it is that of an
/// interface ([`Hosts::reach`]). An address that is unreachable is reported by an event.
///
/// # Errors
/// EINVAL in any state but the first two.
pub fn resolve(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: ResolveIp = command.read()?;
    let source = address::parse(&wanted.src_addr)?;
    let destination = address::parse(&wanted.dst_addr)?.ok_or(Errno(libc::EAFNOSUPPORT))?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    match (identifier.state, source) {
        (ConnectionState::Idle, Some(source)) if source.port() != 0 => {
            bind_to(state, wanted.id, source)?
        }
        (ConnectionState::Idle, source) => {
            // No peer connects to this port, so it need not be reserved.
            let source = source.unwrap_or(address::ANY);
            identifier.source = Some(address::with_port(source, Ports::ephemeral()));
            identifier.state = ConnectionState::Bound;
        }
        (ConnectionState::Bound, _) => (),
        _ => {
            return Err(refused!(
                EINVAL,
                "the identifier already has a destination, or listens: create another one"
            ));
        }
    }
    if let Some(event) = causes::take(&[CmEvent::AddressError]) {
        state.raise(wanted.id, event);
        return Ok(());
    }
    let limit = u64::from(wanted.timeout_ms).saturating_mul(1_000_000);
    let identifier = state.identifier(command.channel, wanted.id)?;
    identifier.destination = Some(destination);
    identifier.state = ConnectionState::Resolving;
    resolve_again(
        state,
        wanted.id,
        clock::now() + limit.min(LONGEST_RESOLUTION),
    );
    Ok(())
}

/// Resolves the destination of an identifier, and raises the event. If only an interface can have
/// the address and none has, tries again until `deadline`: programs start together, and address
/// resolution over a network repeats its requests too.
pub fn resolve_again(state: &mut State, number: u32, deadline: u64) {
    let Some(identifier) = state.identifiers.get_mut(number) else {
        return;
    };
    let (bound, generation) = (identifier.source_or_any(), identifier.generation);
    let (Some(destination), ConnectionState::Resolving) =
        (identifier.destination, identifier.state)
    else {
        return;
    };
    let now = clock::now();
    let event = match route(&state.hosts, bound, destination) {
        Ok((source, destination, path)) => {
            identifier.path = path;
            identifier.source = Some(address::with_port(source, bound.port()));
            identifier.destination = Some(destination);
            identifier.state = ConnectionState::AddressResolved;
            Event::plain(EventKind::AddrResolved, 0)
        }
        Err(Errno(libc::EHOSTUNREACH)) if state.hosts.has_interface() && now < deadline => {
            let alarm = Alarm::Resolution(number, generation, deadline);
            if state.set_alarm(deadline.min(now + BETWEEN_ATTEMPTS), alarm) {
                return;
            }
            fail(state, number, destination, Errno::ENOMEM)
        }
        Err(error) => fail(state, number, destination, error),
    };
    state.raise(number, event);
}

/// Ends the resolution of an address that is not reached, and returns the event.
fn fail(state: &mut State, number: u32, destination: SocketAddr, error: Errno) -> Event {
    if let Some(identifier) = state.identifiers.get_mut(number) {
        identifier.destination = None;
        identifier.state = ConnectionState::Bound;
    }
    report_unreachable(&state.hosts, destination, error);
    Event::plain(EventKind::AddrError, -error.0)
}

fn report_unreachable(hosts: &Hosts, destination: SocketAddr, error: Errno) {
    let (rule, advice) = match link::is_ethernet() {
        true => (
            "it must be reached through",
            "one of the interfaces of --interface",
        ),
        false if hosts.has_interface() => (
            "no interface of this partition on this machine has it;",
            "start one with `verbena ipoib`",
        ),
        false => ("it must be this host's, for", link::ROCE_HINT),
    };
    let (rule, advice) = match error {
        Errno(libc::ENETDOWN) => ("a port was taken down; take it up by", "`verbena port`"),
        _ => (rule, advice),
    };
    refusal::report(format_args!(
        "rdma_resolve_addr: RDMA_CM_EVENT_ADDR_ERROR: no route to {} through the device: {error}; \
         {rule} {advice}",
        destination.ip()
    ));
}

/// Returns source and destination address of the path from `bound` to `destination`, and the path.
fn route(
    hosts: &Hosts,
    bound: SocketAddr,
    destination: SocketAddr,
) -> Result<(SocketAddr, SocketAddr, Path)> {
    // The wildcard as a destination is the host itself, as with IP sockets; a group is reached
    // through the device too.
    let mut destination = destination;
    if destination.ip().is_unspecified() {
        destination.set_ip(match destination {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let is_group = destination.ip().is_multicast();
    let source = if !bound.ip().is_unspecified() {
        bound
    } else if is_group && link::is_ethernet() {
        source_towards_group(destination)?
    } else {
        address::source_towards(destination)?
    };
    let path = match link::is_ethernet() {
        _ if !is_group && address::is_ours(destination) => reached(hosts, source, destination)?,
        true => Path::remote(source, destination)?,
        false if is_group => reached(hosts, source, source)?,
        false if hosts.has_interface() => reached(hosts, source, destination)?,
        false => return Err(Errno(libc::EHOSTUNREACH)),
    };
    if path.is_down() {
        return Err(Errno(libc::ENETDOWN));
    }
    Ok((source, destination, path))
}

/// Returns the path to an address of this host or one that its interface reaches.
fn reached(hosts: &Hosts, source: SocketAddr, destination: SocketAddr) -> Result<Path> {
    let path = hosts.reach(source, destination).map(|(path, _)| path);
    path.ok_or(Errno(libc::EHOSTUNREACH))
}

/// Returns the port address to send from towards a group: the routing table's if it names a port,
/// else the first port that can reach the group, as few routing tables have entries for groups.
fn source_towards_group(group: SocketAddr) -> Result<SocketAddr> {
    let gid_of = |ip| ibv_gid::from_bytes(mapped(ip).octets());
    if let Ok(source) = address::source_towards(group)
        && link::locate_gid(gid_of(source.ip())).is_some()
    {
        return Ok(source);
    }
    let towards = gid_of(group.ip());
    let gid = link::interfaces().find_map(|(_, interface)| {
        let entry = interface.entry(interface.index_towards(towards)?)?;
        Some(entry.gid)
    });
    let gid = gid.ok_or(Errno(libc::ENETUNREACH))?;
    let ip = IpAddr::from(Ipv6Addr::from(gid.bytes())).to_canonical();
    Ok(SocketAddr::new(ip, 0))
}

/// Resolves the route. There is one, and it is known.
///
/// # Errors
/// EINVAL before there is a destination.
pub fn resolve_route(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: ResolveRoute = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if identifier.state != ConnectionState::AddressResolved {
        return Err(refused!(
            EINVAL,
            "there is no destination yet: wait for RDMA_CM_EVENT_ADDR_RESOLVED"
        ));
    }
    let event = match causes::take(&[CmEvent::RouteError]) {
        Some(error) => error,
        None => {
            identifier.state = ConnectionState::RouteResolved;
            Event::plain(EventKind::RouteResolved, 0)
        }
    };
    state.raise(wanted.id, event);
    Ok(())
}
