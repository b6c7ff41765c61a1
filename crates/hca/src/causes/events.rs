//! Events of ports and of the adapter that rules bring about: `port1 after 100 requests: down for
//! 50 ms`, `link after 1 s: cut`, `adapter after 2 s: fatal`.
//!
//! A port that goes down does so at once, before the next request begins; a separate thread tells
//! the peers and the program, and takes the port up again. It exists only if there are such rules.
//! An adapter that fails stops as a port does, and for good: requests that have not begun stay in
//! their queues, and the tracer refuses the program's calls.

use super::link as links;
use super::own::own;
use crate::device::Device;
use crate::link::{self, PortChange};
use crate::process::Process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use verbena_faults::event::Event;
use verbena_faults::rule::{Action, Trigger};
use verbena_faults::site::Site;
use verbena_hca_os::start::start;

/// A rule about a port, or about the adapter or all links, whose port is 0.
struct Planned {
    number: usize,
    port: u8,
    trigger: Trigger,
    event: Event,
    is_begun: AtomicBool,
}

struct Events {
    planned: Vec<Planned>,
    /// Requests of the process that have begun.
    requests: AtomicU64,
    /// The process whose thread takes the rules' positions, and its end of the queue.
    process: AtomicU32,
    thread: Mutex<Option<Sender<(usize, Instant)>>>,
}

/// Returns the rules about events; none if there are none.
fn events() -> Option<&'static Events> {
    static EVENTS: OnceLock<Option<Events>> = OnceLock::new();
    EVENTS.get_or_init(Events::named).as_ref()
}

/// Returns whether requests are counted, so that queue pairs leave the fast path.
pub fn count_requests() -> bool {
    let is_by_count = |one: &Planned| matches!(one.trigger, Trigger::AfterRequests(_));
    events().is_some_and(|events| events.planned.iter().any(is_by_count))
}

/// Counts a request that begins, and begins the events that are due before it.
pub fn count() {
    let Some(events) = events() else {
        return;
    };
    let before = events.requests.fetch_add(1, Ordering::Relaxed);
    for (position, one) in events.planned.iter().enumerate() {
        if one.trigger == Trigger::AfterRequests(before) {
            events.begin(position);
        }
    }
}

/// Starts the thread, if there are rules about events and the process has none yet.
pub fn follow(process: &Arc<Process>) {
    let Some(events) = events() else {
        return;
    };
    match events.process.swap(std::process::id(), Ordering::SeqCst) {
        before if before == std::process::id() => return,
        0 => {}
        _ => {
            link::forget_planted();
            links::forget_cuts();
        }
    }
    events.requests.store(0, Ordering::Relaxed);
    for one in &events.planned {
        one.is_begun.store(false, Ordering::Relaxed);
    }
    let (sender, receiver) = channel();
    *events.lock() = Some(sender);
    let process = Arc::downgrade(process);
    if start(c"verbena-faults", 128 << 10, move || {
        events.run(&process, &receiver)
    })
    .is_err()
    {
        // Without it no event begins: the rules are reported as never fired.
        *events.lock() = None;
        events.process.store(0, Ordering::SeqCst);
    }
}

impl Events {
    fn named() -> Option<Events> {
        let mut planned = Vec::new();
        for (number, rule) in own()?.rules() {
            let port = match rule.site {
                Site::Port(port) => port,
                Site::Adapter => 0,
                Site::Link(link) => link.port,
                _ => continue,
            };
            if let Action::Raise(event) = rule.action {
                planned.push(Planned {
                    number,
                    port,
                    trigger: rule.trigger,
                    event,
                    is_begun: AtomicBool::new(false),
                });
            }
        }
        (!planned.is_empty()).then_some(Events {
            planned,
            requests: AtomicU64::new(0),
            process: AtomicU32::new(0),
            thread: Mutex::new(None),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sender<(usize, Instant)>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an event, once. Its port must exist, and not be an Ethernet interface if it is to go
    /// down or to fail.
    fn begin(&self, position: usize) {
        let one = &self.planned[position];
        let exists = one.port == 0 || link::has_port(one.port.into());
        let stops = matches!(one.event, Event::Down(_) | Event::Fatal);
        let is_possible = exists && !(link::is_ethernet() && stops);
        if one.is_begun.swap(true, Ordering::SeqCst) || !is_possible {
            return;
        }
        let thread = self.lock();
        let Some(thread) = &*thread else {
            return;
        };
        match one.event {
            Event::Down(_) => drop(link::plant_down(one.port, true)),
            Event::Fatal => link::plant_failure(),
            Event::Cut(_) => links::cut(one.port, true),
            _ => {}
        }
        if let Some(own) = own() {
            let count = match one.trigger {
                Trigger::AfterRequests(count) => count,
                _ => 1,
            };
            own.note(one.number, one.port.into(), count);
        }
        // The thread lives as long as the process.
        let _ = thread.send((position, Instant::now()));
    }

    /// Begins the events that are due by time, and raises all.
    fn run(&self, process: &Weak<Process>, begun: &Receiver<(usize, Instant)>) {
        let start = Instant::now();
        let mut ends: Vec<(Instant, usize)> = Vec::new();
        loop {
            let of_rule = self.planned.iter().filter_map(|one| match one.trigger {
                Trigger::AfterTime(time) if !one.is_begun.load(Ordering::SeqCst) => {
                    Some(start + time)
                }
                _ => None,
            });
            let next = of_rule.chain(ends.iter().map(|(end, _)| *end)).min();
            let wait = match next {
                Some(next) => next.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            let received = match begun.recv_timeout(wait) {
                Ok(received) => Some(received),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let Some(process) = process.upgrade() else {
                return;
            };
            if let Some((position, began)) = received {
                let one = &self.planned[position];
                raise(&process, one);
                if let Event::Down(Some(time)) | Event::Cut(Some(time)) = one.event {
                    ends.push((began + time, position));
                }
            }
            let now = Instant::now();
            for (position, one) in self.planned.iter().enumerate() {
                if matches!(one.trigger, Trigger::AfterTime(time) if start + time <= now) {
                    self.begin(position);
                }
            }
            ends.retain(|(end, position)| {
                if *end <= now {
                    end_of(&process, &self.planned[*position]);
                }
                *end > now
            });
        }
    }
}

/// Ends an event that lasts for a time.
fn end_of(process: &Arc<Process>, one: &Planned) {
    if matches!(one.event, Event::Cut(_)) {
        links::cut(one.port, false);
        process.link_has_changed();
    } else if !link::has_failed() && !link::plant_down(one.port, false) {
        process.port_has_changed(one.port, PortChange::Active);
    }
}

/// Notifies the peers and the program of an event.
fn raise(process: &Arc<Process>, one: &Planned) {
    let kind = match one.event {
        Event::Down(_) => return process.port_has_changed(one.port, PortChange::Down),
        Event::Lid => verbena_abi::IBV_EVENT_LID_CHANGE,
        Event::Pkey => verbena_abi::IBV_EVENT_PKEY_CHANGE,
        Event::SubnetManager => verbena_abi::IBV_EVENT_SM_CHANGE,
        Event::Gid => verbena_abi::IBV_EVENT_GID_CHANGE,
        Event::Reregister => verbena_abi::IBV_EVENT_CLIENT_REREGISTER,
        Event::Fatal => return process.adapter_has_failed(),
        Event::Cut(_) => return process.link_has_changed(),
    };
    let (device, number) = Device::of_port(one.port);
    process.ports.watch().raise(device, number, kind);
}
