//! A running server: its listeners, event loops, workers, and shutdown.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use verbena_rfio_auth::peer;
use verbena_rfio_common::socket::{Blocking, Socket};

use super::event_loop::{Deadlines, Inbox, Message, Shard};
use super::log::print_error;
use super::session::authenticator::ConnectionOrigin;
use super::session::connection::Context;
use super::workers::Workers;

/// Addresses and thread counts of a server.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// A Unix socket to listen on.
    pub local: Option<PathBuf>,
    /// Number of event loops.
    pub shards: usize,
    /// Number of threads for blocking storage operations.
    pub workers: usize,
    /// Timeouts of the event loops.
    pub deadlines: Deadlines,
    /// When the cache's pages are allocated, unless it is registered memory.
    pub pages: Pages,
}

/// Limit on the time that the start waits for the cache's pages before the server accepts.
const PAGES_AT_START: Duration = Duration::from_secs(2);

/// When the cache's pages are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Before the server accepts, for up to `PAGES_AT_START`; the rest in the background.
    AtStart,
    /// Block by block on first use.
    WhenUsed,
}

impl Default for Layout {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            listen: Vec::new(),
            local: None,
            shards: cores.clamp(1, 8),
            workers: cores.clamp(2, 16),
            deadlines: Deadlines::default(),
            pages: Pages::WhenUsed,
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self, vanish: Duration) -> io::Result<(Socket, ConnectionOrigin)> {
        let (socket, origin) = match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                let socket = Socket::tcp(stream)?;
                socket.notice_vanished(vanish)?;
                (socket, ConnectionOrigin::Remote(address))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let uid = peer::of_socket(&stream)?;
                (Socket::unix(stream), ConnectionOrigin::Local(uid))
            }
        };
        socket.set_blocking(Blocking::No)?;
        Ok((socket, origin))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    context: Arc<Context>,
    addresses: Vec<SocketAddr>,
    local: Option<LocalSocket>,
    inboxes: Vec<Arc<Inbox>>,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns errors of listening, with the address, and of creating threads and descriptors.
    pub fn start(context: Context, layout: &Layout) -> io::Result<Self> {
        let context = Arc::new(context);
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for address in &layout.listen {
            let listener = TcpListener::bind(address).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            listeners.push(Listener::Tcp(listener));
        }
        let mut local = None;
        if let Some(path) = &layout.local {
            let socket = LocalSocket::bind(path).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot listen on {}: {error}", path.display()),
                )
            })?;
            let listener = socket.listener()?;
            listener.set_nonblocking(true)?;
            listeners.push(Listener::Unix(listener));
            local = Some(socket);
        }
        let workers = Arc::new(Workers::start(layout.workers)?);
        let strangers = context
            .service
            .limits
            .strangers
            .div_ceil(layout.shards.max(1));
        let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
        for number in 0..layout.shards.max(1) {
            let inbox = Inbox::new()?;
            let (context, workers) = (Arc::clone(&context), Arc::clone(&workers));
            let shard = Shard::new(
                Arc::clone(&inbox),
                context,
                workers,
                layout.deadlines,
                strangers,
            )?;
            inboxes.push(inbox);
            let run = move || {
                if let Err(error) = shard.run() {
                    print_error(format_args!("rfiod: event loop {number} ended: {error}"));
                }
            };
            threads.push(
                std::thread::Builder::new()
                    .name(format!("rfio-loop-{number}"))
                    .spawn(run)?,
            );
        }
        if layout.pages == Pages::AtStart {
            let service = Arc::clone(&context.service);
            let (done, allocated) = mpsc::channel();
            let touch = move || {
                let go_on = || service.refuse_if_stopping().is_ok();
                service.cache.touch_all(go_on);
                // Fails if the start has stopped waiting.
                let _ = done.send(());
            };
            let name = "rfio-pages".into();
            threads.push(std::thread::Builder::new().name(name).spawn(touch)?);
            // Clients that connect meanwhile are queued by the kernel.
            let _ = allocated.recv_timeout(PAGES_AT_START);
        }
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let accept = Accept {
            listeners,
            inboxes: inboxes.clone(),
            stop: Arc::clone(&stop),
            vanish: layout.deadlines.vanish,
        };
        threads.push(
            std::thread::Builder::new()
                .name("rfio-accept".into())
                .spawn(move || accept.run())?,
        );
        Ok(Self {
            context,
            addresses,
            local,
            inboxes,
            stop,
            threads,
        })
    }

    /// The TCP addresses, with the ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the context shared by all sessions.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Stops accepting, answers requests in progress, refuses new ones, and shuts down. Sessions
    /// last at most [`Deadlines::stop`] longer; operations that a worker has begun are completed.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        // A new server may listen here before the last session has ended.
        drop(self.local.take());
        self.context.service.begin_to_stop();
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        for inbox in &self.inboxes {
            inbox.post(Message::Stop);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server on {:?}", self.addresses)
    }
}

/// A listening Unix socket, whose file is removed on drop.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    file: (u64, u64),
}

impl LocalSocket {
    /// Binds the socket. Replaces the socket of a dead server, but not one that accepts
    /// connections.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let listener = bind_local(path)?;
        let about = std::fs::symlink_metadata(path)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: (about.dev(), about.ino()),
        })
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Another server may have replaced the file meanwhile.
        let is_own = |about: std::fs::Metadata| (about.dev(), about.ino()) == self.file;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn bind_local(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
}

/// The thread that accepts connections and distributes them to the event loops.
struct Accept {
    listeners: Vec<Listener>,
    inboxes: Vec<Arc<Inbox>>,
    stop: Arc<OwnedFd>,
    vanish: Duration,
}

impl Accept {
    fn run(self) {
        let mut turn = 0;
        loop {
            let mut descriptors: Vec<PollFd<'_>> = self
                .listeners
                .iter()
                .map(|listener| PollFd::new(listener, PollFlags::IN))
                .collect();
            descriptors.push(PollFd::new(&*self.stop, PollFlags::IN));
            if poll(&mut descriptors, None).is_err() {
                continue;
            }
            if descriptors
                .last()
                .is_some_and(|stop| !stop.revents().is_empty())
            {
                return;
            }
            for listener in &self.listeners {
                // A burst of connections is distributed before the stop event is checked again.
                for _ in 0..64 {
                    match listener.accept(self.vanish) {
                        Ok((socket, origin)) => {
                            self.inboxes[turn % self.inboxes.len()]
                                .post(Message::New(socket, origin));
                            turn += 1;
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if is_out_of_descriptors(&error) => {
                            // Connections without a session soon reach their deadline; until then
                            // the kernel queues new ones.
                            std::thread::sleep(Duration::from_millis(50));
                            break;
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
