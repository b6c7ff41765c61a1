//! The adapter's own thread: it sleeps until a peer rings, connects, dies, or a deadline comes, and it makes progress
//! when no thread of the application does.
//!
//! While the application polls, the thread would only get in its way: it then looks in once a millisecond and asks
//! nobody to ring. When polling stops, or the application arms a completion queue for an event, it *arms*: peers ring
//! after they stored something. An idle process therefore takes no processor time.

use crate::errno::{Errno, Result};
use crate::path::Peer;
use crate::process::connect;
use crate::process::{Member, Process};
use crate::sys::clock;
use crate::sys::socket::Socket;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often the thread looks in while the application polls.
const LURK_MS: i32 = 1;

/// What a watched socket is.
enum Watched {
    /// Somebody who has connected and not said yet what for.
    Caller(Socket),
    /// A peer whose death it would tell.
    Peer(Arc<Peer>),
}

/// Starts the thread. Signals are the application's: the thread takes none.
pub fn start(process: &Arc<Process>) -> Result<()> {
    let process = process.clone();
    let spawn = || {
        std::thread::Builder::new()
            .name("verbena".into())
            .stack_size(256 << 10)
            .spawn(move || {
                if let Err(error) = run(&process) {
                    eprintln!("verbena: the progress thread stopped: {error}");
                }
            })
            .map(drop)
            .map_err(Errno::from)
    };
    with_signals_blocked(spawn)
}

fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain data, filled before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

struct Poller {
    epoll: OwnedFd,
    watched: HashMap<RawFd, Watched>,
}

fn run(process: &Arc<Process>) -> Result<()> {
    let Some(member) = process.member.get() else {
        return Ok(());
    };
    let mut poller = Poller::new()?;
    poller.add(process.doorbell.as_fd().as_raw_fd())?;
    poller.add(member.listener.as_fd().as_raw_fd())?;
    let mut polls = 0;
    while !process.stopping.load(Ordering::Relaxed) {
        let mut worked = process.progress();
        process.bury_dead();
        let newcomers = process.take_newcomers();
        for peer in newcomers {
            poller.watch_peer(peer)?;
        }
        let polls_now = process.polls.load(Ordering::Relaxed);
        let is_polled = std::mem::replace(&mut polls, polls_now) != polls_now;
        let waits_for_event = process.armed_queues.load(Ordering::SeqCst) > 0;
        let timeout = if is_polled && !waits_for_event {
            LURK_MS
        } else {
            process.desk.set_armed(true);
            // What was stored before we armed rang nobody: look once more.
            worked |= process.progress_before_sleep();
            if worked {
                0
            } else {
                until(process.timers.next())
            }
        };
        poller.wait(process, member, timeout)?;
        process.desk.set_armed(false);
        // A queue that was armed between these two stores is seen here, or its own store comes later than ours.
        if process.armed_queues.load(Ordering::SeqCst) > 0 {
            process.desk.set_armed(true);
        }
    }
    Ok(())
}

/// Milliseconds until a deadline, for epoll_wait.
fn until(deadline: u64) -> i32 {
    if deadline == u64::MAX {
        return -1;
    }
    deadline
        .saturating_sub(clock::now())
        .div_ceil(1_000_000)
        .min(1000) as i32
}

impl Poller {
    fn new() -> Result<Poller> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poller {
            epoll,
            watched: HashMap::new(),
        })
    }

    fn add(&self, fd: RawFd) -> Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: fd as u64,
        };
        // SAFETY: `event` is valid for the call.
        let answer =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if answer != 0 {
            Err(Errno::last())
        } else {
            Ok(())
        }
    }

    fn watch_peer(&mut self, peer: Arc<Peer>) -> Result<()> {
        let Some(fd) = peer.socket().map(|socket| socket.as_fd().as_raw_fd()) else {
            return Ok(());
        };
        self.add(fd)?;
        self.watched.insert(fd, Watched::Peer(peer));
        Ok(())
    }

    fn wait(&mut self, process: &Arc<Process>, member: &Member, timeout: i32) -> Result<()> {
        const EVENTS: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` has room for EVENTS entries.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                timeout,
            )
        };
        if count < 0 {
            let error = Errno::last();
            return if error == Errno(libc::EINTR) {
                Ok(())
            } else {
                Err(error)
            };
        }
        for event in events.iter().take(count as usize) {
            let fd = event.u64 as RawFd;
            if fd == process.doorbell.as_fd().as_raw_fd() {
                process.doorbell.clear();
            } else if fd == member.listener.as_fd().as_raw_fd() {
                // Out of descriptors, say: the caller tries again, and we live on.
                if let Ok(caller) = member.listener.accept() {
                    let fd = caller.as_fd().as_raw_fd();
                    self.add(fd)?;
                    self.watched.insert(fd, Watched::Caller(caller));
                }
            } else {
                self.heard(process, fd);
            }
        }
        Ok(())
    }

    /// A caller speaks, or a peer's socket ends. Peers say nothing after the introduction.
    fn heard(&mut self, process: &Arc<Process>, fd: RawFd) {
        let watched = self.watched.remove(&fd);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` is valid for the call; the descriptor is still open, its owner was just taken from the map.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, &mut event) };
        match watched {
            Some(Watched::Peer(peer)) => peer.declare_dead(),
            Some(Watched::Caller(caller)) => {
                if let Ok(Some(peer)) = connect::answer(process, caller) {
                    let _ = self.watch_peer(peer);
                }
            }
            None => (),
        }
    }
}
