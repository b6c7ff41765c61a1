//! The metrics over HTTP: one page, for Prometheus, on a separate address.

pub(crate) mod page;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::service::Service;
use page::Format;

/// Maximum number of connections; the oldest is dropped for a new one.
const MOST: usize = 64;

/// Time limit for a request and its answer together.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a request in bytes: Prometheus lists many accepted formats.
const LONGEST: usize = 4096;

/// Serves the metrics from a separate thread. Returns the address, with the port chosen by the
/// system.
///
/// The thread lives as long as the process. It polls all connections together, so a slow or silent
/// client delays no other.
///
/// # Errors
/// The address cannot be bound, or the thread not started.
pub fn start(service: Arc<Service>, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    std::thread::Builder::new()
        .name("rfio-metrics".into())
        .spawn(move || serve(&listener, &service))?;
    Ok(address)
}

/// A connected client.
struct Scraper {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    /// The rest of the answer, once the request is complete.
    answer: Option<Vec<u8>>,
}

fn serve(listener: &TcpListener, service: &Service) {
    let mut scrapers: Vec<Scraper> = Vec::new();
    loop {
        let mut waited = vec![PollFd::new(listener, PollFlags::IN)];
        waited.extend(scrapers.iter().map(|scraper| {
            let wanted = match scraper.answer {
                Some(_) => PollFlags::OUT,
                None => PollFlags::IN,
            };
            PollFd::new(&scraper.stream, wanted)
        }));
        let timeout = (!scrapers.is_empty()).then_some(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        // An error is an interruption; the state is checked anyway.
        let _ = poll(&mut waited, timeout.as_ref());
        let ready: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
        let mut index = 0;
        scrapers.retain_mut(|scraper| {
            index += 1;
            scraper.since.elapsed() < TIMEOUT
                && (!ready[index] || scraper.go_on(service).unwrap_or(false))
        });
        // A client that cannot be accepted will try again.
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if scrapers.len() >= MOST {
                scrapers.remove(0);
            }
            scrapers.push(Scraper {
                stream,
                since: Instant::now(),
                request: Vec::new(),
                answer: None,
            });
        }
    }
}

impl Scraper {
    /// Makes all possible progress; returns whether there is more to do.
    fn go_on(&mut self, service: &Service) -> io::Result<bool> {
        if self.answer.is_none() {
            let mut bytes = [0; LONGEST];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => self.request.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            let is_whole = self.request.windows(4).any(|four| four == b"\r\n\r\n");
            if !is_whole && self.request.len() < LONGEST {
                return Ok(true);
            }
            self.answer = Some(answer(&self.request, service));
        }
        let Some(answer) = &mut self.answer else {
            return Ok(true);
        };
        while !answer.is_empty() {
            match self.stream.write(answer) {
                Ok(sent) => drop(answer.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

fn answer(request: &[u8], service: &Service) -> Vec<u8> {
    let wanted = request.starts_with(b"GET /metrics") || request.starts_with(b"GET / ");
    let format = Format::wanted_by(request);
    let (status, media_type, body) = match wanted {
        true => (
            "200 OK",
            format.media_type(),
            service.render_metrics(format),
        ),
        false => (
            "404 Not Found",
            "text/plain",
            "metrics are at /metrics\n".to_owned(),
        ),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
