//! What is known of the way from an address of ours to one of another host: whether packets pass by UDP, and the tunnels
//! that there are.

use super::line::Line;
use super::trial::Verdict;
use super::{Order, Orders};
use crate::errno::{Errno, Result};
use crate::roce::path::Sender;
use crate::roce::residence::Residence;
use crate::roce::steering::slot_of;
use crate::roce::tunnel::frame::Envelope;
use crate::sys::clock;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbena_wire::Qpn;

/// Nanoseconds for which it is believed that UDP passes, or that there is nothing but UDP.
const BELIEVED: u64 = 60_000_000_000;
/// The same where a tunnel that was in use is gone and could not be made again.
const DOUBTED: u64 = 1_000_000_000;
/// Nanoseconds before a tunnel that could not be had is sought again.
const RESPITE: u64 = 500_000_000;
/// Nanoseconds after which it is not being found out any more, whatever has become of who was at it.
const SEARCH: u64 = 3_000_000_000;
/// How long who must know waits until somebody is found, or not, at the other end...
const UNTIL_FOUND: Duration = Duration::from_millis(50);
/// ...and then until it is known whether UDP passes.
const UNTIL_TRIED: Duration = Duration::from_millis(400);

/// A process of a host, as packets name it: where it is reached, and its slot; 0 is anybody.
pub type Berth = (Residence, u32);

/// How packets get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// By UDP, for nobody has asked.
    Unknown,
    /// It is being found out: somebody is sought there, or has been found. By UDP where nobody was found yet, or somebody was heard
    /// by it; else through the tunnel, for what is sent of datagrams meanwhile would be lost for good.
    Sought { found: bool, until: u64 },
    /// By UDP; asked again after that time.
    Direct { until: u64 },
    /// Through tunnels.
    Tunnelled,
}

#[derive(Debug)]
struct State {
    standing: Standing,
    /// Whether something was answered by UDP, or a trial has passed and none has failed since.
    is_heard: bool,
    lines: BTreeMap<Berth, Arc<Line>>,
    /// Tunnels that are sought, and when they may be sought again.
    sought: BTreeMap<Berth, u64>,
}

/// The way from an address of ours to one of another host.
#[derive(Debug)]
pub struct Far {
    /// Ours.
    pub local: Ipv6Addr,
    /// Theirs.
    pub remote: Ipv6Addr,
    is_tunnelled: AtomicBool,
    state: Mutex<State>,
    known: Condvar,
    orders: Arc<Orders>,
}

impl Far {
    /// Nothing is known.
    pub(super) fn new(local: Ipv6Addr, remote: Ipv6Addr, orders: Arc<Orders>) -> Far {
        Far {
            local,
            remote,
            is_tunnelled: AtomicBool::new(false),
            state: Mutex::new(State {
                standing: Standing::Unknown,
                is_heard: false,
                lines: BTreeMap::new(),
                sought: BTreeMap::new(),
            }),
            known: Condvar::new(),
            orders,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue pair of ours has been answered: of one that is served by UDP, what is sent shall not overtake itself.
    pub fn heard(&self) {
        let mut state = self.lock();
        state.is_heard |= state.lines.is_empty();
    }

    /// Whether packets go through tunnels.
    #[inline]
    pub fn is_tunnelled(&self) -> bool {
        self.is_tunnelled.load(Ordering::Relaxed)
    }

    /// Sends packets of one receiver through a tunnel. Where there is none to him one is sought, and these are lost.
    ///
    /// # Errors
    /// As [`Line::send_packets`].
    pub fn send(&self, sender: &Arc<Sender>, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        let berth = berth_of(bytes, envelope.destination_port);
        let line = self.lock().line(berth);
        match line {
            Some(line) => line.send_packets(envelope, bytes),
            None => {
                self.seek(berth, sender);
                Err(Errno::EAGAIN)
            }
        }
    }

    /// Has a tunnel sought, if nobody is at that already.
    fn seek(&self, berth: Berth, sender: &Arc<Sender>) {
        let now = clock::now();
        let is_new = {
            let mut state = self.lock();
            state.sought.retain(|_, until| now < *until);
            state.sought.insert(berth, now + RESPITE).is_none()
        };
        if is_new {
            self.orders.give(Order {
                far: self.orders.far_of(self.local, self.remote),
                berth,
                sender: sender.clone(),
            });
        }
    }

    /// Has it found out whether UDP passes, where that is not known. Returns whether somebody has to see to it.
    pub fn inquire(&self, berth: Berth, sender: &Arc<Sender>) -> bool {
        {
            let mut state = self.lock();
            let now = clock::now();
            match state.standing {
                Standing::Unknown => (),
                Standing::Direct { until } | Standing::Sought { until, .. } if until <= now => (),
                _ => return false,
            }
            let found = !state.lines.is_empty();
            let until = now + SEARCH;
            self.stands(&mut state, Standing::Sought { found, until });
            state.sought.remove(&berth);
        }
        self.seek(berth, sender);
        true
    }

    /// Waits until it is known how packets get there, but not for long.
    pub fn wait_until_known(&self) {
        let began = Instant::now();
        let mut state = self.lock();
        while let Standing::Sought { found, .. } = state.standing {
            let patience = match found {
                false => UNTIL_FOUND,
                true => UNTIL_TRIED,
            };
            let Some(rest) = patience.checked_sub(began.elapsed()) else {
                return;
            };
            let waited = self.known.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn stands(&self, state: &mut State, standing: Standing) {
        state.standing = standing;
        let is_tunnelled = match standing {
            Standing::Tunnelled => true,
            Standing::Sought { found, .. } => found && !state.is_heard,
            Standing::Unknown | Standing::Direct { .. } => false,
        };
        self.is_tunnelled.store(is_tunnelled, Ordering::Relaxed);
        self.known.notify_all();
    }

    /// Somebody is there. Returns whether it is to be tried whether UDP passes.
    pub(super) fn found(&self, berth: Berth, line: &Arc<Line>) -> bool {
        let mut state = self.lock();
        state.lines.insert(berth, line.clone());
        state.sought.remove(&berth);
        match state.standing {
            Standing::Tunnelled => false,
            _ => {
                let until = clock::now() + SEARCH;
                self.stands(&mut state, Standing::Sought { found: true, until });
                true
            }
        }
    }

    /// Whether who calls from another address than this may speak for it: not where UDP is known to reach it, and not in the place
    /// of one who called from elsewhere and is there.
    pub(super) fn may_be_translated(&self, berth: Berth, caller: Ipv6Addr) -> bool {
        let state = self.lock();
        let is_same = |line: &Arc<Line>| line.peer().is_ok_and(|peer| peer.ip == caller);
        !state.is_heard
            && state
                .lines
                .get(&berth)
                .is_none_or(|line| line.is_broken() || is_same(line))
    }

    /// Whether there is a tunnel to somebody who is reached there.
    pub fn has_line(&self, residence: Residence) -> bool {
        self.lock().line((residence, 0)).is_some()
    }

    /// Whether packets go by UDP, and pass.
    pub(super) fn is_direct(&self) -> bool {
        let state = self.lock();
        state.is_heard && matches!(state.standing, Standing::Direct { .. })
    }

    /// Nobody of ours is there.
    pub(super) fn not_found(&self) {
        let mut state = self.lock();
        let believed = match state.standing {
            Standing::Sought { found: false, .. } => BELIEVED,
            Standing::Tunnelled if state.lines.is_empty() => DOUBTED,
            _ => return,
        };
        let until = clock::now() + believed;
        self.stands(&mut state, Standing::Direct { until });
    }

    /// What a trial has come to. Returns whether that is new.
    pub(super) fn tried(&self, verdict: Verdict) -> bool {
        let mut state = self.lock();
        let standing = match verdict {
            Verdict::Passes => Standing::Direct {
                until: clock::now() + BELIEVED,
            },
            Verdict::Fails => Standing::Tunnelled,
        };
        let is_new = state.standing != standing;
        state.is_heard = verdict == Verdict::Passes;
        self.stands(&mut state, standing);
        is_new
    }

    /// A tunnel has ended.
    pub(super) fn lost(&self, line: &Arc<Line>) {
        let mut state = self.lock();
        state.lines.retain(|_, one| !Arc::ptr_eq(one, line));
        if let Standing::Sought { .. } = state.standing
            && state.lines.is_empty()
        {
            self.stands(&mut state, Standing::Unknown);
        }
    }

    /// Whether there is no tunnel.
    pub(super) fn is_nothing(&self) -> bool {
        self.lock().lines.is_empty()
    }
}

impl State {
    fn line(&self, (residence, slot): Berth) -> Option<Arc<Line>> {
        let found = match slot {
            // Whoever it is.
            0 => {
                let of_residence = (residence, 0)..=(residence, u32::MAX);
                self.lines.range(of_residence).next().map(|(_, line)| line)
            }
            _ => self.lines.get(&(residence, slot)),
        };
        found.cloned()
    }
}

/// Whom packets are for. Queue pair 1 is the host's, and where it is reached the UDP port says; else the number does.
fn berth_of(packets: &[u8], port: u16) -> Berth {
    let number = packets
        .get(5..8)
        .map_or(0, |b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
    let number = Qpn::new(number);
    let residence = match number {
        Qpn::GSI => Residence::of_port(port).unwrap_or(Residence::PUBLIC),
        number => Residence::of_number(number),
    };
    (residence, slot_of(packets))
}

/// Who a queue pair is.
pub fn berth_of_queue_pair(number: Qpn) -> Berth {
    let residence = Residence::of_number(number);
    (
        residence,
        (number.value() >> 8) & crate::roce::steering::SLOT_BITS,
    )
}
