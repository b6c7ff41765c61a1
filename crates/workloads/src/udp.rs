//! Datagrams of UDP from the first process of a pair to the second, as many as arrive.
//!
//! UDP has no flow control, and a receiver that gets no processor would lose almost everything. So
//! the sender has a window: the receiver tells how many have arrived, and the sender has no more
//! than [`WINDOW`] under way. If no answer comes, it takes those under way for lost and goes on.

use crate::agreement::{Outcome, agree, pack, unpack};
use crate::context::Context;
use crate::ip_interface::Interface;
use crate::rates::rate;
use crate::sampling::Role;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Fabric, Result};
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, Parameters};

/// Number of times that the last answer of a block is sent.
const LAST_ANSWERS: usize = 5;
/// The longest datagram of IPv4.
pub const LONGEST: usize = 65_507;
/// Datagrams under way, and bytes of them: the kernel's buffer of a socket is small.
const WINDOW: u64 = 64;
const WINDOW_BYTES: usize = 100_000;
/// Time after which datagrams without an answer are lost, and after which the peer is.
const LOST: Duration = Duration::from_millis(20);
const GONE: Duration = Duration::from_secs(10);

fn failed(error: io::Error) -> Error {
    Error::adapter("UDP", error.to_string())
}

fn gone() -> Error {
    Error::stalled("UDP", GONE)
}

/// One end of the flow.
struct End {
    socket: UdpSocket,
    window: u64,
    /// The number of the block, which its datagrams and answers begin with.
    block: u8,
    sent: u64,
    arrived: u64,
    buffer: Vec<u8>,
}

impl End {
    fn new(socket: UdpSocket, size: usize) -> End {
        End {
            socket,
            window: WINDOW.min((WINDOW_BYTES / size).max(1) as u64),
            block: 0,
            sent: 0,
            arrived: 0,
            buffer: vec![0; size.max(16)],
        }
    }

    /// Waits for a datagram of this block. Returns its length; `None` if none came in `time`.
    fn receive(&mut self, time: Duration) -> Result<Option<usize>> {
        self.socket.set_read_timeout(Some(time)).map_err(failed)?;
        loop {
            match self.socket.recv(&mut self.buffer) {
                // A late one of the block before.
                Ok(length) if length == 0 || self.buffer[0] != self.block => {}
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Sends until this number has arrived.
    fn send(&mut self, count: u64, bytes: &mut [u8]) -> Result<()> {
        self.block = self.block.wrapping_add(1);
        bytes[0] = self.block;
        let (mut under_way, mut arrived, mut heard) = (0, 0, Instant::now());
        while arrived < count {
            while under_way < self.window && arrived + under_way < count {
                match self.socket.send(bytes) {
                    Ok(_) => {
                        under_way += 1;
                        self.sent += 1;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(failed(error)),
                }
            }
            match self.receive(LOST)? {
                Some(9) => {
                    let told = self.buffer[1..9].try_into().expect("nine bytes");
                    let told = u64::from_be_bytes(told);
                    under_way = under_way.saturating_sub(told.saturating_sub(arrived));
                    arrived = arrived.max(told);
                    heard = Instant::now();
                }
                Some(_) => {}
                None if heard.elapsed() > GONE => return Err(gone()),
                None => under_way = 0,
            }
        }
        Ok(())
    }

    /// Receives this number.
    fn take(&mut self, count: u64, bytes: &[u8]) -> Result<()> {
        self.block = self.block.wrapping_add(1);
        let (mut arrived, mut heard) = (0u64, Instant::now());
        while arrived < count {
            match self.receive(LOST)? {
                Some(length) => {
                    if length != bytes.len() || self.buffer[1..length] != bytes[1..] {
                        let reason = "wrong data arrived".to_owned();
                        return Err(Error::adapter("verification", reason));
                    }
                    arrived += 1;
                    self.arrived += 1;
                    heard = Instant::now();
                    if arrived < count && !arrived.is_multiple_of(self.window.div_ceil(2)) {
                        continue;
                    }
                }
                None if heard.elapsed() > GONE => return Err(gone()),
                // The answer before may be lost.
                None => {}
            }
            self.answer(arrived)?;
        }
        // Nothing repeats the last answer later.
        for _ in 1..LAST_ANSWERS {
            self.answer(arrived)?;
        }
        Ok(())
    }

    fn answer(&self, arrived: u64) -> Result<()> {
        let mut answer = [self.block; 9];
        answer[1..].copy_from_slice(&arrived.to_be_bytes());
        match self.socket.send(&answer) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

/// Measures the rate at which datagrams of `size` bytes arrive, and the share of those sent that do
/// not.
pub async fn datagrams<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    own: Option<&Interface>,
    size: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    if size > LONGEST {
        let what = format!("a datagram of {size} bytes");
        return Err(Error::unsupported(what, format!("UDP (at most {LONGEST})")).into());
    }
    let socket = own.map(|own| own.sockets.datagrams((own.address, 0).into()));
    let socket = socket.transpose().map_err(failed)?;
    let address = socket.as_ref().map(UdpSocket::local_addr);
    let address = address.transpose().map_err(failed)?;
    let address = address.map(|address| address.to_string());
    let all = agree(context, address.unwrap_or_default().as_bytes()).await?;
    let mut end = None;
    if let Some(socket) = socket {
        let peer = if context.rank() == pair[0] { 1 } else { 0 };
        let text = String::from_utf8_lossy(&all[pair[peer]]).into_owned();
        let wrong = |_| failed(io::Error::other(format!("{text} is not an address")));
        let peer: SocketAddr = text.parse().map_err(wrong)?;
        socket.connect(peer).map_err(failed)?;
        end = Some(End::new(socket, size));
    }
    let mut bytes = vec![5u8; size];
    let role = match context.rank() {
        rank if rank == pair[0] => Role::Answering,
        rank if rank == pair[1] => Role::Timed,
        _ => Role::Idle,
    };
    let members = [pair[0].min(pair[1]), pair[0].max(pair[1])];
    let rated = rate(context, &members, role, async |count| match &mut end {
        Some(end) if role == Role::Answering => end.send(count, &mut bytes),
        Some(end) => end.take(count, &bytes),
        None => Ok(()),
    })
    .await?;
    let counted = end.as_ref().map_or((0, 0), |end| (end.sent, end.arrived));
    let all = agree(context, &pack(&[counted.0 as f64, counted.1 as f64])).await?;
    let [sent, arrived] = [unpack(&all[pair[0]])[0], unpack(&all[pair[1]])[1]];
    let lost = ((sent - arrived) / sent.max(1.0)).max(0.0);
    let mut metrics = rated.metrics(size, None);
    metrics.push(Metric::figure("lost", "", Better::Lower, lost));
    let mut conduct = rated.conduct.clone();
    conduct.validated = true;
    let active = 2 + 2 * own.map_or(0, |own| own.carriers);
    context.point(
        parameters,
        metrics,
        Vec::new(),
        conduct,
        rated.warnings,
        active,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(size: usize) -> [End; 2] {
        let make = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let [one, other] = [make(), make()];
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        [End::new(one, size), End::new(other, size)]
    }

    #[test]
    fn every_block_ends_when_its_datagrams_have_arrived() {
        for (size, counts) in [(1, [1, 500]), (1400, [64, 65]), (LONGEST, [1, 40])] {
            let [mut sender, mut receiver] = pair(size);
            let bytes = vec![7; size];
            let mut own = bytes.clone();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for count in counts {
                        sender.send(count, &mut own).unwrap();
                    }
                });
                for count in counts {
                    receiver.take(count, &bytes).unwrap();
                }
            });
            assert_eq!(receiver.arrived, counts[0] + counts[1]);
            assert!(sender.sent >= receiver.arrived);
        }
    }

    #[test]
    fn lost_datagrams_are_replaced_and_counted() {
        let [mut sender, mut receiver] = pair(100);
        let bytes = vec![7; 100];
        let mut own = bytes.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(10, &mut own).unwrap());
            // The first ones count as lost.
            for _ in 0..10 {
                receiver.socket.recv(&mut receiver.buffer).unwrap();
            }
            receiver.take(10, &bytes).unwrap();
        });
        assert_eq!(receiver.arrived, 10);
        assert!(sender.sent >= 20, "{}", sender.sent);
    }
}
