//! The hub of the exchange.

use super::frame::{self, GATHERED, LEFT_BEHIND, LOST, REFUSED, word};
use super::handshake::Secret;
use super::pending_connections::{AuthenticatedProcess, PendingConnections};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Time limit for the other members after the first of a set has arrived. Longer than any wait of a
/// process that has not hung: those end after the fabric's time limit or a barrier's.
const ABSENT_AFTER: Duration = Duration::from_secs(15);
/// Interval at which the hub checks waiting sets, and whether it is still in use.
const LOOK: Duration = Duration::from_millis(250);
/// Time limit for sending a reply, after which the process counts as absent. All others wait
/// meanwhile.
const UNREAD: Duration = Duration::from_secs(2);

/// The hub: one thread accepts connections, and one thread per process reads.
pub struct Hub {
    address: SocketAddr,
    pub(super) state: Arc<Mutex<HubState>>,
}

#[derive(Default)]
pub(super) struct HubState {
    size: usize,
    welcomed: BTreeSet<usize>,
    writers: HashMap<usize, TcpStream>,
    rounds: HashMap<Vec<usize>, Round>,
    absent: BTreeSet<usize>,
    /// Time limit of a set.
    limit: Duration,
    finished: bool,
    lost: Option<usize>,
}

/// The data received from the members of a set.
struct Round {
    since: Instant,
    parts: HashMap<usize, Vec<u8>>,
}

impl Hub {
    /// Listens on the first free address (port 0 for any) for the `size` processes of job `job`,
    /// which know its secret.
    ///
    /// # Errors
    ///
    /// Returns an error if no address is free.
    pub fn listen(
        address: impl ToSocketAddrs,
        job: &str,
        secret: &Secret,
        size: usize,
    ) -> io::Result<Hub> {
        Hub::listen_with_timeout(address, job, secret, size, ABSENT_AFTER)
    }

    /// Like [`Hub::listen`], with a time limit for sets.
    pub(crate) fn listen_with_timeout(
        address: impl ToSocketAddrs,
        job: &str,
        secret: &Secret,
        size: usize,
        limit: Duration,
    ) -> io::Result<Hub> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let state = Arc::new(Mutex::new(HubState {
            size,
            limit,
            ..HubState::default()
        }));
        let expected = Arc::downgrade(&state);
        let (job, secret) = (job.to_owned(), secret.clone());
        std::thread::spawn(move || accept(&listener, &expected, &job, &secret));
        let watched = Arc::downgrade(&state);
        std::thread::spawn(move || {
            while let Some(state) = watched.upgrade() {
                give_up_on_absent(&state);
                drop(state);
                std::thread::sleep(LOOK.min(limit));
            }
        });
        Ok(Hub { address, state })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on a closed connection is the normal end of a process.
    ///
    /// # Panics
    /// A thread has panicked while it changed the state of the exchange.
    pub fn expect_ends(&self) {
        self.state
            .lock()
            .expect("no panics under this lock")
            .finished = true;
    }

    /// Returns the lost process, if any.
    ///
    /// # Panics
    /// A thread has panicked while it changed the state of the exchange.
    pub fn lost(&self) -> Option<usize> {
        self.state.lock().expect("no panics under this lock").lost
    }

    /// Returns the processes that are alive but absent, in the order of ranks.
    ///
    /// # Panics
    /// A thread has panicked while it changed the state of the exchange.
    pub fn absent(&self) -> Vec<usize> {
        let state = self.state.lock().expect("no panics under this lock");
        state.absent.iter().copied().collect()
    }

    /// Notifies all processes that `rank` has ended, as detected by the launcher.
    pub fn declare_lost(&self, rank: usize) {
        lose(&self.state, rank);
    }
}

/// Accepts connections until all processes have joined or the hub is dropped.
fn accept(listener: &TcpListener, hub: &Weak<Mutex<HubState>>, job: &str, secret: &Secret) {
    let mut pending_connections = PendingConnections::default();
    while let Some(state) = hub.upgrade() {
        pending_connections.admit(listener);
        for process in pending_connections.receive(job, secret) {
            if let Some((rank, stream)) = welcome(process, &state) {
                let state = Arc::clone(&state);
                std::thread::spawn(move || serve(stream, rank, &state));
            }
        }
        let all_came = state
            .lock()
            .is_ok_and(|state| state.welcomed.len() == state.size);
        if all_came {
            return;
        }
        drop(state);
        pending_connections.wait(listener, LOOK);
    }
}

/// Admits a process whose rank is free.
fn welcome(process: AuthenticatedProcess, state: &Mutex<HubState>) -> Option<(usize, TcpStream)> {
    let rank = process.rank;
    let mut stream = process.handshake.into_stream().ok()?;
    stream.set_write_timeout(Some(UNREAD)).ok()?;
    let mut state = state.lock().expect("no panics under this lock");
    let refusal = match rank {
        _ if rank >= state.size => {
            let last = state.size - 1;
            format!("this is process {rank}, but the job's last process is {last}")
        }
        _ if state.welcomed.contains(&rank) => {
            format!(
                "another process {rank} is already connected; check whether two jobs use the \
                     same exchange"
            )
        }
        _ => {
            let writer = stream.try_clone().ok()?;
            state.welcomed.insert(rank);
            state.writers.insert(rank, writer);
            return Some((rank, stream));
        }
    };
    let _ = frame::write(&mut stream, &refusal_reply(&refusal));
    None
}

fn serve(mut stream: TcpStream, rank: usize, state: &Mutex<HubState>) {
    let nonsense = loop {
        match frame::read(&mut stream) {
            Ok(frame) if take(&frame, rank, state).is_some() => {}
            Ok(_) => break Some("it sent an invalid message".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                break Some(error.to_string());
            }
            Err(_) => break None,
        }
    };
    if let Some(reason) = nonsense {
        let mut state = state.lock().expect("no panics under this lock");
        reply(&mut state, rank, &refusal_reply(&reason));
    }
    lose(state, rank);
}

/// Stores a process's bytes and, when its set is complete, answers all members. Returns `None` for
/// an invalid frame.
pub(super) fn take(frame: &[u8], rank: usize, state: &Mutex<HubState>) -> Option<()> {
    let count = word(frame, 0)? as usize;
    let mut state = state.lock().expect("no panics under this lock");
    if count == 0 || count > state.size {
        return None;
    }
    let members: Option<Vec<usize>> = (0..count)
        .map(|i| word(frame, 4 + 4 * i).map(|rank| rank as usize))
        .collect();
    let members = members?;
    let sorted = members.windows(2).all(|two| two[0] < two[1]);
    if !sorted || !members.contains(&rank) || members[count - 1] >= state.size {
        return None;
    }
    if members.iter().any(|member| state.lost == Some(*member)) {
        let lost = state.lost.expect("just seen");
        reply(&mut state, rank, &lost_reply(lost));
        return Some(());
    }
    // It was given up and came back; the others have moved on.
    if state.absent.contains(&rank) {
        reply(&mut state, rank, &[LEFT_BEHIND]);
        return Some(());
    }
    let round = state
        .rounds
        .entry(members.clone())
        .or_insert_with(|| Round {
            since: Instant::now(),
            parts: HashMap::new(),
        });
    // A member that has sent its part must wait for the others.
    if round.parts.contains_key(&rank) {
        return None;
    }
    let part = frame[4 + 4 * count..].to_vec();
    round.parts.insert(rank, part);
    answer_if_complete(&mut state, &members);
    Some(())
}

/// Answers a set if all members that are not absent have arrived.
fn answer_if_complete(state: &mut HubState, members: &[usize]) {
    let absent = &state.absent;
    let complete = state.rounds.get(members).is_some_and(|round| {
        let came = |member| round.parts.contains_key(member) || absent.contains(member);
        members.iter().all(came)
    });
    if !complete {
        return;
    }
    let round = state.rounds.remove(members).expect("just seen");
    let mut body = vec![GATHERED];
    for member in members {
        let bytes = round.parts.get(member).map_or(&[][..], Vec::as_slice);
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend(bytes);
    }
    if let Err(error) = frame::check(body.len()) {
        body = refusal_reply(&format!("all contributions together are {error}"));
    }
    for member in members {
        if round.parts.contains_key(member) {
            reply(state, *member, &body);
        }
    }
}

/// Marks as absent the members that a set has waited for too long, notifies them for when they wake
/// up, and answers the sets that waited only for them.
fn give_up_on_absent(state: &Mutex<HubState>) {
    let mut state = state.lock().expect("no panics under this lock");
    let limit = state.limit;
    let missing: Vec<usize> = state
        .rounds
        .iter()
        .filter(|(_, round)| round.since.elapsed() > limit)
        .flat_map(|(members, round)| {
            let came = |member: &&usize| !round.parts.contains_key(member);
            members.iter().filter(came).copied().collect::<Vec<_>>()
        })
        .collect();
    if missing.is_empty() {
        return;
    }
    for &rank in &missing {
        reply(&mut state, rank, &[LEFT_BEHIND]);
    }
    state.absent.extend(missing);
    let waiting: Vec<Vec<usize>> = state.rounds.keys().cloned().collect();
    for members in waiting {
        answer_if_complete(&mut state, &members);
    }
}

fn lost_reply(rank: usize) -> Vec<u8> {
    let mut body = vec![LOST];
    body.extend((rank as u32).to_le_bytes());
    body
}

fn refusal_reply(reason: &str) -> Vec<u8> {
    [&[REFUSED], reason.as_bytes()].concat()
}

fn reply(state: &mut HubState, rank: usize, body: &[u8]) {
    let Some(writer) = state.writers.get_mut(&rank) else {
        return;
    };
    let Err(error) = frame::write(writer, body) else {
        return;
    };
    // The process's next read would start in the middle of a frame.
    let _ = writer.shutdown(Shutdown::Both);
    state.writers.remove(&rank);
    if error.kind() == io::ErrorKind::WouldBlock {
        state.absent.insert(rank);
    }
}

fn lose(state: &Mutex<HubState>, rank: usize) {
    let mut state = state.lock().expect("no panics under this lock");
    state.writers.remove(&rank);
    // The end of a process that was given up before is not reported.
    if state.finished || state.lost.is_some() || state.absent.contains(&rank) {
        return;
    }
    state.lost = Some(rank);
    let others: Vec<usize> = state.writers.keys().copied().collect();
    for other in others {
        reply(&mut state, other, &lost_reply(rank));
    }
}
