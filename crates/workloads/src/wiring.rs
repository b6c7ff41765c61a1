//! Queue pairs between processes with their regions, queues and addresses.

use crate::agreement::{Outcome, agree};
use crate::context::Context;
use verbena_fabric::*;

/// The transport of a link, for a benchmark: XRC is one kind here and two queue pairs below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    Rc,
    Uc,
    Ud,
    Xrc,
}

impl LinkKind {
    pub fn word(self) -> &'static str {
        match self {
            LinkKind::Rc => "rc",
            LinkKind::Uc => "uc",
            LinkKind::Ud => "ud",
            LinkKind::Xrc => "xrc",
        }
    }

    pub fn offered(self, capabilities: &Capabilities) -> bool {
        let transports = capabilities.transports;
        match self {
            LinkKind::Rc => transports.rc,
            LinkKind::Uc => transports.uc,
            LinkKind::Ud => transports.ud,
            LinkKind::Xrc => transports.xrc,
        }
    }

    fn main(self) -> Transport {
        match self {
            LinkKind::Rc => Transport::Rc,
            LinkKind::Uc => Transport::Uc,
            LinkKind::Ud => Transport::Ud,
            LinkKind::Xrc => Transport::XrcInitiator,
        }
    }
}

/// The queue that receive requests are posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receives {
    /// Each queue pair.
    Own,
    /// A shared receive queue of the process.
    Shared,
}

/// Common parameters of a process's links.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub kind: LinkKind,
    pub receives: Receives,
    pub depth: u32,
    pub segments: u32,
    /// Requested inline size of queue pairs in bytes.
    pub inline: u32,
    pub wait: Wait,
    /// Size of the process's region in bytes.
    pub region: usize,
    pub location: Location,
}

impl Setup {
    pub fn new(kind: LinkKind, region: usize) -> Setup {
        Setup {
            kind,
            receives: if kind == LinkKind::Xrc {
                Receives::Shared
            } else {
                Receives::Own
            },
            depth: 128,
            segments: 1,
            inline: 0,
            wait: Wait::Poll,
            region,
            location: Location::Host,
        }
    }

    /// Requests inline space if messages of `size` are at most `most` bytes; returns how they are
    /// posted.
    pub fn inline_up_to(mut self, size: usize, most: u32) -> (Setup, Placement) {
        if size as u64 <= u64::from(most) {
            self.inline = size as u32;
            (self, Placement::Inline)
        } else {
            (self, Placement::Reference)
        }
    }
}

/// Alignment and granularity of regions in bytes.
pub const PAGE: usize = 4096;
/// Messages up to this size are inline unless a benchmark sweeps it; perftest's default for write
/// latency.
pub const INLINE_BY_DEFAULT: u32 = 220;

/// The local end of a link.
pub struct LinkEnd<F: Fabric> {
    pub peer: usize,
    pub pair: F::Pair,
    /// Over XRC, the target queue pair.
    _target: Option<F::Pair>,
    remote: Endpoint,
    address: Option<F::Address>,
    kind: LinkKind,
}

impl<F: Fabric> LinkEnd<F> {
    pub fn destination(&self) -> Destination<'_, F> {
        match (self.kind, &self.address) {
            (LinkKind::Ud, Some(address)) => Destination::Datagram {
                address,
                pair: self.remote.pair,
                key: self.remote.queue_key,
            },
            (LinkKind::Xrc, _) => Destination::SharedReceive(self.remote.shared_receive),
            _ => Destination::Connected,
        }
    }
}

/// A process's links and their shared objects.
pub struct Wired<F: Fabric> {
    pub links: Vec<LinkEnd<F>>,
    pub shared: Option<F::SharedReceive>,
    pub region: F::Region,
    /// All processes' regions by rank.
    pub remotes: Vec<RemoteRegion>,
    pub sends: F::Completions,
    pub receives: F::Completions,
    pub setup: Setup,
}

/// Connects this process to `peers`, in this order; a peer may occur several times. All processes
/// of the job call it, even with no peers. The k-th link to a process matches its k-th link to this
/// one.
///
/// # Errors
///
/// The fabric does not support the transport or a shared receive queue, the peers' links do not
/// match, or a verb fails.
pub async fn wire<F: Fabric>(
    context: &Context<'_, F>,
    peers: &[usize],
    setup: Setup,
) -> Outcome<Wired<F>> {
    let fabric = context.fabric;
    let capabilities = fabric.capabilities();
    let missing = |what: &str| Error::unsupported(what, capabilities.device.clone());
    if !setup.kind.offered(capabilities) {
        return Err(missing(setup.kind.word()).into());
    }
    if setup.receives == Receives::Shared && !capabilities.operations.shared_receive {
        return Err(missing("a shared receive queue").into());
    }
    let access = if capabilities.operations.atomics {
        Access::ALL
    } else {
        Access::READ_WRITE
    };
    let request = BufferRequest {
        // Whole pages, as in most programs: an adapter may treat a page shared with other data
        // differently.
        length: setup.region.next_multiple_of(PAGE),
        location: setup.location,
    };
    let region = fabric
        .register(fabric.allocate(request).await?, access)
        .await?;
    let queue = |links: usize| {
        let wanted =
            (setup.depth as usize * links.max(1)).min(capabilities.max_completions as usize);
        QueueRequest {
            depth: wanted as u32,
            wait: setup.wait,
        }
    };
    let sends = fabric.completions(queue(peers.len())).await?;
    let receives = fabric.completions(queue(peers.len())).await?;
    let shared = match setup.receives {
        Receives::Own => None,
        Receives::Shared => {
            let request = SharedReceiveRequest {
                depth: (setup.depth * peers.len().max(1) as u32).min(capabilities.max_depth),
                segments: setup.segments,
                xrc_completions: (setup.kind == LinkKind::Xrc).then_some(&receives),
            };
            Some(fabric.shared_receive(request).await?)
        }
    };
    let mut ends = Vec::with_capacity(peers.len());
    let mut told = region.remote().to_bytes().to_vec();
    for &peer in peers {
        let request = |transport| PairRequest {
            transport,
            send_completions: &sends,
            receive_completions: &receives,
            send_depth: setup.depth,
            receive_depth: setup.depth,
            segments: setup.segments,
            inline: setup.inline,
            shared_receive: shared.as_ref(),
        };
        let pair = fabric.pair(request(setup.kind.main())).await?;
        let target = match setup.kind {
            LinkKind::Xrc => Some(fabric.pair(request(Transport::XrcTarget)).await?),
            _ => None,
        };
        told.extend((peer as u32).to_le_bytes());
        told.extend(pair.endpoint().to_bytes());
        told.extend(target.as_ref().unwrap_or(&pair).endpoint().to_bytes());
        ends.push((peer, pair, target));
    }
    let all = agree(context, &told).await?;
    let remotes: Result<Vec<RemoteRegion>> = all
        .iter()
        .map(|told| RemoteRegion::from_bytes(&told[..RemoteRegion::BYTES]))
        .collect();
    let mut links = Vec::with_capacity(ends.len());
    let mut met = vec![0usize; context.size()];
    for (peer, pair, target) in ends {
        let (theirs, their_target) = nth_towards(&all[peer], context.rank(), met[peer])?;
        met[peer] += 1;
        pair.connect(&their_target).await?;
        if let Some(target) = &target {
            target.connect(&theirs).await?;
        }
        let address = match setup.kind {
            LinkKind::Ud => Some(fabric.address(&theirs).await?),
            _ => None,
        };
        let link = LinkEnd {
            peer,
            pair,
            _target: target,
            remote: their_target,
            address,
            kind: setup.kind,
        };
        links.push(link);
    }
    // A process must not send before its peer is ready to receive.
    agree(context, &[]).await?;
    Ok(Wired {
        links,
        shared,
        region,
        remotes: remotes?,
        sends,
        receives,
        setup,
    })
}

/// Returns a process's `n`-th link to `rank`, from its ballot.
fn nth_towards(told: &[u8], rank: usize, n: usize) -> Result<(Endpoint, Endpoint)> {
    const ENTRY: usize = 4 + 2 * Endpoint::BYTES;
    let found = told[RemoteRegion::BYTES..]
        .as_chunks::<ENTRY>()
        .0
        .iter()
        .filter(|entry| entry[..4] == (rank as u32).to_le_bytes())
        .nth(n);
    let entry = found.ok_or_else(|| {
        Error::invalid(
            "wiring",
            format!("the peer has no link {n} towards process {rank}"),
        )
    })?;
    let second = 4 + Endpoint::BYTES;
    Ok((
        Endpoint::from_bytes(&entry[4..second])?,
        Endpoint::from_bytes(&entry[second..])?,
    ))
}

impl<F: Fabric> Wired<F> {
    /// Posts one request on a link.
    #[inline]
    pub async fn post(
        &self,
        link: usize,
        operation: Operation,
        local: (usize, usize),
        signal: Signal,
        placement: Placement,
    ) -> Result<()> {
        let slices = [self.slice(local)];
        let request = self.request(link, operation, &slices, signal, placement);
        self.links[link].pair.post_send(&[request]).await
    }

    /// Returns the bytes `local` (offset, length) of the region.
    pub fn slice(&self, (offset, length): (usize, usize)) -> Slice<'_, F::Region> {
        Slice::new(&self.region, offset, length)
    }

    /// Returns a request for a link, signalled or not. Timed code prepares it in advance, like
    /// other programs: building one costs as much as a third of a small message.
    #[inline]
    pub fn request<'a>(
        &'a self,
        link: usize,
        operation: Operation,
        slices: &'a [Slice<'a, F::Region>],
        signal: Signal,
        placement: Placement,
    ) -> WorkRequest<'a, F> {
        let destination = match operation {
            // Two-sided messages over UD, and all messages over XRC, need a destination.
            Operation::Send
            | Operation::SendImmediate { .. }
            | Operation::WriteImmediate { .. } => self.links[link].destination(),
            _ if self.setup.kind == LinkKind::Xrc => self.links[link].destination(),
            _ => Destination::Connected,
        };
        WorkRequest::new(link as u64, operation, slices)
            .signal(signal)
            .placement(placement)
            .to(destination)
    }

    /// Posts `count` receives of the bytes `local` for a link (or to the shared queue).
    #[inline]
    pub async fn post_receives(
        &self,
        link: usize,
        local: (usize, usize),
        count: usize,
    ) -> Result<()> {
        let slices = [Slice::new(&self.region, local.0, local.1)];
        let request = ReceiveRequest {
            id: link as u64,
            local: &slices,
        };
        // Ping-pongs repost one at a time while timed: this path does not allocate.
        if count == 1 {
            return self.post_receive_list(link, &[request]).await;
        }
        self.post_receive_list(link, &vec![request; count]).await
    }

    /// Posts a receive of the bytes `local` with this id.
    #[inline]
    pub async fn post_receive(&self, link: usize, id: u64, local: (usize, usize)) -> Result<()> {
        let slices = [Slice::new(&self.region, local.0, local.1)];
        let request = ReceiveRequest { id, local: &slices };
        self.post_receive_list(link, &[request]).await
    }

    /// Posts receives for a link, or to the shared queue.
    #[inline]
    pub async fn post_receive_list(
        &self,
        link: usize,
        list: &[ReceiveRequest<'_, F::Region>],
    ) -> Result<()> {
        match &self.shared {
            Some(shared) => shared.post_receive(list).await,
            None => self.links[link].pair.post_receive(list).await,
        }
    }
}
