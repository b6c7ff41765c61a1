//! Checks of the contract in the crate's documentation, for any implementation: both processes of a
//! job of two run each check.
//!
//! A failed check returns a text with the broken rule. A check of an unsupported feature returns
//! [`Outcome::NotOffered`] if the capabilities report it as unsupported.

use crate::*;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rule holds.
    Holds,
    /// The fabric does not support the feature.
    NotOffered,
}

/// Return type of a check.
pub type Checked = std::result::Result<Outcome, String>;

/// Names of all checks, for [`check`].
pub const CHECKS: [&str; 9] = [
    "write-places-bytes",
    "read-fetches-bytes",
    "lists-order-and-silence",
    "send-receive-immediate",
    "gather-scatter",
    "atomics",
    "inline-captures",
    "bounds-are-enforced",
    "datagram-header-space",
];

/// Runs the named check; both processes of the job must call it.
///
/// # Errors
///
/// Returns a text with the broken rule, or the failed call.
pub async fn check<F: Fabric>(fabric: &F, name: &str) -> Checked {
    match name {
        "write-places-bytes" => write_places_bytes(fabric).await,
        "read-fetches-bytes" => read_fetches_bytes(fabric).await,
        "lists-order-and-silence" => lists_order_and_silence(fabric).await,
        "send-receive-immediate" => send_receive_immediate(fabric).await,
        "gather-scatter" => gather_scatter(fabric).await,
        "atomics" => atomics(fabric).await,
        "inline-captures" => inline_captures(fabric).await,
        "bounds-are-enforced" => bounds_are_enforced(fabric).await,
        "datagram-header-space" => datagram_header_space(fabric).await,
        other => Err(format!("no check is called {other}")),
    }
}

const LENGTH: usize = 16384;

/// Two connected processes, each with a region and a completion queue.
struct Two<'a, F: Fabric> {
    fabric: &'a F,
    region: F::Region,
    peer_region: RemoteRegion,
    completions: F::Completions,
    pair: F::Pair,
    peer: Endpoint,
}

fn text(error: Error) -> String {
    error.to_string()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> std::result::Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl<'a, F: Fabric> Two<'a, F> {
    async fn new(fabric: &'a F, transport: Transport) -> Result<Self> {
        let group = fabric.group();
        let access = if fabric.capabilities().operations.atomics {
            Access::ALL
        } else {
            Access::READ_WRITE
        };
        let region = fabric.region(LENGTH, access).await?;
        let completions = fabric
            .completions(QueueRequest {
                depth: 256,
                wait: Wait::Poll,
            })
            .await?;
        let inline = fabric.capabilities().max_inline.min(64);
        let segments = fabric.capabilities().max_segments.min(4);
        let request = PairRequest {
            transport,
            inline,
            segments,
            ..PairRequest::<F>::rc(&completions)
        };
        let pair = fabric.pair(request).await?;
        let mut mine = pair.endpoint().to_bytes().to_vec();
        mine.extend(region.remote().to_bytes());
        let all = group.all_gather(&mine).await?;
        let other = &all[1 - group.rank()];
        let peer = Endpoint::from_bytes(&other[..Endpoint::BYTES])?;
        let peer_region = RemoteRegion::from_bytes(&other[Endpoint::BYTES..])?;
        pair.connect(&peer).await?;
        group.barrier(&[0, 1]).await?;
        Ok(Two {
            fabric,
            region,
            peer_region,
            completions,
            pair,
            peer,
        })
    }

    fn first(&self) -> bool {
        self.fabric.group().rank() == 0
    }

    async fn done(&self) -> Checked {
        self.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
        Ok(Outcome::Holds)
    }

    async fn post(&self, id: u64, operation: Operation, at: usize, length: usize) -> Result<()> {
        let local = [Slice::new(&self.region, at, length)];
        self.pair
            .post_send(&[WorkRequest::new(id, operation, &local)])
            .await
    }
}

async fn write_places_bytes<F: Fabric>(fabric: &F) -> Checked {
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    let sent: Vec<u8> = (0..1000u32).map(|i| (i * 7 + 1) as u8).collect();
    if two.first() {
        two.region.write(100, &sent).map_err(text)?;
        let write = Operation::Write {
            to: two.peer_region.at(5000),
        };
        two.post(1, write, 100, sent.len()).await.map_err(text)?;
        let done = two.completions.one(Wait::Poll).await.map_err(text)?;
        ensure(done.id == 1, || {
            format!("rule 3: completion {} for request 1", done.id)
        })?;
        // The peer polls this byte, which must arrive after all earlier bytes.
        two.region.store_byte(0, 0xA5);
        let write = Operation::Write {
            to: two.peer_region.at(LENGTH - 1),
        };
        two.post(2, write, 0, 1).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
    } else {
        two.region
            .until_byte(LENGTH - 1, 0xA5)
            .await
            .map_err(text)?;
        let mut found = vec![0; sent.len() + 2];
        two.region.read(4999, &mut found).map_err(text)?;
        ensure(found[1..=sent.len()] == sent, || {
            "rule 2: written bytes differ".to_owned()
        })?;
        ensure(found[0] == 0 && found[sent.len() + 1] == 0, || {
            "rule 2: a write touched other bytes".to_owned()
        })?;
    }
    two.done().await
}

async fn read_fetches_bytes<F: Fabric>(fabric: &F) -> Checked {
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    let bytes: Vec<u8> = (0..500u32).map(|i| (i * 3 + 5) as u8).collect();
    two.region.write(8000, &bytes).map_err(text)?;
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    let read = Operation::Read {
        from: two.peer_region.at(8000),
    };
    two.post(9, read, 64, bytes.len()).await.map_err(text)?;
    two.completions.one(Wait::Poll).await.map_err(text)?;
    let mut found = vec![0; bytes.len()];
    two.region.read(64, &mut found).map_err(text)?;
    ensure(found == bytes, || "rule 2: read bytes differ".to_owned())?;
    two.done().await
}

async fn lists_order_and_silence<F: Fabric>(fabric: &F) -> Checked {
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    if two.first() {
        let local = [Slice::new(&two.region, 0, 8)];
        let list: Vec<_> = (0..12u64)
            .map(|id| {
                let write = Operation::Write {
                    to: two.peer_region.at(id as usize * 8),
                };
                let signal = if id % 3 == 2 {
                    Signal::Signalled
                } else {
                    Signal::Silent
                };
                WorkRequest::new(id, write, &local).signal(signal)
            })
            .collect();
        two.pair.post_send(&list).await.map_err(text)?;
        for expected in [2, 5, 8, 11] {
            let done = two.completions.one(Wait::Poll).await.map_err(text)?;
            ensure(done.id == expected, || {
                format!("rule 3: expected completion {expected}, found {}", done.id)
            })?;
        }
        let mut more = [Completion::default()];
        let extra = two.completions.poll(&mut more).await.map_err(text)?;
        ensure(extra == 0, || {
            format!("rule 3: silent request {} completed", more[0].id)
        })?;
    }
    two.done().await
}

async fn send_receive_immediate<F: Fabric>(fabric: &F) -> Checked {
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    let here = [Slice::new(&two.region, 1024, 256)];
    let receives = [
        ReceiveRequest {
            id: 70,
            local: &here,
        },
        ReceiveRequest { id: 71, local: &[] },
    ];
    two.pair.post_receive(&receives).await.map_err(text)?;
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    if two.first() {
        two.region.write(0, b"what a send carries").map_err(text)?;
        two.post(
            1,
            Operation::SendImmediate {
                immediate: 0x0102_0304,
            },
            0,
            19,
        )
        .await
        .map_err(text)?;
        let write = Operation::WriteImmediate {
            to: two.peer_region.at(4096),
            immediate: 0xF00D_0001,
        };
        two.post(2, write, 0, 19).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
    } else {
        let done = two.completions.one(Wait::Poll).await.map_err(text)?;
        let (id, length, word) = (done.id, done.length, done.immediate);
        ensure(
            id == 70
                && length == 19
                && word == Some(0x0102_0304)
                && done.kind == CompletionKind::Received,
            || format!("rule 4: a send of 19 bytes gave {done:?}"),
        )?;
        let done = two.completions.one(Wait::Poll).await.map_err(text)?;
        ensure(
            done.id == 71
                && done.immediate == Some(0xF00D_0001)
                && done.kind == CompletionKind::ReceivedWrite,
            || format!("rule 4: a write with immediate gave {done:?}"),
        )?;
        for at in [1024, 4096] {
            let mut found = [0; 19];
            two.region.read(at, &mut found).map_err(text)?;
            ensure(&found == b"what a send carries", || {
                format!("rule 4: bytes at {at} differ")
            })?;
        }
    }
    two.done().await
}

async fn gather_scatter<F: Fabric>(fabric: &F) -> Checked {
    if fabric.capabilities().max_segments < 3 {
        return Ok(Outcome::NotOffered);
    }
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    let parts = [
        Slice::new(&two.region, 10, 3),
        Slice::new(&two.region, 600, 0),
        Slice::new(&two.region, 700, 5),
    ];
    let here = [
        Slice::new(&two.region, 2000, 2),
        Slice::new(&two.region, 3000, 10),
    ];
    two.pair
        .post_receive(&[ReceiveRequest {
            id: 5,
            local: &here,
        }])
        .await
        .map_err(text)?;
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    if two.first() {
        two.region.write(10, b"abc").map_err(text)?;
        two.region.write(700, b"defgh").map_err(text)?;
        let list = [WorkRequest::new(4, Operation::Send, &parts)];
        two.pair.post_send(&list).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
    } else {
        let done = two.completions.one(Wait::Poll).await.map_err(text)?;
        let mut found = [0; 8];
        two.region.read(2000, &mut found[..2]).map_err(text)?;
        two.region.read(3000, &mut found[2..]).map_err(text)?;
        ensure(done.length == 8 && &found == b"abcdefgh", || {
            format!(
                "rule 4: gathered and scattered {found:?}, length {}",
                done.length
            )
        })?;
    }
    two.done().await
}

async fn atomics<F: Fabric>(fabric: &F) -> Checked {
    if !fabric.capabilities().operations.atomics {
        return Ok(Outcome::NotOffered);
    }
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    two.region.store_word(512, 40);
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    let at = two.peer_region.at(512);
    two.post(1, Operation::FetchAdd { at, add: 2 }, 0, 8)
        .await
        .map_err(text)?;
    two.completions.one(Wait::Poll).await.map_err(text)?;
    let old = two.region.load_word(0);
    ensure(old == 40, || {
        format!("rule 5: fetch-and-add gave {old}, the old value is 40")
    })?;
    for (id, compare, expected) in [(2, 42, 42), (3, 42, 7)] {
        let swap = Operation::CompareSwap {
            at,
            compare,
            swap: 7,
        };
        two.post(id, swap, 8, 8).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
        let old = two.region.load_word(8);
        ensure(old == expected, || {
            format!("rule 5: compare-and-swap gave {old}, expected {expected}")
        })?;
    }
    two.done().await
}

async fn inline_captures<F: Fabric>(fabric: &F) -> Checked {
    if fabric.capabilities().max_inline < 8 {
        return Ok(Outcome::NotOffered);
    }
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    if two.first() {
        two.region.store_word(0, 0x1234);
        let local = [Slice::new(&two.region, 0, 8)];
        let write = Operation::Write {
            to: two.peer_region.at(64),
        };
        let request = WorkRequest::new(1, write, &local).placement(Placement::Inline);
        two.pair.post_send(&[request]).await.map_err(text)?;
        two.region.store_word(0, 0x9999);
        two.completions.one(Wait::Poll).await.map_err(text)?;
    }
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    if !two.first() {
        let found = two.region.load_word(64);
        ensure(found == 0x1234, || {
            format!("rule 7: inline bytes are {found:#x}, not 0x1234")
        })?;
    }
    two.done().await
}

async fn bounds_are_enforced<F: Fabric>(fabric: &F) -> Checked {
    let two = Two::new(fabric, Transport::Rc).await.map_err(text)?;
    if two.first() {
        let write = Operation::Write {
            to: two.peer_region.at(LENGTH - 8),
        };
        if two.post(1, write, 0, 64).await.is_ok() {
            let mut into = [Completion::default()];
            two.completions
                .wait(&mut into, Wait::Poll)
                .await
                .map_err(text)?;
            ensure(!into[0].status.is_success(), || {
                "rule 6: a write beyond the region succeeded".to_owned()
            })?;
        }
        let beyond = two.post(2, Operation::Send, LENGTH - 4, 8).await;
        ensure(beyond.is_err(), || {
            "rule 6: a slice beyond its region was posted".to_owned()
        })?;
        let write = Operation::Write {
            to: two.peer_region.at(0),
        };
        if two.post(3, write, 0, 8).await.is_ok() {
            let mut into = [Completion::default()];
            two.completions
                .wait(&mut into, Wait::Poll)
                .await
                .map_err(text)?;
            ensure(into[0].status == Status::FLUSHED, || {
                format!(
                    "rule 6: after an error, {} instead of a flush",
                    into[0].status
                )
            })?;
        }
    }
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    let mut found = [0; 8];
    two.region.read(LENGTH - 8, &mut found).map_err(text)?;
    ensure(two.first() || found == [0; 8], || {
        "rule 6: a refused write touched memory".to_owned()
    })?;
    two.done().await
}

async fn datagram_header_space<F: Fabric>(fabric: &F) -> Checked {
    if !fabric.capabilities().transports.ud {
        return Ok(Outcome::NotOffered);
    }
    let two = Two::new(fabric, Transport::Ud).await.map_err(text)?;
    let here = [Slice::new(&two.region, 0, 140)];
    two.pair
        .post_receive(&[ReceiveRequest {
            id: 3,
            local: &here,
        }])
        .await
        .map_err(text)?;
    two.fabric.group().barrier(&[0, 1]).await.map_err(text)?;
    if two.first() {
        two.region.write(1000, &[0x5A; 100]).map_err(text)?;
        let address = fabric.address(&two.peer).await.map_err(text)?;
        let local = [Slice::new(&two.region, 1000, 100)];
        let destination = Destination::Datagram {
            address: &address,
            pair: two.peer.pair,
            key: two.peer.queue_key,
        };
        let request = WorkRequest::<F>::new(1, Operation::Send, &local).to(destination);
        two.pair.post_send(&[request]).await.map_err(text)?;
        two.completions.one(Wait::Poll).await.map_err(text)?;
    } else {
        let done = two.completions.one(Wait::Poll).await.map_err(text)?;
        ensure(done.length == 140, || {
            format!(
                "rule 4: a datagram of 100 bytes reported {} instead of 140",
                done.length
            )
        })?;
        let mut found = [0; 100];
        two.region.read(40, &mut found).map_err(text)?;
        ensure(found == [0x5A; 100], || {
            "rule 4: the payload is not at byte 40".to_owned()
        })?;
    }
    two.done().await
}
