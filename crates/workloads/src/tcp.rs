//! One TCP connection between the two processes of a pair: ping-pong, stream, and streams both
//! ways.

use crate::agreement::{Outcome, agree};
use crate::context::{Context, Mode};
use crate::ip_interface::Interface;
use crate::latency::ping_pong::emit;
use crate::rates::rate;
use crate::sampling::{Role, sample};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Fabric, Group, Result};
use verbena_measure::result::Parameters;

/// Read timeout; a lost peer must not hang the run.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to yield to other processes of an in-process job while no data is available; negligible for
/// a real process.
const GIVE_WAY: Duration = Duration::from_nanos(1);

/// The addresses of a connection's ends, and how they wait for data.
#[derive(Clone, Copy)]
pub enum Ends<'a> {
    /// The hosts of the two processes, which poll.
    Hosts,
    /// An interface, whose processes sleep: on the software adapter another process carries its
    /// packets.
    Interface(&'a Interface),
}

impl Ends<'_> {
    /// Listens at an unused port, in the process of this rank, and returns the address to connect
    /// to.
    fn listen<F: Fabric>(
        self,
        context: &Context<'_, F>,
        pair: [usize; 2],
    ) -> io::Result<(TcpListener, SocketAddr)> {
        let (listener, host) = match self {
            Ends::Interface(interface) => {
                let listener = interface.sockets.listen((interface.address, 0).into())?;
                (listener, interface.address)
            }
            Ends::Hosts => {
                let everywhere: [SocketAddr; 2] = [
                    (Ipv6Addr::UNSPECIFIED, 0).into(),
                    (Ipv4Addr::UNSPECIFIED, 0).into(),
                ];
                let group = context.fabric.group();
                let host = match group.node_of(pair[0]) == group.node_of(pair[1]) {
                    true => Ipv4Addr::LOCALHOST.into(),
                    false => {
                        let unknown = || io::Error::other("the other host's address is not known");
                        group.address_of(context.rank()).ok_or_else(unknown)?
                    }
                };
                (TcpListener::bind(&everywhere[..])?, host)
            }
        };
        let port = listener.local_addr()?.port();
        Ok((listener, SocketAddr::new(host, port)))
    }

    /// Returns the number of processes that need a processor.
    fn active(self) -> usize {
        match self {
            Ends::Hosts => 2,
            Ends::Interface(interface) => 2 + 2 * interface.carriers,
        }
    }

    fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Ends::Interface(interface) => interface.sockets.connect(to),
            Ends::Hosts => TcpStream::connect(to),
        }
    }

    /// Connects the two processes of the pair; returns `None` in others.
    async fn connection<F: Fabric>(
        self,
        context: &Context<'_, F>,
        pair: [usize; 2],
    ) -> Outcome<Option<Connection>> {
        let rank = context.rank();
        let mut listener = None;
        let mut told = Vec::new();
        if rank == pair[1] {
            let (one, address) = self.listen(context, pair).map_err(failed)?;
            told = address.to_string().into_bytes();
            listener = Some(one);
        }
        let all = agree(context, &told).await?;
        // In an in-process job both ends share a thread: connecting completes through the
        // listener's backlog.
        let mut stream = None;
        let mut from = Vec::new();
        if rank == pair[0] {
            let text = String::from_utf8_lossy(&all[pair[1]]);
            let wrong = |_| failed(io::Error::other(format!("{text} is not an address")));
            let one = self.connect(text.parse().map_err(wrong)?).map_err(failed)?;
            from = address_text(one.local_addr().map_err(failed)?).into_bytes();
            stream = Some(one);
        }
        let all = agree(context, &from).await?;
        if let Some(listener) = listener {
            stream = Some(accept(&listener, &all[pair[0]]).map_err(failed)?);
        }
        let Some(stream) = stream else {
            return Ok(None);
        };
        Connection::new(stream, matches!(self, Ends::Hosts))
            .map(Some)
            .map_err(|error| failed(error).into())
    }
}

fn failed(error: io::Error) -> Error {
    match error.kind() {
        // A blocking socket's timeout.
        ErrorKind::WouldBlock => Error::stalled("TCP", READ_TIMEOUT),
        _ => Error::adapter("TCP", error.to_string()),
    }
}

/// Formats an address such that both ends agree, regardless of the sockets' families.
fn address_text(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// Accepts the connection from the address received over the exchange; closes all others.
fn accept(listener: &TcpListener, from: &[u8]) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let since = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, address)) => {
                if address_text(address).as_bytes() == from {
                    return Ok(stream);
                }
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        if since.elapsed() > READ_TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

struct Connection {
    stream: TcpStream,
    is_polled: bool,
}

impl Connection {
    fn new(stream: TcpStream, is_polled: bool) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(is_polled)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(Connection { stream, is_polled })
    }

    /// Reads all of `bytes`; a polled connection yields to other processes of an in-process job
    /// while no data is available.
    async fn receive<F: Fabric>(&mut self, fabric: &F, bytes: &mut [u8]) -> Result<()> {
        if !self.is_polled {
            return self.stream.read_exact(bytes).map_err(failed);
        }
        let mut got = 0;
        let stream = &mut self.stream;
        transfer(fabric, bytes.len(), async |_| {
            let outcome = stream.read(&mut bytes[got..]);
            if let Ok(count) = outcome {
                got += count;
            }
            outcome
        })
        .await
    }

    async fn send<F: Fabric>(&mut self, fabric: &F, bytes: &[u8]) -> Result<()> {
        if !self.is_polled {
            return self.stream.write_all(bytes).map_err(failed);
        }
        let stream = &mut self.stream;
        transfer(fabric, bytes.len(), async |done| {
            stream.write(&bytes[done..])
        })
        .await
    }

    /// Sends and receives this many messages at the same time; the connection is not polled.
    fn exchange(&self, count: u64, sent: &[u8], received: &mut [u8]) -> Result<()> {
        let (mut reader, mut writer) = (&self.stream, &self.stream);
        std::thread::scope(|scope| {
            let sender = scope.spawn(move || (0..count).try_for_each(|_| writer.write_all(sent)));
            let read = (0..count).try_for_each(|_| reader.read_exact(received));
            let written = sender.join().expect("a sender does not panic");
            read.and(written)
        })
        .map_err(failed)?;
        // Messages are complete when the peer has them, and not when the kernel has taken them.
        writer.write_all(&[0]).map_err(failed)?;
        reader.read_exact(&mut [0]).map_err(failed)
    }
}

async fn transfer<F: Fabric>(
    fabric: &F,
    total: usize,
    mut once: impl AsyncFnMut(usize) -> io::Result<usize>,
) -> Result<()> {
    let mut done = 0;
    let mut since = None;
    while done < total {
        match once(done).await {
            Ok(0) => return Err(failed(ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                done += count;
                since = None;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if since.get_or_insert_with(Instant::now).elapsed() > READ_TIMEOUT {
                    return Err(Error::stalled("TCP", READ_TIMEOUT));
                }
                fabric.compute(GIVE_WAY).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn members(pair: [usize; 2]) -> [usize; 2] {
    [pair[0].min(pair[1]), pair[0].max(pair[1])]
}

/// Measures half a round trip of messages of `size` bytes, and checks the last byte of each.
pub async fn ping_pong<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    ends: Ends<'_>,
    size: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let mut connection = ends.connection(context, pair).await?;
    let mut bytes = vec![0u8; size];
    let role = match context.rank() {
        rank if rank == pair[0] => Role::Timed,
        rank if rank == pair[1] => Role::Answering,
        _ => Role::Idle,
    };
    let mut sampled = sample(context, &members(pair), role, Mode::Free, async |i| {
        let Some(connection) = connection.as_mut() else {
            return Ok(());
        };
        if role == Role::Timed {
            bytes.fill(i as u8);
            connection.send(context.fabric, &bytes).await?;
        }
        connection.receive(context.fabric, &mut bytes).await?;
        if bytes[size - 1] != i as u8 {
            let reason = "wrong data arrived".to_owned();
            return Err(Error::adapter("verification", reason));
        }
        if role == Role::Answering {
            connection.send(context.fabric, &bytes).await?;
        }
        Ok(())
    })
    .await?
    .scaled(0.5);
    sampled.conduct.validated = true;
    let metric = "one-way-latency";
    emit(
        context,
        parameters,
        sampled,
        &[pair],
        metric,
        None,
        ends.active(),
    );
    Ok(())
}

/// Measures the rate of messages of `size` bytes at the receiver, or at both ends of `both` ways,
/// and checks the last one of each block.
pub async fn stream<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    ends: Ends<'_>,
    (size, both): (usize, bool),
    pair: [usize; 2],
) -> Outcome<()> {
    let mut connection = ends.connection(context, pair).await?;
    let sent = vec![5u8; size];
    let mut bytes = vec![0u8; size];
    let role = match context.rank() {
        rank if rank == pair[0] && !both => Role::Answering,
        rank if pair.contains(&rank) => Role::Timed,
        _ => Role::Idle,
    };
    let rated = rate(context, &members(pair), role, async |count| {
        let Some(connection) = connection.as_mut() else {
            return Ok(());
        };
        bytes.fill(0);
        if both {
            connection.exchange(count, &sent, &mut bytes)?;
        } else {
            for _ in 0..count {
                match role {
                    Role::Answering => connection.send(context.fabric, &sent).await?,
                    _ => connection.receive(context.fabric, &mut bytes).await?,
                }
            }
        }
        if role == Role::Timed && bytes != sent {
            let reason = "wrong data arrived".to_owned();
            return Err(Error::adapter("verification", reason));
        }
        Ok(())
    })
    .await?;
    let mut conduct = rated.conduct.clone();
    conduct.validated = true;
    let metrics = rated.metrics(size, None);
    context.point(
        parameters,
        metrics,
        Vec::new(),
        conduct,
        rated.warnings,
        ends.active(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_connection_is_not_taken_for_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _stranger = TcpStream::connect(address).unwrap();
        let peer = TcpStream::connect(address).unwrap();
        let from = address_text(peer.local_addr().unwrap());
        let found = accept(&listener, from.as_bytes()).unwrap();
        assert_eq!(found.peer_addr().unwrap(), peer.local_addr().unwrap());
    }
}
