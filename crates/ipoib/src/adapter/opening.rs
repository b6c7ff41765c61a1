//! Opening a port of an adapter, and joining the broadcast group.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, Buffer, Channel, CompletionQueue, Context, Library, PortAttributes,
    ProtectionDomain, QueuePair,
};

use super::failure::Failure;
use super::{
    ANSWERS, Adapter, MAIN, QUEUE_KEY, RECEIVES, ROUTE, SENDS, bytes_of_mtu, path_to_manager,
};
use crate::administration::record::Local;
use crate::administration::{Administration, Event as Answered, Refusal};
use crate::connected::{self, Connected};
use crate::group;
use crate::lane::{DEPTH, Lane, PATIENCE, Slots};
use crate::management::{self, Management};

/// Key of the default partition.
const DEFAULT_PARTITION: u16 = 0xffff;
/// Time for which the broadcast group is waited for: the subnet manager may have just started.
const LONGEST_JOIN: Duration = Duration::from_secs(12);
const WAIT: Duration = Duration::from_millis(100);

impl Adapter {
    /// Opens the first device of a library, and its first active port, in the partition with a key,
    /// with connections or without. On a port with a subnet manager, joins the broadcast group.
    ///
    /// # Errors
    ///
    /// No port is active, the port is not in the partition, the broadcast group is not joined, or a
    /// verbs call fails.
    pub fn open(
        library: &Arc<Library>,
        partition: u16,
        has_connections: bool,
    ) -> Result<(Adapter, Option<Administration>), Failure> {
        let context = library.device(None)?.open()?;
        let ports = context.attributes()?.ports;
        for port in 1..=ports {
            let attributes = context.port(port)?;
            if attributes.active {
                let place = (port, partition);
                return Adapter::on_port(&context, place, attributes, has_connections);
            }
        }
        Err(Failure::NoPort(context.name().to_owned()))
    }

    fn on_port(
        context: &Arc<Context>,
        (port, partition): (u8, u16),
        attributes: PortAttributes,
        has_connections: bool,
    ) -> Result<(Adapter, Option<Administration>), Failure> {
        let gid_index = match attributes.ethernet {
            false => 0,
            true => ipv6_gid(context, port, attributes.gids).ok_or_else(|| Failure::NoGid {
                device: context.name().to_owned(),
                port,
            })?,
        };
        let domain = context.protection_domain()?;
        let channel = context.channel()?;
        let (of_receives, of_sends) = match has_connections {
            true => (connected::RECEIVES, connected::SENDS),
            false => (0, 0),
        };
        let received = (RECEIVES + of_receives) as u32;
        let received = context.completion_queue(received, Some(&channel))?;
        let sent = (SENDS + of_sends) as u32;
        let sent = context.completion_queue(sent, Some(&channel))?;
        let size = attributes.mtu as usize;
        let receives = Buffer::allocate(RECEIVES * (ROUTE + size))?;
        let gid = context.gid(port, gid_index)?;
        let partition_index = context.partition(port, partition)?;
        let (management, administration) = match attributes.has_reregistration {
            true => {
                let mut management = Management::new(context, &domain, &channel)?;
                // Subnet administration is reached in the default partition, as in Linux.
                let index = context.partition(port, DEFAULT_PARTITION).unwrap_or(0);
                start(management.pair(), (port, index), management::QUEUE_KEY)?;
                management.start_receiving();
                let local = Local { gid, partition };
                let joined = join_broadcast(&mut management, &channel, local, (port, &attributes))?;
                (Some(management), Some(joined))
            }
            false => (None, None),
        };
        let properties = administration.as_ref().and_then(Administration::properties);
        let options = PairOptions {
            send_depth: DEPTH as u32,
            receive_depth: RECEIVES as u32,
            receive_completions: &received,
            ..PairOptions::new(&domain, PairType::Ud, &sent)
        };
        let pair = options.create()?;
        let answers = sending_pair(&domain, &sent)?;
        let adapter = Adapter {
            context: Arc::clone(context),
            port,
            attributes,
            gid,
            gid_index,
            partition,
            partition_index,
            management,
            queue_key: properties.map_or(QUEUE_KEY, |one| one.queue_key),
            traffic_class: properties.map_or(0, |one| one.traffic_class),
            longest: properties.map_or(attributes.mtu, |one| bytes_of_mtu(one.mtu)),
            main: Lane::new(MAIN, pair),
            answers: Lane::new(ANSWERS, answers),
            lanes: HashMap::new(),
            numbers: HashMap::new(),
            newest_lane: ANSWERS,
            clock: 0,
            addresses: HashMap::new(),
            receives: domain.register(receives, AccessFlags::LOCAL)?,
            slots: Slots::new(&domain, SENDS, size, (0, DEPTH, PATIENCE))?,
            discarded: 0,
            connected: match has_connections {
                true => Some(Connected::new(&domain, [&sent, &received])?),
                false => None,
            },
            domain,
            channel,
            sent,
            received,
        };
        adapter.start(adapter.main.pair())?;
        adapter.start(adapter.answers.pair())?;
        Ok((adapter, administration))
    }

    /// Posts the receives. The thread that calls this should be the one that receives: the locks of
    /// the queues are cheapest for their first user.
    pub fn start_receiving(&mut self) {
        for index in 0..RECEIVES {
            self.post_receive(index);
        }
        if let Some(connected) = &mut self.connected {
            connected.post_receives();
        }
    }

    /// Takes a queue pair of datagrams to RTS.
    pub(super) fn start(&self, pair: &QueuePair) -> Result<(), Failure> {
        start(pair, (self.port, self.partition_index), self.queue_key)
    }
}

/// Takes a queue pair of datagrams to RTS, in the partition with an index.
fn start(pair: &QueuePair, (port, partition): (u8, u16), queue_key: u32) -> Result<(), Failure> {
    let change = Change::to_init(PairType::Ud, port, AccessFlags::LOCAL, queue_key);
    pair.modify(&change.in_partition(partition))?;
    // Datagram pairs use the sequence number of it alone.
    let path = Path {
        lid: 0,
        gid: None,
        source_gid: 0,
        traffic_class: 0,
        service_level: 0,
        port,
    };
    let connection = Connection {
        path,
        peer: 0,
        peer_psn: 0,
        psn: 0,
        mtu_code: 1,
        reads_served: 0,
        reads_initiated: 0,
        timeout: 0,
        retries: 0,
        rnr_retries: 0,
    };
    pair.modify(&Change::to_rtr(PairType::Ud, &connection))?;
    pair.modify(&Change::to_rts(PairType::Ud, &connection))?;
    Ok(())
}

/// Joins the broadcast group of a partition.
fn join_broadcast(
    management: &mut Management,
    channel: &Channel,
    local: Local,
    (port, attributes): (u8, &PortAttributes),
) -> Result<Administration, Failure> {
    let (group, partition) = (group::broadcast(local.partition), local.partition);
    let to = path_to_manager(port, attributes);
    let start = Instant::now();
    // Transactions of several interfaces and of earlier ones should differ.
    let first = RandomState::new().hash_one(management.pair().number());
    let mut administration = Administration::new(local, group, first, 0);
    let refused = |refusal| Failure::NoBroadcast {
        group,
        partition,
        refusal,
    };
    loop {
        let now = start.elapsed().as_millis() as u64;
        administration.tick(now);
        management.arm()?;
        management.exchange(&to, &mut administration, now)?;
        let events = administration.take_events();
        for event in &events {
            if let Answered::Refused(_, refusal @ (Refusal::Status(_) | Refusal::Invalid)) = event {
                return Err(refused(*refusal));
            }
        }
        if let Some(properties) = administration.properties() {
            let mtu = bytes_of_mtu(properties.mtu);
            if mtu > attributes.mtu {
                return Err(Failure::LongBroadcast {
                    group,
                    partition,
                    mtu,
                    of_port: attributes.mtu,
                });
            }
            administration.put_back(events);
            return Ok(administration);
        }
        if start.elapsed() >= LONGEST_JOIN {
            return Err(refused(Refusal::Unanswered));
        }
        channel.wait(WAIT)?;
    }
}

/// Makes a queue pair that sends.
pub(super) fn sending_pair(
    domain: &Arc<ProtectionDomain>,
    completions: &Arc<CompletionQueue>,
) -> Result<QueuePair, Failure> {
    let options = PairOptions {
        send_depth: DEPTH as u32,
        receive_depth: 0,
        ..PairOptions::new(domain, PairType::Ud, completions)
    };
    Ok(options.create()?)
}

/// Returns the index of the first IPv6 GID of an Ethernet port.
fn ipv6_gid(context: &Context, port: u8, gids: u32) -> Option<u8> {
    let indices = 0..u8::try_from(gids).unwrap_or(u8::MAX);
    let is_ipv6 = |index: &u8| {
        context.gid(port, *index).is_ok_and(|gid| {
            let address = std::net::Ipv6Addr::from(gid.0);
            !address.is_unspecified() && address.to_ipv4_mapped().is_none()
        })
    };
    indices.into_iter().find(is_ipv6)
}
