//! The exchange outside of the adapter: a hub on TCP that collects bytes of a set of processes and gives each of them
//! all, in the order of ranks.
//!
//! Frames: 4 bytes length, then the body. A process's first frame is its rank (4 bytes) and the job's name, and is answered
//! by `WELCOME`: where several jobs share hosts, a process that came to another one's hub goes on looking. Afterwards: count
//! of members (4), their ranks (4 each, ascending), the process's bytes. A reply is a kind byte, then for `GATHERED` each
//! member's bytes with a length in front, for `LOST` the rank that is gone. All numbers little-endian. Nothing that arrives
//! is trusted: lengths are limited, ranks checked.
//!
//! A process that lives and does not come is *absent* once the others have waited long enough: its part is empty from
//! then on, so that they can finish without it.

use crate::error::{Error, Result};
use crate::verbs::patience::Patience;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Longest frame taken; results of a point with all its samples stay far below.
const LONGEST: usize = 256 << 20;
/// Longest first frame, and how long a stranger may take to send it.
const LONGEST_GREETING: usize = 4 << 10;
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// How long one place is tried for the hub before the next one.
const PLACE_PATIENCE: Duration = Duration::from_secs(2);
const GATHERED: u8 = 1;
const LOST: u8 = 2;
const WELCOME: u8 = 3;
/// After the first of a set came, the others have so long. More than any wait of a process that is not itself hung:
/// those end after the fabric's patience or a barrier's.
const ABSENT_AFTER: Duration = Duration::from_secs(15);
/// How often the hub looks for processes that come.
const ACCEPT: Duration = Duration::from_millis(2);
/// How often the hub looks for sets that wait.
const LOOK: Duration = Duration::from_millis(250);

/// The hub: one thread accepts, one a process reads.
pub struct Hub {
    address: SocketAddr,
    state: Arc<Mutex<HubState>>,
}

#[derive(Default)]
struct HubState {
    size: usize,
    job: String,
    welcomed: BTreeSet<usize>,
    writers: HashMap<usize, TcpStream>,
    rounds: HashMap<Vec<usize>, Round>,
    absent: BTreeSet<usize>,
    finished: bool,
    lost: Option<usize>,
}

/// What the members of a set have told so far.
struct Round {
    since: Instant,
    parts: HashMap<usize, Vec<u8>>,
}

impl Hub {
    /// Listens on the first of the addresses that is free (port 0 for any) for the job of that name with `size` processes.
    pub fn listen(address: impl ToSocketAddrs, job: &str, size: usize) -> io::Result<Hub> {
        Hub::patient(address, job, size, ABSENT_AFTER)
    }

    fn patient(
        address: impl ToSocketAddrs,
        job: &str,
        size: usize,
        limit: Duration,
    ) -> io::Result<Hub> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let state = Arc::new(Mutex::new(HubState {
            size,
            job: job.to_owned(),
            ..HubState::default()
        }));
        let expected = Arc::downgrade(&state);
        std::thread::spawn(move || accept(&listener, &expected));
        let watched = Arc::downgrade(&state);
        std::thread::spawn(move || {
            while let Some(state) = watched.upgrade() {
                give_up_on_absent(&state, limit);
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
fn accept(listener: &TcpListener, hub: &Weak<Mutex<HubState>>) {
    while let Some(state) = hub.upgrade() {
        if state
            .lock()
            .is_ok_and(|state| state.welcomed.len() == state.size)
        {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => drop(std::thread::spawn(move || serve(stream, &state))),
            Err(_) => {
                drop(state);
                std::thread::sleep(ACCEPT);
            }
        }
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<HubState>) {
    let Some(rank) = greet(&mut stream, state) else {
        return;
    };
    while let Ok(frame) = read_frame(&mut stream, LONGEST) {
        if take(&frame, rank, state).is_none() {
            break;
        }
    }
    lose(state, rank);
}

fn greet(stream: &mut TcpStream, state: &Mutex<HubState>) -> Option<usize> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(GREETING_PATIENCE)).ok()?;
    let greeting = read_frame(stream, LONGEST_GREETING).ok()?;
    stream.set_read_timeout(None).ok()?;
    let rank = word(&greeting, 0)? as usize;
    let mut writer = stream.try_clone().ok()?;
    let mut state = state.lock().expect("no panics under this lock");
    if greeting[4..] != *state.job.as_bytes() || rank >= state.size {
        return None;
    }
    if !state.welcomed.insert(rank) {
        return None;
    }
    // Before anything else can be said to it.
    write_frame(&mut writer, &[WELCOME]).ok()?;
    state.writers.insert(rank, writer);
    Some(rank)
}

/// Files a process's bytes; when its set is complete, answers all of it. `None` for a malformed frame.
fn take(frame: &[u8], rank: usize, state: &Mutex<HubState>) -> Option<()> {
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
        reply(&mut state, rank, &lost_reply(rank));
        return Some(());
    }
    let round = state
        .rounds
        .entry(members.clone())
        .or_insert_with(|| Round {
            since: Instant::now(),
            parts: HashMap::new(),
        });
    round.parts.insert(rank, frame[4 + 4 * count..].to_vec());
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
    for member in members {
        if round.parts.contains_key(member) {
            reply(state, *member, &body);
        }
    }
}

/// Marks as absent whom a set has waited for longer than `limit`, and answers the sets that waited for them alone.
fn give_up_on_absent(state: &Mutex<HubState>, limit: Duration) {
    let mut state = state.lock().expect("no panics under this lock");
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

fn reply(state: &mut HubState, rank: usize, body: &[u8]) {
    if let Some(writer) = state.writers.get_mut(&rank)
        && write_frame(writer, body).is_err()
    {
        state.writers.remove(&rank);
    }
}

fn lose(state: &Mutex<HubState>, rank: usize) {
    let mut state = state.lock().expect("no panics under this lock");
    state.writers.remove(&rank);
    if state.finished || state.lost.is_some() {
        return;
    }
    state.lost = Some(rank);
    let others: Vec<usize> = state.writers.keys().copied().collect();
    for other in others {
        reply(&mut state, other, &lost_reply(rank));
    }
}

/// A process's end of the exchange.
pub struct Connection {
    stream: TcpStream,
    replies: Receiver<Vec<u8>>,
}

/// Connects process `rank` to the hub of the job: at one of the `places` (HOST:PORT), which are asked for again for a
/// while, for the hub may start later.
pub fn connect_to_hub(
    mut places: impl FnMut() -> Vec<String>,
    job: &str,
    rank: usize,
    patience: &Patience,
) -> Result<Connection> {
    let fail = |reason: String| Error::Adapter {
        call: "connecting to the exchange".to_owned(),
        reason,
    };
    let since = Instant::now();
    let stream = 'found: loop {
        let mut troubles = Vec::new();
        for place in places() {
            match knock(&place, job, rank) {
                Ok(stream) => break 'found stream,
                Err(error) => troubles.push(format!("{place}: {error}")),
            }
        }
        if since.elapsed() > patience.limit {
            let none = || "process 0 did not tell where it listens".to_owned();
            // One trouble explains enough where hundreds of places were tried.
            return Err(fail(troubles.pop().unwrap_or_else(none)));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let reader = stream
        .try_clone()
        .map_err(|error| fail(error.to_string()))?;
    let (sender, replies) = channel();
    let lost = Arc::clone(&patience.lost);
    std::thread::spawn(move || listen(reader, &sender, &lost));
    Ok(Connection { stream, replies })
}

/// Asks whether the hub of the job is at a place.
fn knock(place: &str, job: &str, rank: usize) -> io::Result<TcpStream> {
    let mut trouble = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in place.to_socket_addrs()? {
        match greet_hub(address, job, rank) {
            Ok(stream) => return Ok(stream),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

fn greet_hub(address: SocketAddr, job: &str, rank: usize) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PLACE_PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PLACE_PATIENCE))?;
    let mut greeting = (rank as u32).to_le_bytes().to_vec();
    greeting.extend(job.as_bytes());
    write_frame(&mut stream, &greeting)?;
    if read_frame(&mut stream, LONGEST_GREETING)? != [WELCOME] {
        let text = "what listens there is something else";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
}

fn listen(mut stream: TcpStream, sender: &Sender<Vec<u8>>, lost: &std::sync::atomic::AtomicUsize) {
    while let Ok(frame) = read_frame(&mut stream, LONGEST) {
        if frame.first() == Some(&LOST) {
            let rank = word(&frame, 1).map_or(0, |rank| rank as usize);
            lost.store(rank + 1, Ordering::Relaxed);
        } else if sender.send(frame).is_err() {
            return;
        }
    }
}

impl Connection {
    /// The address of this host on the way to the hub.
    pub fn address(&self) -> Option<IpAddr> {
        let address = self.stream.local_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// The address at which the hub was found.
    pub fn address_of_hub(&self) -> Option<IpAddr> {
        let address = self.stream.peer_addr().ok()?;
        Some(address.ip().to_canonical())
    }

    /// Everybody's bytes among `members`; those of a process that is absent are empty.
    pub fn gather(
        &mut self,
        members: &[usize],
        mine: &[u8],
        patience: &Patience,
    ) -> Result<Vec<Vec<u8>>> {
        let mut body = Vec::with_capacity(4 + 4 * members.len() + mine.len());
        body.extend((members.len() as u32).to_le_bytes());
        members
            .iter()
            .for_each(|&member| body.extend((member as u32).to_le_bytes()));
        body.extend(mine);
        let gone = |reason: String| Error::Adapter {
            call: "the exchange".to_owned(),
            reason,
        };
        write_frame(&mut self.stream, &body).map_err(|error| gone(error.to_string()))?;
        let mut since = None;
        let frame = loop {
            match self.replies.recv_timeout(Duration::from_millis(20)) {
                Ok(frame) => break frame,
                Err(RecvTimeoutError::Timeout) => patience.look("the exchange", &mut since)?,
                Err(RecvTimeoutError::Disconnected) => {
                    patience.look("the exchange", &mut since)?;
                    return Err(gone("the hub closed the connection".to_owned()));
                }
            }
        };
        unpack(&frame, members.len()).ok_or_else(|| gone("a malformed reply".to_owned()))
    }
}

fn unpack(frame: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let (&kind, mut rest) = frame.split_first()?;
    if kind != GATHERED {
        return None;
    }
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let length = word(rest, 0)? as usize;
        parts.push(rest.get(4..4 + length)?.to_vec());
        rest = &rest[4 + length..];
    }
    rest.is_empty().then_some(parts)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn read_frame(stream: &mut TcpStream, longest: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long"));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    stream.write_all(&frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        Patience::new(Duration::from_secs(20))
    }

    fn join(address: SocketAddr, rank: usize) -> Connection {
        connect_to_hub(|| vec![address.to_string()], "job", rank, &patience()).unwrap()
    }

    #[test]
    fn sets_gather_apart_and_in_order() {
        let hub = Hub::listen("127.0.0.1:0", "job", 4).unwrap();
        let address = hub.address();
        std::thread::scope(|scope| {
            for rank in 0..4usize {
                scope.spawn(move || {
                    let patience = patience();
                    let mut end = join(address, rank);
                    let half = if rank < 2 { [0, 1] } else { [2, 3] };
                    for turn in 0..50u8 {
                        let got = end.gather(&half, &[rank as u8, turn], &patience).unwrap();
                        assert_eq!(got[0], [half[0] as u8, turn]);
                        assert_eq!(got[1], [half[1] as u8, turn]);
                    }
                    let all = end.gather(&[0, 1, 2, 3], &vec![rank as u8; rank], &patience);
                    let lengths: Vec<usize> = all.unwrap().iter().map(Vec::len).collect();
                    assert_eq!(lengths, [0, 1, 2, 3]);
                });
            }
        });
    }

    #[test]
    fn a_lost_process_ends_the_others_wait() {
        let hub = Hub::listen("127.0.0.1:0", "job", 2).unwrap();
        let patience = patience();
        let places = || vec![hub.address().to_string()];
        let mut first = connect_to_hub(places, "job", 0, &patience).unwrap();
        let second = join(hub.address(), 1);
        second.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let outcome = first.gather(&[0, 1], b"x", &patience);
        assert!(
            matches!(outcome, Err(Error::PeerLost { rank: 1, .. })),
            "{outcome:?}"
        );
        assert_eq!(hub.lost(), Some(1));
    }

    #[test]
    fn nobody_waits_forever_for_a_process_that_does_not_come() {
        let hub = Hub::patient("127.0.0.1:0", "job", 3, Duration::from_millis(50)).unwrap();
        let address = hub.address();
        let mut hung = join(address, 1);
        std::thread::scope(|scope| {
            for rank in [0, 2] {
                scope.spawn(move || {
                    let patience = patience();
                    let mut end = join(address, rank);
                    for turn in 0..3u8 {
                        let got = end.gather(&[0, 1, 2], &[turn], &patience).unwrap();
                        assert_eq!(got, [vec![turn], vec![], vec![turn]]);
                    }
                });
            }
        });
        assert_eq!(hub.absent(), [1]);
        // Woken up, it learns that it is out.
        let late = hung.gather(&[0, 1, 2], b"late", &patience());
        assert!(late.is_err(), "{late:?}");
    }

    #[test]
    fn a_process_passes_by_what_is_not_its_jobs_hub() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = Hub::listen("127.0.0.1:0", "another job", 1).unwrap();
        let hub = Hub::listen("127.0.0.1:0", "job", 1).unwrap();
        // Strangers do not take a process's place.
        let _stranger = TcpStream::connect(hub.address()).unwrap();
        let mut mute = TcpStream::connect(hub.address()).unwrap();
        write_frame(&mut mute, &[0; 64]).unwrap();
        let mut asked = 0;
        let places = || {
            asked += 1;
            match asked {
                1 => Vec::new(),
                _ => [silent.local_addr().unwrap(), other.address(), hub.address()]
                    .map(|address| address.to_string())
                    .to_vec(),
            }
        };
        let mut end = connect_to_hub(places, "job", 0, &patience()).unwrap();
        assert_eq!(end.gather(&[0], b"x", &patience()).unwrap(), [b"x"]);
    }

    #[test]
    fn garbage_to_the_hub_is_refused() {
        let hub = Hub::listen("127.0.0.1:0", "job", 2).unwrap();
        let state = &hub.state;
        for frame in [
            &[][..],
            &[255, 255, 255, 255],
            &[1, 0, 0, 0],
            &[1, 0, 0, 0, 9, 0, 0, 0],
        ] {
            assert_eq!(take(frame, 0, state), None, "{frame:?}");
        }
        // Descending members, and a set without the sender.
        let two = |a: u32, b: u32| {
            [2, a, b]
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<_>>()
        };
        assert_eq!(take(&two(1, 0), 0, state), None);
        let one: Vec<u8> = [1u32, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(take(&one, 0, state), None);
    }
}
