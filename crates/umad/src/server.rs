//! The process that keeps a fabric: sockets, timers, files of sysfs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg, send,
    sendmsg, socket_with,
};

use verbena_subnet::mad::{Mad, SIZE};

use crate::files::{FileId, Files};
use crate::header::LONG;
use crate::protocol::errno::{EAGAIN, ENODEV};
use crate::protocol::{Call, Hello, Purpose, SOCKET};
use crate::tree::Tree;

/// Bytes of the largest message: more than a socket carries.
const LARGEST: usize = 1 << 20;
/// Wanted size of a socket's buffer; the kernel limits it (net.core.wmem_max).
const BUFFER: usize = 8 << 20;
/// Messages that wait for a program that does not read; then new ones are dropped, like those for a
/// full queue of the kernel's (MAX_UMAD_RECV_LIST_SIZE).
const MOST_QUEUED: usize = 200_000;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 512;
/// Status of subnet administration: the answer exceeds resources.
const NO_RESOURCES: u16 = 0x0100;
/// The socket's event.
const LISTENER: FileId = 0;

/// Reason why the process cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A system call failed.
    #[error("cannot {doing} {path}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A connection.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// Before the hello, none.
    purpose: Option<Purpose>,
    /// Messages that the socket did not take yet.
    queue: VecDeque<Vec<u8>>,
    /// The port whose issm it waits for.
    awaited: Option<(u32, u32)>,
}

/// The process.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    listener: OwnedFd,
    poll: OwnedFd,
    files: Files,
    connections: BTreeMap<FileId, Connection>,
    trees: BTreeMap<u32, Tree>,
    last: FileId,
    had_users: bool,
}

impl Server {
    /// Opens the socket in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be made.
    pub fn new(directory: &Path, files: Files) -> Result<Server, ServerError> {
        let path = directory.join(SOCKET);
        let failed = |doing: &'static str| {
            let path = path.clone();
            move |source: Errno| ServerError::System {
                doing,
                path,
                source: source.into(),
            }
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let listener = listener.map_err(failed("open a socket for"))?;
        let address = SocketAddrUnix::new(&path).map_err(failed("name the socket"))?;
        bind(&listener, &address).map_err(failed("bind the socket"))?;
        listen(&listener, BACKLOG).map_err(failed("listen at"))?;
        let poll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("poll"))?;
        let event = EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, event, EventFlags::IN).map_err(failed("poll"))?;
        Ok(Server {
            directory: directory.to_owned(),
            listener,
            poll,
            files,
            connections: BTreeMap::new(),
            trees: BTreeMap::new(),
            last: LISTENER,
            had_users: false,
        })
    }

    /// Serves until the last connection has ended, and at least until the first.
    ///
    /// # Errors
    ///
    /// Fails if waiting for events fails.
    pub fn serve(mut self) -> Result<(), ServerError> {
        let mut buffer = vec![0; LARGEST];
        let mut events: Vec<Event> = Vec::with_capacity(256);
        while !self.had_users || !self.connections.is_empty() {
            let timeout = self.files.next_deadline().map(|deadline| {
                let rest = deadline.saturating_duration_since(Instant::now());
                // Rounded up, so that the deadline has passed after the wait.
                let rest = rest + Duration::from_micros(999);
                Timespec {
                    tv_sec: rest.as_secs() as i64,
                    tv_nsec: i64::from(rest.subsec_nanos()),
                }
            });
            events.clear();
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.poll, space, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(source) => {
                    return Err(ServerError::System {
                        doing: "wait for programs at",
                        path: self.directory,
                        source: source.into(),
                    });
                }
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    id => self.ready(id, event.flags, &mut buffer),
                }
            }
            self.files.expire(Instant::now());
            self.flush();
        }
        Ok(())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = accept_with(&self.listener, flags) {
            let _ = set_socket_send_buffer_size(&socket, BUFFER);
            self.last += 1;
            let event = EventData::new_u64(self.last);
            if epoll::add(&self.poll, &socket, event, EventFlags::IN).is_err() {
                continue;
            }
            let connection = Connection {
                socket,
                purpose: None,
                queue: VecDeque::new(),
                awaited: None,
            };
            self.connections.insert(self.last, connection);
        }
    }

    fn ready(&mut self, id: FileId, flags: EventFlags, buffer: &mut [u8]) {
        if flags.contains(EventFlags::OUT) {
            self.send_queued(id);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        // One message; if there are more, the next wait returns at once.
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let length = match recvmsg(&connection.socket, &mut slices, &mut control, flags) {
            Ok(received) if received.bytes > 0 => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return,
            _ => return self.close(id),
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(all) => Some(all),
            _ => None,
        });
        let descriptor = descriptors.flatten().next();
        let message = &mut buffer[..length];
        match (connection.purpose, descriptor) {
            (None, _) => self.hello(id, message),
            (Some(_), Some(reply)) => self.call(id, message, &reply),
            (Some(Purpose::Datagrams), None) => {
                // A program that does not await the result of a write gets none.
                let _ = self.files.write(id, message);
            }
            _ => {}
        }
        self.flush();
    }

    /// Opens the file that a connection asks for, and answers with an errno.
    fn hello(&mut self, id: FileId, message: &[u8]) {
        let Some(hello) = Hello::of(message) else {
            return self.close(id);
        };
        let opened = match hello.purpose {
            Purpose::Datagrams => self.files.open(id, hello.node, hello.index),
            Purpose::Manager => self.files.open_manager(id, hello.node, hello.index),
            Purpose::Refresh => self.refresh(hello.node),
            Purpose::User => self.refresh(hello.node).inspect(|()| self.had_users = true),
        };
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.purpose = Some(hello.purpose);
        match opened {
            Err(EAGAIN) if !hello.is_nonblocking => {
                connection.awaited = Some((hello.node, hello.index));
            }
            Err(number) => {
                let _ = answer(connection, number);
                self.close(id);
            }
            Ok(()) => {
                if answer(connection, 0).is_err() {
                    self.close(id);
                }
            }
        }
    }

    /// Executes a call, and answers over the descriptor that came with it.
    fn call(&mut self, id: FileId, message: &mut [u8], reply: &OwnedFd) {
        let (number, data) = match Call::of(message) {
            None => return,
            Some(Call::Write(data)) => (self.files.write(id, data).err(), Vec::new()),
            Some(Call::Control(request, data)) => {
                let mut argument = data.to_vec();
                let done = self.files.control(id, request, &mut argument);
                (done.err(), argument)
            }
        };
        let number = number.unwrap_or(0).to_ne_bytes();
        let parts = [IoSlice::new(&number), IoSlice::new(&data)];
        // A program that has ended needs no answer.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendmsg(reply, &parts, &mut SendAncillaryBuffer::default(), flags);
    }

    /// Updates the files of a node.
    fn refresh(&mut self, node: u32) -> Result<(), i32> {
        let this = self.files.subnet.fabric.nodes.get(node as usize);
        let this = this.ok_or(ENODEV)?;
        let root = self.directory.join(node.to_string());
        let tree = self.trees.entry(node).or_insert_with(|| Tree::new(&root));
        tree.update(this)
            .map_err(|error| error.raw_os_error().unwrap_or(ENODEV))
    }

    /// Sends the messages that files are to receive.
    fn flush(&mut self) {
        for (id, message) in self.files.take_outputs() {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            if !connection.queue.is_empty() {
                if connection.queue.len() < MOST_QUEUED {
                    connection.queue.push_back(message);
                }
                continue;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&connection.socket, &message, flags) {
                Ok(_) => {}
                Err(Errno::AGAIN) => {
                    connection.queue.push_back(message);
                    self.watch(id, EventFlags::IN | EventFlags::OUT);
                }
                Err(Errno::MSGSIZE) => {
                    let shorter = refused(message);
                    if send(&connection.socket, &shorter, flags).is_err() {
                        self.close(id);
                    }
                }
                Err(_) => self.close(id),
            }
        }
    }

    fn send_queued(&mut self, id: FileId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        while let Some(message) = connection.queue.front() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&connection.socket, message, flags) {
                Ok(_) => {
                    connection.queue.pop_front();
                }
                Err(Errno::AGAIN) => return,
                Err(_) => return self.close(id),
            }
        }
        self.watch(id, EventFlags::IN);
    }

    fn watch(&mut self, id: FileId, flags: EventFlags) {
        if let Some(connection) = self.connections.get(&id)
            && epoll::modify(
                &self.poll,
                &connection.socket,
                EventData::new_u64(id),
                flags,
            )
            .is_err()
        {
            self.close(id);
        }
    }

    fn close(&mut self, id: FileId) {
        let closed = self.connections.remove(&id);
        self.files.close(id);
        if closed.is_some_and(|connection| connection.purpose == Some(Purpose::Manager)) {
            self.open_awaited();
        }
    }

    /// Opens issm files for connections that wait for them, in their order.
    fn open_awaited(&mut self) {
        let waiting: Vec<_> = self
            .connections
            .iter()
            .filter_map(|(id, connection)| Some((*id, connection.awaited?)))
            .collect();
        for (id, (node, index)) in waiting {
            if self.files.open_manager(id, node, index).is_ok()
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.awaited = None;
                if answer(connection, 0).is_err() {
                    self.close(id);
                }
            }
        }
    }
}

/// Returns the message in place of a datagram that its socket does not carry: the header and
/// the first segment, with the status "no resources".
fn refused(mut message: Vec<u8>) -> Vec<u8> {
    let Some(mut mad) = Mad::of(&message[LONG..LONG + SIZE]) else {
        return message;
    };
    mad.set_status(NO_RESOURCES);
    message.truncate(LONG);
    message[16..20].copy_from_slice(&((LONG + SIZE) as u32).to_ne_bytes());
    message.extend_from_slice(mad.bytes());
    message
}

/// Sends an errno.
fn answer(connection: &Connection, number: i32) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send(&connection.socket, &number.to_ne_bytes(), flags).map(drop)
}
