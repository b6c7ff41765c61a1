//! Reads algorithms of MSCCL as schedules.
//!
//! ```text
//! <algo name="ring" nchunksperloop="2" nchannels="1" proto="Simple" ngpus="2">
//!   <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
//!     <tb id="0" send="1" recv="1" chan="0">
//!       <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"
//!             depid="-1" deps="-1" hasdep="0"/>
//! ```
//!
//! A GPU is a rank, a thread block a core of it that executes its steps in order. A step can wait
//! for another block's step (`depid`, `deps`). A send occupies its block until it has begun, as the
//! channel buffers it; a receive until it has ended. Steps that only copy or reduce take no time,
//! nor does the reduction of a received chunk: the format has no rate. The buffer is
//! transferred in one loop. Source: the interpreter of microsoft/msccl (recalled, not checked), and
//! generators in public repositories.

use super::schedule::{Action, Operation, Schedule, refuse_circles};
use super::text::{Fault, MOST_BYTES, MOST_RANKS};
use super::xml::{Tag, Tags};
use std::collections::BTreeMap;

/// Types of steps: whether the step receives, and whether it sends.
const TYPES: [(&str, bool, bool); 9] = [
    ("s", false, true),
    ("r", true, false),
    ("rcs", true, true),
    ("rrs", true, true),
    ("rrc", true, false),
    ("rrcs", true, true),
    ("cpy", false, false),
    ("re", false, false),
    ("nop", false, false),
];

struct Step {
    line: usize,
    receives: bool,
    sends: bool,
    chunks: u64,
    /// Thread block and step that must precede it.
    after: Option<(usize, usize)>,
}

struct Block {
    line: usize,
    id: usize,
    send: Option<usize>,
    receive: Option<usize>,
    channel: u32,
    steps: Vec<Step>,
}

/// The thread blocks of each GPU, and the number of chunks of the buffer.
struct Algorithm {
    line: usize,
    chunks: u64,
    ranks: Option<usize>,
    gpus: BTreeMap<usize, Vec<Block>>,
}

/// Returns whether a text is an algorithm of MSCCL.
pub fn is_msccl(text: &str) -> bool {
    matches!(Tags::new(text).next(), Ok(Some(tag)) if tag.name == "algo")
}

/// Reads an algorithm that transfers a buffer of `bytes` bytes.
pub(super) fn read(text: &str, bytes: u64) -> Result<Schedule, Fault> {
    let algorithm = parse(text)?;
    let most = algorithm.gpus.keys().max().map_or(0, |most| most + 1);
    let ranks = algorithm.ranks.unwrap_or(most);
    if most > ranks || algorithm.gpus.len() != ranks || ranks == 0 {
        let reason = format!(
            "{} GPUs are described, the largest id is {}, and `ngpus` is {ranks}",
            algorithm.gpus.len(),
            most.saturating_sub(1)
        );
        return Err(fault(algorithm.line, reason));
    }
    check_connections(&algorithm, ranks)?;
    let bytes_of = |chunks: u64| {
        let exact = u128::from(bytes) * u128::from(chunks);
        exact.div_ceil(u128::from(algorithm.chunks))
    };
    let mut total = 0;
    for step in algorithm.gpus.values().flatten().flat_map(|b| &b.steps) {
        total += bytes_of(step.chunks) * u128::from(step.sends);
        if total > u128::from(MOST_BYTES) {
            let reason = format!("more than {MOST_BYTES} bytes are sent so far");
            return Err(fault(step.line, reason));
        }
    }
    let mut schedule = Schedule {
        ranks,
        operations: BTreeMap::new(),
    };
    for (rank, blocks) in &algorithm.gpus {
        // At most MOST_BYTES, by the sum above, as every receive has its send.
        let operations = operations(blocks, |chunks| bytes_of(chunks) as u64)?;
        refuse_circles(&operations)?;
        if !operations.is_empty() {
            schedule.operations.insert(*rank, operations);
        }
    }
    Ok(schedule)
}

fn fault(line: usize, reason: String) -> Fault {
    Fault { line, reason }
}

/// Returns a GPU's operations. Each step is one operation, or a receive and a send.
fn operations(blocks: &[Block], bytes_of: impl Fn(u64) -> u64) -> Result<Vec<Operation>, Fault> {
    let mut all: Vec<Operation> = Vec::new();
    // First and last operation of each step of each block.
    let mut ends: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (cpu, block) in (0..=u8::MAX).zip(blocks) {
        let steps = ends.entry(block.id).or_default();
        for step in &block.steps {
            let (bytes, first) = (bytes_of(step.chunks), all.len());
            let mut push = |action| {
                all.push(Operation {
                    line: step.line,
                    action,
                    cpu,
                    requires: Vec::new(),
                    requires_begun: Vec::new(),
                });
            };
            if let (true, from @ Some(_)) = (step.receives, block.receive) {
                let tag = Some(block.channel);
                push(Action::Receive { from, bytes, tag });
            }
            if let (true, Some(to)) = (step.sends, block.send) {
                let tag = block.channel;
                push(Action::Send { to, bytes, tag });
            }
            if !step.receives && !step.sends {
                push(Action::Calculate { nanos: 0 });
            }
            steps.push((first, all.len() - 1));
        }
    }
    for block in blocks {
        for (number, step) in block.steps.iter().enumerate() {
            let (first, last) = ends[&block.id][number];
            if last > first {
                all[last].requires.push(first);
            }
            if let Some(before) = number.checked_sub(1) {
                follow(&mut all, first, ends[&block.id][before].1);
            }
            if let Some((id, number)) = step.after {
                let Some((_, end)) = ends.get(&id).and_then(|steps| steps.get(number)) else {
                    let reason = format!("there is no step {number} of thread block {id}");
                    return Err(fault(step.line, reason));
                };
                follow(&mut all, first, *end);
            }
        }
    }
    Ok(all)
}

/// Lets an operation follow another: after its beginning if that is a send, otherwise its end.
fn follow(all: &mut [Operation], next: usize, before: usize) {
    match all[before].action {
        Action::Send { .. } => all[next].requires_begun.push(before),
        _ => all[next].requires.push(before),
    }
}

/// Checks that the n-th send of a connection has as many chunks as its n-th receive.
fn check_connections(algorithm: &Algorithm, ranks: usize) -> Result<(), Fault> {
    // Source, destination and channel.
    let mut sends = BTreeMap::new();
    let mut receives = BTreeMap::new();
    for (&rank, blocks) in &algorithm.gpus {
        for block in blocks {
            for peer in [block.send, block.receive].into_iter().flatten() {
                if peer >= ranks || peer == rank {
                    let reason = format!("GPU {rank} has no peer {peer}");
                    return Err(fault(block.line, reason));
                }
            }
            let channel = block.channel;
            let to = block.send.map(|to| (rank, to, channel));
            let from = block.receive.map(|from| (from, rank, channel));
            for (one, all, verb) in [(to, &mut sends, "sends"), (from, &mut receives, "receives")] {
                let Some(key) = one else { continue };
                if let Some(other) = all.insert(key, block) {
                    let (id, channel) = (other.id, block.channel);
                    let reason = format!("thread block {id} {verb} on channel {channel}, too");
                    return Err(fault(block.line, reason));
                }
            }
        }
    }
    let lengths = |block: Option<&&Block>, wanted: fn(&Step) -> bool| -> Vec<(usize, u64)> {
        let steps = block.into_iter().flat_map(|block| &block.steps);
        let steps = steps.filter(|step| wanted(step));
        steps.map(|step| (step.line, step.chunks)).collect()
    };
    let keys = sends.keys().chain(receives.keys());
    for &(from, to, channel) in keys {
        let key = (from, to, channel);
        let sent = lengths(sends.get(&key), |step| step.sends);
        let received = lengths(receives.get(&key), |step| step.receives);
        let name = format!("from GPU {from} to GPU {to} on channel {channel}");
        for ((line, sent), (_, received)) in sent.iter().zip(&received) {
            if sent != received {
                let reason = format!(
                    "a message {name} has {sent} chunks for the sender, {received} for the receiver"
                );
                return Err(fault(*line, reason));
            }
        }
        let both = sent.len().min(received.len());
        let extra = sent.get(both).or(received.get(both));
        if let Some((line, _)) = extra {
            let (sent, received) = (sent.len(), received.len());
            let reason = format!("{sent} messages are sent {name}, and {received} received");
            return Err(fault(*line, reason));
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Algorithm, Fault> {
    let mut tags = Tags::new(text);
    let Some(algo) = tags.next()?.filter(|tag| tag.name == "algo") else {
        return Err(fault(1, "an element <algo> is expected".to_owned()));
    };
    let chunks = algo.number("nchunksperloop", None)?.unwrap_or(0);
    let ranks = algo.number("ngpus", None);
    let ranks = match algo.has("ngpus") {
        true => ranks?.map(|ranks| ranks as usize),
        false => None,
    };
    if chunks == 0 || ranks.is_some_and(|ranks| ranks as u64 > MOST_RANKS) {
        let reason = format!("at least one chunk and at most {MOST_RANKS} GPUs are expected");
        return Err(fault(algo.line, reason));
    }
    let mut algorithm = Algorithm {
        line: algo.line,
        chunks,
        ranks,
        gpus: BTreeMap::new(),
    };
    // The open elements within <algo>.
    let mut gpu: Option<usize> = None;
    let mut block: Option<Block> = None;
    while let Some(tag) = tags.next()? {
        match (tag.name, tag.ends, gpu, &mut block) {
            ("gpu", false, None, None) => {
                let id = tag.number("id", None)?.unwrap_or(0);
                if id >= MOST_RANKS || algorithm.gpus.contains_key(&(id as usize)) {
                    let reason = format!("GPU {id} is out of range or described twice");
                    return Err(fault(tag.line, reason));
                }
                algorithm.gpus.insert(id as usize, Vec::new());
                gpu = (!tag.empty).then_some(id as usize);
            }
            ("tb", false, Some(gpu), None) => {
                let new = begun(&tag)?;
                let blocks = algorithm.gpus.entry(gpu).or_default();
                if blocks.len() > usize::from(u8::MAX) || blocks.iter().any(|b| b.id == new.id) {
                    let reason = format!(
                        "thread block {} is described twice, or there are more than 256",
                        new.id
                    );
                    return Err(fault(tag.line, reason));
                }
                match tag.empty {
                    true => blocks.push(new),
                    false => block = Some(new),
                }
            }
            ("step", false, Some(_), Some(open)) if tag.empty => {
                let step = step(&tag, open)?;
                open.steps.push(step);
            }
            ("tb", true, Some(gpu), Some(_)) => {
                algorithm.gpus.entry(gpu).or_default().extend(block.take());
            }
            ("gpu", true, Some(_), None) => gpu = None,
            ("algo", true, None, None) => {
                return match tags.next()? {
                    None => Ok(algorithm),
                    Some(more) => Err(fault(more.line, "text after </algo>".to_owned())),
                };
            }
            (name, ends, ..) => {
                let slash = if ends { "/" } else { "" };
                let reason = format!("<{slash}{name}> is not expected here");
                return Err(fault(tag.line, reason));
            }
        }
    }
    Err(fault(tags.line(), "</algo> is missing".to_owned()))
}

fn begun(tag: &Tag<'_>) -> Result<Block, Fault> {
    let peer = |name: &str| -> Result<Option<usize>, Fault> {
        Ok(tag.number(name, Some(-1))?.map(|peer| peer as usize))
    };
    Ok(Block {
        line: tag.line,
        id: tag.number("id", None)?.unwrap_or(0) as usize,
        send: peer("send")?,
        receive: peer("recv")?,
        channel: tag.number("chan", None)?.unwrap_or(0) as u32,
        steps: Vec::new(),
    })
}

fn step(tag: &Tag<'_>, block: &Block) -> Result<Step, Fault> {
    let number = tag.number("s", None)?.unwrap_or(0);
    let expected = block.steps.len() as u64;
    if number != expected {
        let reason = format!("step {number} where step {expected} is expected");
        return Err(fault(tag.line, reason));
    }
    let kind = tag.value("type").unwrap_or("");
    let Some(&(_, receives, sends)) = TYPES.iter().find(|one| one.0 == kind) else {
        let known: Vec<_> = TYPES.iter().map(|one| one.0).collect();
        let reason = format!("a step has type {kind:?}; known are {}", known.join(", "));
        return Err(fault(tag.line, reason));
    };
    for (uses, peer, name) in [
        (sends, block.send, "send"),
        (receives, block.receive, "recv"),
    ] {
        if uses && peer.is_none() {
            let id = block.id;
            let reason = format!("type {kind:?} needs `{name}` of thread block {id}");
            return Err(fault(tag.line, reason));
        }
    }
    let chunks = match tag.has("cnt") {
        true => tag.number("cnt", None)?.unwrap_or(0),
        false => 1,
    };
    let after = match tag.has("depid") {
        true => tag.number("depid", Some(-1))?,
        false => None,
    };
    let after = match after {
        Some(id) => {
            let number = tag.number("deps", None)?.unwrap_or(0);
            Some((id as usize, number as usize))
        }
        None => None,
    };
    Ok(Step {
        line: tag.line,
        receives,
        sends,
        chunks,
        after,
    })
}
