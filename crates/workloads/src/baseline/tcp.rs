//! TCP between the same two hosts, for comparison: ping-pong by size, and a stream.

use super::real_clock;
use crate::agreement::{Outcome, agree, attempt};
use crate::context::{Context, Mode};
use crate::latency::ping_pong::emit;
use crate::parameters;
use crate::rates::rate;
use crate::sampling::{Role, sample};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Fabric, Group, Result};
use verbena_measure::result::Parameters;

/// Read timeout; a lost peer must not hang the run.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to yield to other processes of an in-process job while no data is available; negligible for
/// a real process.
const GIVE_WAY: Duration = Duration::from_nanos(1);
/// Message size of the stream in bytes.
const STREAM: usize = 65_536;

pub async fn run<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    for size in context.choose(
        &[8, 4096, 65_536],
        &[1, 8, 64, 512, 4096, 16_384, 65_536, 1 << 18],
    ) {
        let parameters = parameters! { "size" => size, "flow" => "ping-pong" };
        attempt(
            context,
            &parameters,
            ping_pong(context, &parameters, size, pair),
        )
        .await?;
    }
    let parameters = parameters! { "size" => STREAM, "flow" => "stream" };
    attempt(context, &parameters, stream(context, &parameters, pair)).await?;
    Ok(())
}

fn failed(error: io::Error) -> Error {
    Error::adapter("TCP", error.to_string())
}

/// Connects the two processes of the pair; returns `None` in others.
async fn connect<F: Fabric>(
    context: &Context<'_, F>,
    pair: [usize; 2],
) -> Outcome<Option<TcpStream>> {
    real_clock(context)?;
    let rank = context.rank();
    let group = context.fabric.group();
    let mut listener = None;
    let mut told = Vec::new();
    if rank == pair[1] {
        let everywhere: [SocketAddr; 2] = [
            (Ipv6Addr::UNSPECIFIED, 0).into(),
            (Ipv4Addr::UNSPECIFIED, 0).into(),
        ];
        let one = TcpListener::bind(&everywhere[..]).map_err(failed)?;
        let host = match group.node_of(pair[0]) == group.node_of(pair[1]) {
            true => Ipv4Addr::LOCALHOST.into(),
            false => {
                let unknown = || io::Error::other("the other host's address is not known");
                group.address_of(rank).ok_or_else(unknown).map_err(failed)?
            }
        };
        let port = one.local_addr().map_err(failed)?.port();
        told = SocketAddr::new(host, port).to_string().into_bytes();
        listener = Some(one);
    }
    let all = agree(context, &told).await?;
    // In an in-process job both ends share a thread: connecting completes through the listener's
    // backlog.
    let mut stream = None;
    let mut from = Vec::new();
    if rank == pair[0] {
        let address = String::from_utf8_lossy(&all[pair[1]]).into_owned();
        let one = TcpStream::connect(address).map_err(failed)?;
        from = address_text(one.local_addr().map_err(failed)?).into_bytes();
        stream = Some(one);
    }
    let all = agree(context, &from).await?;
    if let Some(listener) = listener {
        stream = Some(accept(&listener, &all[pair[0]]).map_err(failed)?);
    }
    if let Some(stream) = &stream {
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
    }
    Ok(stream)
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
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        if since.elapsed() > READ_TIMEOUT {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Reads all of `bytes`, yielding to other processes of an in-process job while no data is
/// available.
async fn receive<F: Fabric>(fabric: &F, stream: &mut TcpStream, bytes: &mut [u8]) -> Result<()> {
    let mut got = 0;
    transfer(fabric, bytes.len(), async |_| {
        let outcome = stream.read(&mut bytes[got..]);
        if let Ok(count) = outcome {
            got += count;
        }
        outcome
    })
    .await
}

async fn send<F: Fabric>(fabric: &F, stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    transfer(fabric, bytes.len(), async |done| {
        stream.write(&bytes[done..])
    })
    .await
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
            Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                done += count;
                since = None;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
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

async fn ping_pong<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
    pair: [usize; 2],
) -> Outcome<()> {
    let mut stream = connect(context, pair).await?;
    let mut bytes = vec![0u8; size];
    let mut members = pair.to_vec();
    members.sort_unstable();
    let role = match context.rank() {
        rank if rank == pair[0] => Role::Timed,
        rank if rank == pair[1] => Role::Answering,
        _ => Role::Idle,
    };
    let sampled = sample(context, &members, role, Mode::Free, async |i| {
        let Some(stream) = stream.as_mut() else {
            return Ok(());
        };
        if role == Role::Timed {
            bytes.fill(i as u8);
            send(context.fabric, stream, &bytes).await?;
        }
        receive(context.fabric, stream, &mut bytes).await?;
        if bytes[size - 1] != i as u8 {
            let reason = "wrong data arrived".to_owned();
            return Err(Error::adapter("verification", reason));
        }
        if role == Role::Answering {
            send(context.fabric, stream, &bytes).await?;
        }
        Ok(())
    })
    .await?
    .scaled(0.5);
    let metric = "one-way-latency";
    emit(context, parameters, sampled, &[pair], metric, None, 2);
    Ok(())
}

async fn stream<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    pair: [usize; 2],
) -> Outcome<()> {
    let mut stream = connect(context, pair).await?;
    let mut bytes = vec![5u8; STREAM];
    let mut members = pair.to_vec();
    members.sort_unstable();
    let role = match context.rank() {
        rank if rank == pair[0] => Role::Answering,
        rank if rank == pair[1] => Role::Timed,
        _ => Role::Idle,
    };
    let rated = rate(context, &members, role, async |count| {
        let Some(stream) = stream.as_mut() else {
            return Ok(());
        };
        for _ in 0..count {
            match role {
                Role::Answering => send(context.fabric, stream, &bytes).await?,
                _ => receive(context.fabric, stream, &mut bytes).await?,
            }
        }
        Ok(())
    })
    .await?;
    let metrics = rated.metrics(STREAM, None);
    context.point(
        parameters,
        metrics,
        Vec::new(),
        rated.conduct,
        rated.warnings,
        2,
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
