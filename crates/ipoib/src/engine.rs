//! The process of an interface: moves packets between its TUN device and the adapter.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use verbena_verbs::{Gid, Library, WorkCompletion};

use crate::adapter::{Adapter, BATCH, Failure as AdapterFailure, PARTITION};
use crate::address::{Prefixed, link_local};
use crate::counters::Counters;
use crate::descriptor;
use crate::encapsulation::Protocol;
use crate::group;
use crate::join::Joiner;
use crate::membership;
use crate::namespace::{IPV6_MTU, Plan};
use crate::neighbour::Neighbour;
use crate::netlink::{Changes, Netlink};
use crate::offload;
use crate::segment::Segments;
use crate::station::{Interface, Link, Sent, Source, Station};
use crate::unacknowledged::{self, Unacknowledged};

/// Packets taken from the device before the adapter's completions are looked at.
const TURN: usize = 64;
/// Bytes of the longest packet, with a header.
const LONGEST: usize = offload::LENGTH + (1 << 16);
/// Most distant destinations whose neighbours are known.
const MOST_NEXT_HOPS: usize = 1024;
/// Most groups of an interface.
const MOST_GROUPS: usize = 1024;
/// Milliseconds between looks at neighbours that have not answered, at a busy link, and at unused
/// entries.
const WAITING: i64 = 100;
const BUSY: i64 = 1;
const IDLE: i64 = 60_000;
/// Milliseconds between looks at unsent packets after the command has ended.
const ENDING: i64 = 10;
/// Longest time in milliseconds for which TCP data that a command has left is sent, and for which
/// other packets are.
const LONGEST_FOR_DATA: u64 = 5_000;
const LONGEST_FOR_PACKETS: u64 = 1_000;

/// The reason why an interface ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter cannot be used.
    #[error(transparent)]
    Adapter(#[from] AdapterFailure),

    /// The MTU of the port is too small for IPv6.
    #[error(
        "the interface's MTU is {mtu}, and IPv6 needs {IPV6_MTU}; give it IPv4 addresses only, or \
         a port with a larger MTU"
    )]
    SmallMtu {
        /// The MTU of the interface.
        mtu: u32,
    },

    /// The adapter refuses the groups that every interface is a member of.
    #[error("the adapter refuses multicast groups; `VERBENA_LOG=info` explains it")]
    NoGroups,

    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> Failure {
    move |source| Failure::System { doing, source }
}

/// An interface before its namespace exists.
pub struct Engine {
    adapter: Adapter,
    plan: Plan,
}

impl Engine {
    /// Opens the adapter for an interface of this name and these addresses.
    ///
    /// # Errors
    ///
    /// The adapter cannot be used, or the addresses do not fit its MTU.
    pub fn open(library: &Path, name: &str, addresses: &[Prefixed]) -> Result<Engine, Failure> {
        let library = Library::open(library).map_err(AdapterFailure::from)?;
        let adapter = Adapter::open(&library)?;
        let (mtu, hardware) = (adapter.mtu(), adapter.hardware());
        let has_ipv6 = mtu >= IPV6_MTU;
        if !has_ipv6 && addresses.iter().any(|one| one.address.is_ipv6()) {
            return Err(Failure::SmallMtu { mtu });
        }
        let plan = Plan {
            name: name.to_owned(),
            mtu,
            addresses: addresses.to_vec(),
            link_local: has_ipv6.then(|| Prefixed {
                address: link_local(hardware.gid, hardware.queue_pair).into(),
                length: 64,
            }),
        };
        Ok(Engine { adapter, plan })
    }

    /// Returns the interface that the command's process has to make.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Serves the interface: receives its TUN device over `control`, reports that it is ready, and
    /// moves packets until the peer of `control` is closed and the packets of the command are sent.
    /// Returns the counters; `None` if no device came.
    ///
    /// # Errors
    ///
    /// The adapter or the device fails.
    pub fn serve(self, control: &OwnedFd) -> Result<Option<Counters>, Failure> {
        let files = descriptor::receive(control).map_err(system("receive the TUN device"))?;
        let (index, files) = files;
        let Ok(files) = <[OwnedFd; 7]>::try_from(files) else {
            return Ok(None);
        };
        let [device, changes, kernel, igmp, igmp6, tcp, tcp6] = files;
        let Engine { adapter, plan } = self;
        let addresses: Vec<Prefixed> = plan
            .addresses
            .iter()
            .copied()
            .chain(plan.link_local)
            .collect();
        let mut groups = Groups {
            fixed: fixed_groups(&addresses),
            joined: HashSet::new(),
            files: [igmp.into(), igmp6.into()],
            interface: index,
            is_changed: true,
            refused: HashSet::new(),
        };
        groups.update(&adapter);
        if !groups.fixed.is_subset(&groups.joined) {
            return Err(Failure::NoGroups);
        }
        let station = Station::new(Interface {
            hardware: adapter.hardware(),
            partition: PARTITION,
            mtu: plan.mtu as usize,
            addresses,
        });
        let mut wire = Wire {
            adapter,
            device: device.into(),
            joiner: Joiner::default(),
            refused: 0,
            kernel: kernel.into(),
            index,
            next_hops: HashMap::new(),
            is_removed: false,
        };
        let mut pump = Pump {
            station,
            start: Instant::now(),
            segments: Segments::default(),
            packet: Vec::new(),
            is_pending: false,
            buffer: vec![0; LONGEST],
            groups,
            changes: changes.into(),
            connections: [tcp.into(), tcp6.into()],
            ended: None,
        };
        pump.station.announce(&mut wire);
        descriptor::notify(control).map_err(system("report that the interface is ready"))?;
        pump.run(&mut wire, control)?;
        pump.station.end(pump.is_pending);
        // Not known of an interface that a program has removed.
        if let Ok(Some(dropped)) = wire.kernel.dropped(index) {
            pump.station.count_dropped_by_kernel(dropped);
        }
        if !pump.groups.refused.is_empty() {
            eprintln!(
                "verbena: the interface did not join {} groups",
                pump.groups.refused.len()
            );
        }
        Ok(Some(pump.station.counters().clone()))
    }
}

/// Returns the groups that an interface with these addresses is always a member of.
fn fixed_groups(addresses: &[Prefixed]) -> HashSet<Gid> {
    let of = |address: IpAddr| group::of(address, PARTITION);
    let mut all = HashSet::from([group::broadcast(PARTITION), of(group::ALL_IPV4.into())]);
    for one in addresses {
        if let IpAddr::V6(address) = one.address {
            all.insert(of(group::ALL_IPV6.into()));
            all.insert(of(group::solicited_node(address).into()));
        }
    }
    all
}

/// The groups of an interface.
struct Groups {
    fixed: HashSet<Gid>,
    joined: HashSet<Gid>,
    files: [File; 2],
    interface: u32,
    is_changed: bool,
    /// Groups that were not joined: too many, or refused by the adapter.
    refused: HashSet<Gid>,
}

impl Groups {
    /// Joins and leaves groups as the programs in the namespace have done.
    fn update(&mut self, adapter: &Adapter) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let of_programs = membership::read(&self.files, self.interface);
        let of_programs = of_programs.into_iter().map(|one| group::of(one, PARTITION));
        let mut wanted = self.fixed.clone();
        wanted.extend(of_programs);
        let left: Vec<Gid> = self.joined.difference(&wanted).copied().collect();
        for gid in left {
            // It fails if the queue pair has failed, and with it all memberships.
            let _ = adapter.leave(gid);
            self.joined.remove(&gid);
        }
        // The fixed ones first: without them neighbours do not find the interface.
        let others = wanted.difference(&self.fixed);
        let new: Vec<Gid> = self.fixed.iter().chain(others).copied().collect();
        for gid in new {
            if self.joined.contains(&gid) {
                continue;
            }
            match self.joined.len() < MOST_GROUPS && adapter.join(gid).is_ok() {
                true => self.joined.insert(gid),
                false => self.refused.insert(gid),
            };
        }
    }
}

/// The adapter and the TUN device.
struct Wire {
    adapter: Adapter,
    device: File,
    /// Segments that have been received.
    joiner: Joiner,
    /// Packets that the device refused.
    refused: u64,
    /// The kernel's view of the namespace, and the interface's index there.
    kernel: Netlink,
    index: u32,
    /// Neighbours by which distant destinations are reached.
    next_hops: HashMap<IpAddr, IpAddr>,
    /// Whether a program has removed the interface.
    is_removed: bool,
}

impl Wire {
    /// Gives the device all received packets. Returns the number of those that it has refused.
    fn flush(&mut self) -> u64 {
        let (device, refused) = (&self.device, &mut self.refused);
        self.joiner
            .flush(|bytes, packets| *refused += write(device, bytes, packets));
        std::mem::take(refused)
    }
}

/// Writes a packet that was joined of several. Returns the number of packets that were refused.
fn write(mut device: &File, bytes: &[u8], packets: u64) -> u64 {
    match device.write(bytes) {
        Ok(written) if written == bytes.len() => 0,
        _ => packets,
    }
}

impl Link for Wire {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.adapter.unicast(to, protocol, packet)
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.adapter.answer(to, protocol, packet)
    }

    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8]) -> Sent {
        self.adapter.multicast(group, protocol, packet)
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        let (device, refused) = (&self.device, &mut self.refused);
        self.joiner.take(packet, |bytes, packets| {
            *refused += write(device, bytes, packets);
        });
        true
    }

    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        if let Some(known) = self.next_hops.get(&to) {
            return *known;
        }
        if self.next_hops.len() == MOST_NEXT_HOPS {
            self.next_hops.clear();
        }
        // Without a gateway, and without a route any more, the destination itself is asked for.
        let gateway = self.kernel.gateway(to, self.index);
        let next = gateway.ok().flatten().unwrap_or(to);
        self.next_hops.insert(to, next);
        next
    }
}

/// The loop and its state.
struct Pump {
    station: Station,
    start: Instant,
    /// Bytes read from the device, and the segments that are left of it.
    buffer: Vec<u8>,
    segments: Segments,
    /// The last segment, which the link has not taken yet if it is pending.
    packet: Vec<u8>,
    is_pending: bool,
    groups: Groups,
    changes: Changes,
    /// The files with TCP connections.
    connections: [File; 2],
    /// When the command's end was noticed.
    ended: Option<u64>,
}

impl Pump {
    fn run(&mut self, wire: &mut Wire, control: &OwnedFd) -> Result<(), Failure> {
        let mut datagram = vec![0; wire.adapter.mtu() as usize + 4];
        let mut is_readable = true;
        let mut next_tick = 0;
        loop {
            let mut is_idle = !self.receive(wire, &mut datagram)?;
            if is_readable || self.is_pending || self.ended.is_some() {
                let (moved, is_empty) = self.send(wire)?;
                is_readable = !is_empty;
                is_idle &= !moved;
            }
            let discarded = wire.adapter.take_discarded();
            self.station.discard(discarded);
            self.groups.update(&wire.adapter);
            let now = self.now();
            if now >= next_tick {
                self.station.tick(now, wire);
                self.groups.is_changed = true;
                self.use_changes(wire);
                // Peers can keep the loop from waiting.
                if self.ended.is_none() && is_closed(control)? {
                    self.ended = Some(now);
                }
                if self.is_over(wire, now)? {
                    return Ok(());
                }
                next_tick = now + self.ended.map_or(WAITING, |_| ENDING) as u64;
            }
            if !is_idle {
                continue;
            }
            wire.adapter.arm()?;
            // A completion before the arming raises no event.
            if self.receive(wire, &mut datagram)? {
                continue;
            }
            let (from_device, is_closed) = self.wait(wire, control)?;
            is_readable |= from_device;
            if is_closed {
                self.ended = Some(self.now());
                next_tick = 0;
            }
        }
    }

    /// Returns whether the command has ended and nothing is left to send, or the time for it has
    /// passed.
    fn is_over(&mut self, wire: &mut Wire, now: u64) -> Result<bool, Failure> {
        let Some(ended) = self.ended else {
            return Ok(false);
        };
        let left = unacknowledged::read(&self.connections);
        let longest = match left.bytes {
            0 => LONGEST_FOR_PACKETS,
            _ => LONGEST_FOR_DATA,
        };
        if now >= ended + longest {
            if left.bytes > 0 {
                eprintln!(
                    "verbena: the interface ends, and peers have not acknowledged {} bytes of TCP \
                     that the command left",
                    left.bytes
                );
            }
            return Ok(true);
        }
        // The kernel may have acknowledged the end of a peer since the last look at the device.
        let (moved, is_empty) = self.send(wire)?;
        let is_sent = !moved && is_empty && self.station.waiting() == 0;
        let is_sent = is_sent && wire.adapter.in_flight() == 0;
        Ok(is_sent && left == Unacknowledged::default())
    }

    /// Uses changed addresses and routes of the namespace.
    fn use_changes(&mut self, wire: &mut Wire) {
        if !self.changes.take() {
            return;
        }
        wire.next_hops.clear();
        // If the kernel does not answer, the addresses stay as they are.
        if let Ok(addresses) = wire.kernel.addresses(wire.index) {
            self.groups.fixed = fixed_groups(&addresses);
            self.groups.is_changed = true;
            self.station.set_addresses(&addresses, wire);
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Uses completions. Returns whether there were any.
    fn receive(&mut self, wire: &mut Wire, datagram: &mut [u8]) -> Result<bool, Failure> {
        let mut completions = [WorkCompletion::default(); BATCH];
        let mut are_some = false;
        for _ in 0..TURN / BATCH {
            let count = wire.adapter.poll(&mut completions)?;
            are_some |= count > 0;
            for completion in &completions[..count] {
                let Some(received) = wire.adapter.complete(completion, datagram) else {
                    continue;
                };
                if !received.is_success {
                    self.station.receive_failed();
                    continue;
                }
                let source: Source = received.source;
                let now = self.now();
                self.station
                    .receive(&datagram[..received.length], source, now, wire);
            }
            if count < BATCH {
                break;
            }
        }
        let refused = wire.flush();
        self.station.undeliver(refused);
        Ok(are_some)
    }

    /// Takes packets from the device. Returns whether there were any, and whether it is empty now.
    fn send(&mut self, wire: &mut Wire) -> Result<(bool, bool), Failure> {
        let mut moved = false;
        let now = self.now();
        for _ in 0..TURN {
            if !self.is_pending && !self.segments.next(&mut self.packet) {
                match wire.device.read(&mut self.buffer) {
                    Ok(length) => {
                        if self.segments.take(&self.buffer[..length]).is_err() {
                            self.station.take_invalid();
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // None is there, or the interface is down or removed.
                    Err(_) => return Ok((moved, true)),
                }
                continue;
            }
            self.groups.is_changed |= membership::is_report(&self.packet);
            self.is_pending = !self.station.take(&self.packet, now, wire);
            if self.is_pending {
                return Ok((moved, false));
            }
            moved = true;
        }
        Ok((moved, false))
    }

    /// Waits for work. Returns whether the device is readable, and whether the peer of `control` is
    /// closed, which is returned once.
    fn wait(&mut self, wire: &mut Wire, control: &OwnedFd) -> Result<(bool, bool), Failure> {
        let timeout = match (self.is_pending, self.station.is_waiting()) {
            (true, _) => BUSY,
            _ if self.ended.is_some() => ENDING,
            (false, true) => WAITING,
            (false, false) => IDLE,
        };
        let of_device = match self.is_pending {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        let device = PollFd::from_borrowed_fd(wire.device.as_fd(), of_device);
        // A closed socket and a removed interface are always ready.
        let (with_control, with_device) = (self.ended.is_none(), !wire.is_removed);
        let control = with_control.then(|| PollFd::new(control, PollFlags::IN));
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(wire.adapter.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.changes.as_fd(), PollFlags::IN),
        ];
        descriptors.extend(control.into_iter().chain(with_device.then_some(device)));
        ready(&mut descriptors, timeout)?;
        let mut found = descriptors.iter().map(PollFd::revents);
        let mut next = |is_there: bool| match is_there {
            true => found.next().unwrap_or(PollFlags::empty()),
            false => PollFlags::empty(),
        };
        let (events, changes) = (next(true), next(true));
        let (control, device) = (next(with_control), next(with_device));
        if !changes.is_empty() {
            self.use_changes(wire);
        }
        if events.contains(PollFlags::IN) {
            wire.adapter.take_event()?;
        }
        if device.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            wire.is_removed = true;
            eprintln!("verbena: the interface was removed; the command goes on without it");
        }
        Ok((device.contains(PollFlags::IN), !control.is_empty()))
    }
}

/// Waits until a descriptor is ready, or for a number of milliseconds.
fn ready(descriptors: &mut [PollFd<'_>], milliseconds: i64) -> Result<(), Failure> {
    let timeout = Timespec {
        tv_sec: milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * 1_000_000,
    };
    match poll(descriptors, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(system("wait for packets")(error.into())),
    }
}

/// Returns whether the peer of a socket is closed.
fn is_closed(control: &OwnedFd) -> Result<bool, Failure> {
    let mut control = [PollFd::new(control, PollFlags::IN)];
    ready(&mut control, 0)?;
    Ok(!control[0].revents().is_empty())
}
