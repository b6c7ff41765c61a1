//! The process of an interface: moves packets between its TUN device and the adapter.

mod groups;
mod pace;
mod pump;
mod wire;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use verbena_fabric_protocol::interface::{Entry, start_of};
use verbena_verbs::{Gid, Library};

use self::groups::{Groups, fixed_groups};
use self::pace::Pace;
use self::pump::Pump;
use self::wire::Wire;
use crate::adapter::{Adapter, Failure as AdapterFailure};
use crate::address::{Prefixed, link_local};
use crate::administration::Administration;
use crate::connected::LONGEST_MTU;
use crate::connection::Connections;
use crate::connection::message::LEAST_MTU;
use crate::counters::Counters;
use crate::descriptor;
use crate::join::Joiner;
use crate::namespace::{IPV6_MTU, Plan};
use crate::offload;
use crate::published::Published;
use crate::segment::Segments;
use crate::station::{Interface, Station};
use crate::sysfs::Link;

/// Bytes of the longest packet, with a header.
const LONGEST: usize = offload::LENGTH + (1 << 16);

/// The reason why an interface ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter cannot be used.
    #[error(transparent)]
    Adapter(#[from] AdapterFailure),

    /// The MTU of the port is too small for IPv6.
    #[error(
        "the interface's MTU is {mtu}, and IPv6 needs {IPV6_MTU}; give it IPv4 addresses only, use \
         --mode connected, or a port with a larger MTU"
    )]
    SmallMtu {
        /// The MTU of the interface.
        mtu: u32,
    },

    /// The Ethernet interface of the port has no IPv6 address.
    #[error(
        "{name} has no IPv6 address, which the multicast groups of IP over InfiniBand need; a \
         link-local one suffices (sysctl net.ipv6.conf.{name}.disable_ipv6=0)"
    )]
    NoIpv6 {
        /// The name of the interface.
        name: String,
    },

    /// The wanted MTU is longer than packets can be.
    #[error(
        "--mtu {mtu} is above the maximum of this port in {mode} mode, {longest}{}",
        match *mode { "connected" => "", _ => "; --mode connected allows a larger one" }
    )]
    LargeMtu {
        /// The mode.
        mode: &'static str,
        /// The longest MTU.
        longest: u32,
        /// The wanted one.
        mtu: u32,
    },

    /// The wanted MTU is too small for connections.
    #[error("the smallest MTU in connected mode is {LEAST_MTU}, and {mtu} is smaller")]
    TinyMtu {
        /// The wanted MTU.
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

/// How packets reach neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// As datagrams (RFC 4391).
    #[default]
    Datagram,
    /// By reliable connections if the neighbour has this mode, too (RFC 4755), else as datagrams.
    Connected,
}

impl Mode {
    /// Returns the name, as the kernel's IP over InfiniBand has it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Datagram => "datagram",
            Mode::Connected => "connected",
        }
    }
}

/// An interface before its namespace exists.
pub struct Engine {
    adapter: Adapter,
    administration: Option<Administration>,
    plan: Plan,
    /// Where it is published for the connection manager.
    directory: Option<(PathBuf, u64)>,
}

impl Engine {
    /// Opens the adapter for an interface of this name and these addresses, in this mode and the
    /// partition with this key, with the longest MTU of its mode unless another is given.
    ///
    /// # Errors
    ///
    /// The adapter cannot be used, or the addresses do not fit its MTU.
    pub fn open(
        library: &Path,
        name: &str,
        addresses: &[Prefixed],
        (mode, partition): (Mode, u16),
        mtu: Option<u32>,
    ) -> Result<Engine, Failure> {
        let library = Library::open(library).map_err(AdapterFailure::from)?;
        let has_connections = mode == Mode::Connected;
        let (adapter, administration) = Adapter::open(&library, partition, has_connections)?;
        let hardware = adapter.hardware();
        if let (Mode::Connected, Some(mtu @ ..LEAST_MTU)) = (mode, mtu) {
            return Err(Failure::TinyMtu { mtu });
        }
        let longest = match mode {
            Mode::Datagram => adapter.mtu(),
            Mode::Connected => LONGEST_MTU,
        };
        let mtu = mtu.unwrap_or(longest);
        if mtu > longest {
            let mode = mode.name();
            return Err(Failure::LargeMtu { mode, longest, mtu });
        }
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
            link: Some(Link {
                hardware,
                mode,
                partition,
                port: adapter.port(),
            }),
        };
        Ok(Engine {
            adapter,
            administration,
            plan,
            directory: None,
        })
    }

    /// Publishes the interface in the runtime directory of the adapter while it is served, so that
    /// the connection manager finds its addresses; with the number of the fabric, or 0 without one.
    pub fn publish_in(&mut self, directory: PathBuf, fabric: u64) {
        self.directory = Some((directory, fabric));
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
        let Ok(files) = <[OwnedFd; 8]>::try_from(files) else {
            return Ok(None);
        };
        let [device, changes, kernel, igmp, igmp6, tcp, tcp6, namespace] = files;
        let Engine {
            mut adapter,
            mut administration,
            plan,
            directory,
        } = self;
        let has_connections = adapter.connected().is_some();
        adapter.start_receiving();
        let addresses: Vec<Prefixed> = plan
            .addresses
            .iter()
            .copied()
            .chain(plan.link_local)
            .collect();
        let mut groups = Groups {
            fixed: fixed_groups(&addresses, adapter.partition()),
            joined: HashMap::new(),
            files: [igmp.into(), igmp6.into()],
            interface: index,
            is_changed: true,
            refused: HashSet::new(),
        };
        groups.update(&adapter, administration.as_mut(), 0);
        let is_joined = |gid: &Gid| groups.joined.contains_key(gid);
        // A subnet manager has let the interface join the broadcast group; others follow.
        if administration.is_none() && !groups.fixed.iter().all(is_joined) {
            return Err(Failure::NoGroups);
        }
        let published = match directory {
            None => None,
            Some((directory, fabric)) => {
                let published = || {
                    let entry = Entry {
                        namespace: File::from(namespace).metadata()?.ino(),
                        process: std::process::id(),
                        start: start_of(&fs::read_to_string("/proc/self/stat")?)
                            .unwrap_or_default(),
                        partition: adapter.partition(),
                        lid: adapter.lid(),
                        gid: adapter.hardware().gid.0,
                    };
                    Published::new(&directory, fabric, entry, &addresses)
                };
                Some(published().map_err(system("publish the addresses of the interface"))?)
            }
        };
        let station = Station::new(Interface {
            hardware: adapter.hardware(),
            partition: adapter.partition(),
            mtu: plan.mtu as usize,
            datagram_mtu: plan.mtu.min(adapter.mtu()) as usize,
            addresses,
        });
        let connections = Connections::new(
            adapter.hardware(),
            plan.mtu,
            adapter.path_mtu(),
            RandomState::new().hash_one(index) as u32,
        );
        let mut wire = Wire {
            connections,
            datagram_mtu: plan.mtu.min(adapter.mtu()) as usize,
            now: 0,
            adapter,
            administration,
            device: device.into(),
            joiner: Joiner::default(),
            held: 0,
            refused: 0,
            kernel: kernel.into(),
            index,
            next_hops: HashMap::new(),
            is_removed: false,
        };
        let mut pump = Pump {
            station,
            start: Instant::now(),
            segments: Segments::new(LONGEST),
            pieces: VecDeque::new(),
            fragments: 0,
            packet: Vec::new(),
            is_pending: false,
            groups,
            changes: changes.into(),
            connections: [tcp.into(), tcp6.into()],
            published,
            ended: None,
            pace: Pace::new(Instant::now(), has_connections),
        };
        pump.use_answers(&mut wire)?;
        pump.station.announce(&mut wire);
        descriptor::notify(control).map_err(system("report that the interface is ready"))?;
        pump.run(&mut wire, control)?;
        let left = pump.take_left(&mut wire);
        pump.end_waiting(&mut wire)?;
        wire.connections.close_all(&mut wire.adapter);
        // Segments that were held when the loop ended.
        let refused = wire.flush();
        pump.station.undeliver(refused);
        pump.station.discard(wire.take_discarded());
        pump.station.end(left);
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
