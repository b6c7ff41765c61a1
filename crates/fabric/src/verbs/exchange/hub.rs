//! The hub.

use super::doorway::{Arrival, Doorway};
use super::frame::{self, GATHERED, LEFT_BEHIND, LOST, REFUSED, word};
use super::greeting::Secret;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// After the first of a set came, the others have so long. More than any wait of a process that is not itself hung:
/// those end after the fabric's patience or a barrier's.
const ABSENT_AFTER: Duration = Duration::from_secs(15);
/// How often the hub looks for sets that wait, and whether it is still wanted.
const LOOK: Duration = Duration::from_millis(250);
/// How long a process may leave a reply unread before it counts as one that did not come. All others wait meanwhile.
const UNREAD: Duration = Duration::from_secs(2);

/// The hub: one thread accepts, one a process reads.
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
    /// How long a set is waited for.
    limit: Duration,
    finished: bool,
    lost: Option<usize>,
}

/// What the members of a set have told so far.
struct Round {
    since: Instant,
    parts: HashMap<usize, Vec<u8>>,
}

impl Hub {
    /// Listens on the first of the addresses that is free (port 0 for any) for the `size` processes of the job of that
    /// name, which know its secret.
    pub fn listen(
        address: impl ToSocketAddrs,
        job: &str,
        secret: &Secret,
        size: usize,
    ) -> io::Result<Hub> {
        Hub::patient(address, job, secret, size, ABSENT_AFTER)
    }

    /// The same, where a set is waited for no longer than this.
    pub(in crate::verbs) fn patient(
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on a closed connection is the normal end of a process.
    pub fn expect_ends(&self) {
        self.state
            .lock()
            .expect("no panics under this lock")
            .finished = true;
    }

    /// The process that was lost, if any.
    pub fn lost(&self) -> Option<usize> {
        self.state.lock().expect("no panics under this lock").lost
    }

    /// The processes that live and did not come, in the order of ranks.
    pub fn absent(&self) -> Vec<usize> {
        let state = self.state.lock().expect("no panics under this lock");
        state.absent.iter().copied().collect()
    }

    /// Tells all processes that `rank` is gone, as the launcher noticed.
    pub fn declare_lost(&self, rank: usize) {
        lose(&self.state, rank);
    }
}

/// Takes connections until all processes have come or the hub is gone.
fn accept(listener: &TcpListener, hub: &Weak<Mutex<HubState>>, job: &str, secret: &Secret) {
    let mut doorway = Doorway::default();
    while let Some(state) = hub.upgrade() {
        doorway.admit(listener);
        for arrival in doorway.hear(job, secret) {
            if let Some((rank, stream)) = welcome(arrival, &state) {
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
        doorway.wait(listener, LOOK);
    }
}

/// Lets a process in whose place is free.
fn welcome(arrival: Arrival, state: &Mutex<HubState>) -> Option<(usize, TcpStream)> {
    let rank = arrival.rank;
    let mut stream = arrival.visitor.into_stream().ok()?;
    stream.set_write_timeout(Some(UNREAD)).ok()?;
    let mut state = state.lock().expect("no panics under this lock");
    let refusal = match rank {
        _ if rank >= state.size => {
            let last = state.size - 1;
            format!("this is process {rank}, and the job's last one is {last}")
        }
        _ if state.welcomed.contains(&rank) => {
            format!("there is a process {rank} already; do two jobs use the same exchange?")
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
            Ok(_) => break Some("what it told makes no sense".to_owned()),
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

/// Files a process's bytes; when its set is complete, answers all of it. `None` for what no process of the job tells.
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
    // It was given up and came back; the others are somewhere else by now.
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
    // Who has told waits for the others.
    if round.parts.contains_key(&rank) {
        return None;
    }
    let part = frame[4 + 4 * count..].to_vec();
    round.parts.insert(rank, part);
    answer_if_complete(&mut state, &members);
    Some(())
}

/// Answers a set of which all came that are not absent.
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
        body = refusal_reply(&format!("all together told {error}"));
    }
    for member in members {
        if round.parts.contains_key(member) {
            reply(state, *member, &body);
        }
    }
}

/// Marks as absent whom a set has waited for too long, tells them so for when they wake up, and answers the sets that waited
/// for them alone.
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
    // What it would read next is in the midst of a frame.
    let _ = writer.shutdown(Shutdown::Both);
    state.writers.remove(&rank);
    if error.kind() == io::ErrorKind::WouldBlock {
        state.absent.insert(rank);
    }
}

fn lose(state: &Mutex<HubState>, rank: usize) {
    let mut state = state.lock().expect("no panics under this lock");
    state.writers.remove(&rank);
    // That one is gone who was given up before is no news.
    if state.finished || state.lost.is_some() || state.absent.contains(&rank) {
        return;
    }
    state.lost = Some(rank);
    let others: Vec<usize> = state.writers.keys().copied().collect();
    for other in others {
        reply(&mut state, other, &lost_reply(rank));
    }
}
