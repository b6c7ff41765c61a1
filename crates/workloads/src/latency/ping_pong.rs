//! Ping-pong: one-way latency of messages. By size, transport, with shared receive queues.
//!
//! The one-way latency is half a round trip (rule 14), because both sides do the same. The receiver
//! of a write polls the last byte in memory, that of a send or a write with immediate data its
//! completion queue. Every message is signalled and its completion awaited, as in perftest, so that
//! the results are comparable. Several pairs at once follow section 3.1 of the paper
//! `connectx_multicore`. In lockstep the processes of a side synchronize before each message, so
//! that all send at the same time; the time spent in that barrier is not counted.

use crate::agreement::{Outcome, agree, attempt, pack, unpack};
use crate::context::{Context, Mode};
use crate::latency::buffer_offsets::{self, BufferOffsets};
use crate::parameters;
use crate::sampling::{Role, Sampled, sample};
use crate::test_data::{Checked, DATAGRAM_HEADER, checking_pass};
use crate::wiring::{INLINE_BY_DEFAULT, LinkKind, Receives, Setup, Wired, wire};
use std::slice;
use verbena_fabric::*;
use verbena_measure::bound::Bound;
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, PairResult, Parameters, Times};
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    Write,
    WriteImmediate,
    Send,
}

/// Which messages are inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inlining {
    /// Those within the usual threshold.
    Usual,
    /// Those up to this many bytes.
    UpTo(u32),
    /// All as specified.
    Fixed(Placement),
}

#[derive(Debug, Clone, Copy)]
pub struct PingPong {
    pub exchange: Exchange,
    pub kind: LinkKind,
    pub receives: Receives,
    pub size: usize,
    pub wait: Wait,
    pub inlining: Inlining,
}

/// Receives posted ahead; a ping-pong needs one, the others allow reposting after the answer was
/// sent.
const RECEIVES: usize = 16;
/// Tags of consecutive messages differ, and none is zero like fresh memory.
pub const TAGS: u64 = 251;
/// A pair is a straggler if it is slower than the median pair by this factor.
const STRAGGLER: f64 = 1.5;

pub async fn write<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_size(
        context,
        Exchange::Write,
        &[(LinkKind::Rc, Receives::Own), (LinkKind::Uc, Receives::Own)],
    )
    .await
}

pub async fn write_immediate<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let kinds = [(LinkKind::Rc, Receives::Own), (LinkKind::Uc, Receives::Own)];
    by_size(context, Exchange::WriteImmediate, &kinds).await
}

pub async fn send<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let kinds = [
        (LinkKind::Rc, Receives::Own),
        (LinkKind::Rc, Receives::Shared),
        (LinkKind::Uc, Receives::Own),
        (LinkKind::Ud, Receives::Own),
        (LinkKind::Xrc, Receives::Shared),
    ];
    by_size(context, Exchange::Send, &kinds).await
}

async fn by_size<F: Fabric>(
    context: &Context<'_, F>,
    exchange: Exchange,
    kinds: &[(LinkKind, Receives)],
) -> Result<()> {
    let pairs: Vec<[usize; 2]> = context.pairing().into_iter().take(1).collect();
    for &(kind, receives) in kinds {
        if !context.wants(kind.word()) {
            continue;
        }
        let largest = if kind == LinkKind::Ud {
            datagram_limit(context)
        } else {
            1 << 22
        };
        for size in context.sizes(largest) {
            let shared = if receives == Receives::Shared {
                "shared"
            } else {
                "own"
            };
            let parameters = parameters! {
                "size" => size, "transport" => kind.word(), "receive-queue" => shared,
            };
            let inlining = Inlining::Usual;
            let spec = PingPong {
                exchange,
                kind,
                receives,
                size,
                wait: Wait::Poll,
                inlining,
            };
            attempt(
                context,
                &parameters,
                run(context, &parameters, spec, &pairs, Mode::Free),
            )
            .await?;
            if !kind.offered(context.fabric.capabilities()) {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the maximum datagram, one packet.
fn datagram_limit<F: Fabric>(context: &Context<'_, F>) -> usize {
    context
        .fabric
        .capabilities()
        .link
        .map_or(1024, |link| link.mtu as usize)
}

/// Runs a ping-pong over all `pairs` at once and emits the point.
pub async fn run<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    spec: PingPong,
    pairs: &[[usize; 2]],
    mode: Mode,
) -> Outcome<()> {
    let rank = context.rank();
    let mine = pairs.iter().find(|pair| pair.contains(&rank));
    let peers: Vec<usize> = mine
        .map(|pair| pair[usize::from(pair[0] == rank)])
        .into_iter()
        .collect();
    let header = if spec.kind == LinkKind::Ud {
        DATAGRAM_HEADER
    } else {
        0
    };
    let arrival = buffer_offsets::arrival(spec.size);
    let offsets = BufferOffsets::new(spec.size, context.fabric.capabilities());
    let mut setup = Setup::new(spec.kind, 2 * arrival + 64 + header + offsets.span());
    setup.receives = spec.receives;
    setup.wait = spec.wait;
    let (setup, placement) = inlined(context, spec, setup);
    let wired = wire(context, &peers, setup).await?;
    let checked = match spec.exchange {
        Exchange::Write => Checked::Write,
        Exchange::WriteImmediate => Checked::WriteImmediate,
        Exchange::Send => Checked::Send,
    };
    let link = mine.map(|_| 0);
    checking_pass(
        context, &wired, link, checked, spec.size, arrival, placement,
    )
    .await?;
    if mine.is_some() {
        // A message overlaps the ends of those at earlier addresses; its contents there must not
        // equal a tag.
        wired.region.write(0, &vec![0; spec.size])?;
        wired.region.store_byte(arrival + spec.size - 1, 0);
        if spec.exchange != Exchange::Write {
            wired
                .post_receives(0, (arrival, spec.size + header), RECEIVES)
                .await?;
        }
    }
    agree(context, &[]).await?;
    let members: Vec<usize> = {
        let mut all: Vec<usize> = pairs.iter().flatten().copied().collect();
        all.sort_unstable();
        all
    };
    let role = match mine {
        Some(pair) if pair[0] == rank => Role::Timed,
        Some(_) => Role::Answering,
        None => Role::Idle,
    };
    let leaves = [wired.slice((0, spec.size))];
    let table = mine.map(|_| {
        let to = wired.remotes[peers[0]].at(arrival);
        let operation = match spec.exchange {
            Exchange::Write => Operation::Write { to },
            Exchange::WriteImmediate => Operation::WriteImmediate { to, immediate: 0 },
            Exchange::Send => Operation::Send,
        };
        Table {
            wired: &wired,
            spec,
            offsets,
            sent: wired.request(0, operation, &leaves, Signal::Signalled, placement),
            arriving: spec.size + header,
        }
    });
    let answering: Vec<usize> = pairs.iter().map(|pair| pair[1]).collect();
    let mut waits = Vec::new();
    let mut sampled = sample(context, &members, role, mode, async |i| {
        let Some(table) = &table else {
            return Ok(());
        };
        if role == Role::Timed {
            table.send_message(i).await?;
            return table.receive_message(i).await;
        }
        table.receive_message(i).await?;
        if mode == Mode::Lockstep {
            let since = context.fabric.now();
            context.fabric.group().barrier(&answering).await?;
            waits.push(context.nanos(context.fabric.now().since(since)));
        }
        table.send_message(i).await
    })
    .await?;
    if mode == Mode::Lockstep {
        subtract(context, &mut sampled, pairs, &waits).await?;
    }
    let sampled = sampled.scaled(0.5);
    emit(
        context,
        parameters,
        sampled,
        pairs,
        "one-way-latency",
        floor(context),
        members.len(),
    );
    Ok(())
}

/// Returns the setup for messages that are inline as specified, and their placement.
fn inlined<F: Fabric>(
    context: &Context<'_, F>,
    spec: PingPong,
    setup: Setup,
) -> (Setup, Placement) {
    let up_to = |most| setup.inline_up_to(spec.size, context.inline_most(most));
    match spec.inlining {
        Inlining::Usual => up_to(INLINE_BY_DEFAULT),
        Inlining::UpTo(most) => up_to(most),
        Inlining::Fixed(Placement::Inline) => (
            Setup {
                inline: spec.size as u32,
                ..setup
            },
            Placement::Inline,
        ),
        Inlining::Fixed(Placement::Reference) => (setup, Placement::Reference),
    }
}

/// Subtracts the answering processes' waits in the barrier from the times of their pairs.
async fn subtract<F: Fabric>(
    context: &Context<'_, F>,
    sampled: &mut Sampled,
    pairs: &[[usize; 2]],
    waits: &[f64],
) -> Outcome<()> {
    let told = agree(context, &pack(waits)).await?;
    for pair in pairs {
        let waits = unpack(&told[pair[1]]);
        let waits = waits.get(sampled.first as usize..).unwrap_or_default();
        for (at, value) in sampled.singles[pair[0]].iter_mut().enumerate() {
            let wait = waits.get(at).copied().unwrap_or(0.0);
            *value = (*value - wait).max(0.0);
        }
    }
    Ok(())
}

struct Table<'a, F: Fabric> {
    wired: &'a Wired<F>,
    spec: PingPong,
    offsets: BufferOffsets,
    sent: WorkRequest<'a, F>,
    /// Length of a receive in bytes.
    arriving: usize,
}

impl<F: Fabric> Table<'_, F> {
    #[inline]
    async fn send_message(&self, i: u64) -> Result<()> {
        let mut sent = self.sent;
        match &mut sent.operation {
            Operation::Write { to } => {
                *to = self.place(i);
                self.wired.region.store_byte(self.spec.size - 1, tag(i));
            }
            Operation::WriteImmediate { to, immediate } => {
                *to = self.place(i);
                *immediate = i as u32;
            }
            _ => {}
        }
        self.wired.links[0]
            .pair
            .post_send(slice::from_ref(&sent))
            .await?;
        // While the message is in flight, replace the receive request that the next message
        // consumes.
        if self.spec.exchange != Exchange::Write {
            let local = [self.wired.slice((self.offsets.of(i), self.arriving))];
            let received = ReceiveRequest {
                id: 0,
                local: &local,
            };
            self.wired.post_receive_list(0, &[received]).await?;
        }
        self.wired.sends.done(self.spec.wait).await
    }

    /// Returns the remote address of message `i`.
    #[inline]
    fn place(&self, i: u64) -> Remote {
        self.wired.remotes[self.wired.links[0].peer].at(self.offsets.of(i))
    }

    #[inline]
    async fn receive_message(&self, i: u64) -> Result<()> {
        let size = self.spec.size;
        if self.spec.exchange == Exchange::Write {
            return self
                .wired
                .region
                .until_byte(self.offsets.of(i) + size - 1, tag(i))
                .await;
        }
        self.wired.receives.done(self.spec.wait).await
    }
}

fn tag(i: u64) -> u8 {
    (1 + i % TAGS) as u8
}

/// Emits a point from the samples of the first process of each pair; failed pairs become separate
/// failures.
pub fn emit<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    sampled: Sampled,
    pairs: &[[usize; 2]],
    metric: &str,
    bound: Option<Bound>,
    active: usize,
) {
    for (rank, reason) in &sampled.out {
        let mut parameters = parameters.clone();
        if let Some(pair) = pairs.iter().position(|pair| pair.contains(rank)) {
            parameters.insert("pair".to_owned(), pair.into());
        }
        context.emit(crate::Record::Failure(verbena_measure::result::Failure {
            benchmark: context.benchmark.to_owned(),
            launch: context.launch,
            parameters,
            reason: format!("process {rank}: {reason}"),
            unsupported: false,
        }));
    }
    let out = |pair: &[usize; 2]| sampled.out.iter().any(|(rank, _)| pair.contains(rank));
    let by_pair: Vec<(usize, [usize; 2], Times)> = pairs
        .iter()
        .enumerate()
        .filter(|(_, pair)| !out(pair))
        .filter_map(|(k, pair)| {
            let times = sampled.of_ranks([pair[0]].into_iter());
            times.map(|times| (k, *pair, times))
        })
        .collect();
    let initiators = by_pair.iter().map(|(_, ranks, _)| ranks[0]);
    let Some(together) = sampled.of_ranks(initiators) else {
        return;
    };
    let mut warnings = sampled.warnings;
    warnings.extend(Metric::unconverged(together.level()));
    let mut metrics = vec![Metric::times(metric, &together).bounded(bound)];
    let results: Vec<PairResult> = by_pair
        .iter()
        .map(|(pair, ranks, times)| PairResult {
            pair: *pair,
            ranks: *ranks,
            value: times.median(),
            min: times.singles.min(),
            max: times.singles.max(),
        })
        .collect();
    if results.len() > 1 {
        let worst = results
            .iter()
            .max_by(|a, b| a.value.total_cmp(&b.value))
            .expect("several");
        metrics.push(Metric::figure(
            "worst-pair",
            "ns",
            Better::Lower,
            worst.value,
        ));
        warnings.extend(straggler(&results));
    }
    let pair_results = if results.len() > 1 {
        results
    } else {
        Vec::new()
    };
    let mut conduct = sampled.conduct;
    conduct.validated = true;
    context.point(parameters, metrics, pair_results, conduct, warnings, active);
}

/// Returns a warning for a pair that is far slower than the median pair, if there is one.
pub fn straggler(results: &[PairResult]) -> Option<Warning> {
    let medians = Sample::new(results.iter().map(|result| result.value).collect())?;
    let worst = results.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    // With two pairs the median lies between them; then compare with the other pair.
    let usual = if results.len() == 2 {
        medians.min()
    } else {
        medians.median()
    };
    let ratio = worst.value / usual;
    (ratio > STRAGGLER).then_some(Warning::Straggler {
        pair: worst.pair,
        ratio,
    })
}

/// Returns the lower bound for messages through memory: a cache line between cores.
fn floor<F: Fabric>(context: &Context<'_, F>) -> Option<Bound> {
    let floor = context.options.floor_latency;
    floor
        .filter(|_| context.is_through_memory())
        .map(|value| Bound {
            value,
            reason: "a cache line from one core to another on this host".to_owned(),
        })
}
