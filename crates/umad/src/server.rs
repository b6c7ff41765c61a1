//! The process that keeps a fabric: sockets, timers, files of sysfs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    listen, recvmsg, send, sendmsg, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use verbena_subnet::mad::{Mad, SIZE, class};
use verbena_subnet::{Delivery, End, Packet};

use crate::adapters::{Adapters, NO_RESOURCES};
use crate::faults;
use crate::files::{FileId, Files};
use crate::memberships::Memberships;
use crate::protocol::errno::{EAGAIN, EINVAL, ENODEV};
use crate::protocol::{Call, FaultMessage, Hello, Purpose, SOCKET};
use crate::tree::Tree;

/// Wanted size of a socket's buffer; the kernel limits it (net.core.wmem_max).
const BUFFER: usize = 8 << 20;
/// Bytes of the largest message: more than a socket carries, whose buffer the kernel doubles.
const LARGEST: usize = 2 * BUFFER + (1 << 20);
/// Messages that wait for a program that does not read; then new ones are dropped, like those for a
/// full queue of the kernel's (MAX_UMAD_RECV_LIST_SIZE).
const MOST_QUEUED: usize = 200_000;
/// Bytes of these messages, for the same purpose.
const MOST_QUEUED_BYTES: usize = 64 << 20;
/// Time in which the first user must come: `verbena fabric up` may have been killed.
const FIRST_USER: Duration = Duration::from_secs(60);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 512;
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
    /// Bytes of these.
    queued: usize,
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
    adapters: Adapters,
    memberships: Memberships,
    connections: BTreeMap<FileId, Connection>,
    trees: BTreeMap<u32, Tree>,
    /// Nodes of the connections for faults.
    faulted: BTreeMap<FileId, u32>,
    last: FileId,
    had_users: bool,
    /// Given up for a moment to refuse a connection where descriptors have run out.
    spare: Option<OwnedFd>,
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
            adapters: Adapters::default(),
            memberships: Memberships::default(),
            connections: BTreeMap::new(),
            trees: BTreeMap::new(),
            faulted: BTreeMap::new(),
            last: LISTENER,
            had_users: false,
            spare: spare(),
        })
    }

    /// Serves until the last connection has ended, and at least until the first user has come or a
    /// minute has passed.
    ///
    /// # Errors
    ///
    /// Fails if waiting for events fails.
    pub fn serve(mut self) -> Result<(), ServerError> {
        let mut buffer = vec![0; LARGEST];
        let mut events: Vec<Event> = Vec::with_capacity(256);
        raise_descriptor_limit();
        let first_user = Instant::now() + FIRST_USER;
        loop {
            let awaits_user = !self.had_users && Instant::now() < first_user;
            if !awaits_user && self.connections.is_empty() {
                return Ok(());
            }
            let deadlines = [
                self.files.next_deadline(),
                awaits_user.then_some(first_user),
            ];
            let timeout = deadlines.into_iter().flatten().min().map(|deadline| {
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
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    eprintln!("verbena: a program is refused at the fabric: {error}");
                    if self.spare.take().is_none() {
                        return;
                    }
                    // Its end tells the program; otherwise it would wait for ever.
                    drop(accept_with(&self.listener, flags));
                    self.spare = spare();
                    continue;
                }
            };
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
                queued: 0,
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
            Ok(received) if received.flags.contains(ReturnFlags::TRUNC) => {
                eprintln!("verbena: a message to the fabric is longer than {LARGEST} bytes");
                return self.close(id);
            }
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
            (None, file) => self.hello(id, message, file),
            (Some(_), Some(reply)) => self.call(id, message, &reply),
            (Some(Purpose::Adapter), None) => {
                match self.adapters.sent(id, message, &self.files.subnet.fabric) {
                    Some((from, packet)) => self.send(id, from, packet),
                    None => self.adapters.acknowledged(id, message),
                }
            }
            (Some(Purpose::Fault), None) => self.fault(id, message),
            (Some(Purpose::Datagrams), None) => {
                if self.files.needs_counts(id, message) {
                    self.adapters.charge(&mut self.files.subnet.fabric);
                }
                // A program that does not await the result of a write gets none.
                let _ = self.files.write(id, message);
            }
            _ => {}
        }
        self.flush();
    }

    /// Opens the file that a connection asks for, and answers with an errno. An adapter counts its
    /// traffic in the file that comes with the message.
    fn hello(&mut self, id: FileId, message: &[u8], file: Option<OwnedFd>) {
        let Some(hello) = Hello::of(message) else {
            return self.close(id);
        };
        let opened = match hello.purpose {
            Purpose::Datagrams => self.files.open(id, hello.node, hello.index),
            Purpose::Manager => self.files.open_manager(id, hello.node, hello.index),
            Purpose::Refresh => self.refresh(hello.node),
            Purpose::Fault => {
                self.faulted.insert(id, hello.node);
                Ok(())
            }
            Purpose::User => self.refresh(hello.node).inspect(|()| self.had_users = true),
            Purpose::Adapter => {
                let fabric = &self.files.subnet.fabric;
                self.adapters.open(id, hello.node, file, fabric)
            }
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

    /// Sends a datagram of an adapter's queue pair.
    fn send(&mut self, id: FileId, from: End, mut packet: Packet) {
        if packet.mad.class() == class::PM {
            // It may read counters.
            self.adapters.charge(&mut self.files.subnet.fabric);
        }
        let queue_pair = packet.source_qp;
        match self
            .memberships
            .sent(id, (from, queue_pair), &mut packet.mad)
        {
            Some(answer) => {
                let packet = packet.answer(answer, packet.dlid);
                self.files.deliver(vec![Delivery { at: from, packet }]);
            }
            None => self.files.send(from, packet),
        }
    }

    /// Executes a call, and answers over the descriptor that came with it.
    fn call(&mut self, id: FileId, message: &mut [u8], reply: &OwnedFd) {
        let (number, data) = match Call::of(message) {
            None => return,
            Some(Call::Write(data)) => {
                if self.files.needs_counts(id, data) {
                    self.adapters.charge(&mut self.files.subnet.fabric);
                }
                (self.files.write(id, data).err(), Vec::new())
            }
            Some(Call::Reach(destination)) => {
                let fabric = &mut self.files.subnet.fabric;
                match self.adapters.reach(id, destination, fabric) {
                    Ok(network) => (None, network.to_ne_bytes().to_vec()),
                    Err(number) => (Some(number), Vec::new()),
                }
            }
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

    /// Executes a fault, and answers with an errno.
    fn fault(&mut self, id: FileId, message: &[u8]) {
        // Traffic so far took the links as they were.
        self.adapters.charge(&mut self.files.subnet.fabric);
        let node = self.faulted.get(&id).copied().unwrap_or(u32::MAX);
        let fault = FaultMessage::of(message).and_then(|message| faults::of(message, node));
        let done = fault.ok_or(EINVAL);
        let done = done.and_then(|(end, fault)| self.files.fault(end, fault));
        let number = done.err().unwrap_or(0);
        if let Some(connection) = self.connections.get(&id)
            && answer(connection, number).is_err()
        {
            self.close(id);
        }
    }

    /// Updates the files of a node.
    fn refresh(&mut self, node: u32) -> Result<(), i32> {
        self.adapters.charge(&mut self.files.subnet.fabric);
        let this = self.files.subnet.fabric.nodes.get(node as usize);
        let this = this.ok_or(ENODEV)?;
        let root = self.directory.join(node.to_string());
        let tree = self.trees.entry(node).or_insert_with(|| Tree::new(&root));
        tree.update(this)
            .map_err(|error| error.raw_os_error().unwrap_or(ENODEV))
    }

    /// Sends the messages that files and adapters are to receive.
    fn flush(&mut self) {
        for (id, message) in self.files.take_outputs() {
            self.push(id, message, false);
        }
        for delivery in self.files.take_for_adapters() {
            for (id, message) in self.adapters.received(&delivery) {
                let Packet { qp, mad, .. } = &delivery.packet;
                self.memberships.answered(id, *qp, mad);
                self.push(id, message, false);
            }
        }
        for (id, message) in self.adapters.due(&self.files.subnet.fabric) {
            self.push(id, message, true);
        }
    }

    /// Sends a message, or keeps it until the program reads. Beyond the limits it is lost, unless
    /// it is `kept`.
    fn push(&mut self, id: FileId, mut message: Vec<u8>, kept: bool) {
        let header = self.files.header(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.queue.is_empty() {
            match send_message(&connection.socket, &mut message, header) {
                Ok(()) => return,
                Err(Errno::AGAIN) => {}
                Err(_) => return self.close(id),
            }
        }
        let is_first = connection.queue.is_empty();
        let fits = connection.queue.len() < MOST_QUEUED
            && connection.queued + message.len() <= MOST_QUEUED_BYTES;
        if is_first || fits || kept {
            connection.queued += message.len();
            connection.queue.push_back(message);
        }
        if is_first {
            self.watch(id, EventFlags::IN | EventFlags::OUT);
        }
    }

    fn send_queued(&mut self, id: FileId) {
        let header = self.files.header(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        while let Some(message) = connection.queue.front_mut() {
            let length = message.len();
            match send_message(&connection.socket, message, header) {
                Ok(()) => {
                    connection.queue.pop_front();
                    connection.queued -= length;
                }
                Err(Errno::AGAIN) => {
                    connection.queued -= length - message.len();
                    return;
                }
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
        self.faulted.remove(&id);
        self.files.close(id);
        let subnet = &mut self.files.subnet;
        if let Some((node, queue_pairs)) = self.adapters.close(id, &mut subnet.fabric) {
            subnet.end_subscriptions(node, &queue_pairs);
            for (from, mad) in self.memberships.close(id) {
                self.files.send_to_manager(from, mad);
            }
        }
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
            // An earlier one of the list may have ended.
            if self.connections.contains_key(&id)
                && self.files.open_manager(id, node, index).is_ok()
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

/// Sends a message; in its place, if the socket does not carry so long a one, its header and first
/// segment with the status "no resources".
fn send_message(socket: &OwnedFd, message: &mut Vec<u8>, header: usize) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match send(socket, message, flags) {
        Err(Errno::MSGSIZE) if message.len() > header + SIZE => {
            refuse(message, header);
            send(socket, message, flags).map(drop)
        }
        sent => sent.map(drop),
    }
}

/// Cuts a message to its header and first segment, with the status "no resources".
fn refuse(message: &mut Vec<u8>, header: usize) {
    let mad = message.get(header..header + SIZE).and_then(Mad::of);
    message.truncate(header);
    message[16..20].copy_from_slice(&((header + SIZE) as u32).to_ne_bytes());
    if let Some(mut mad) = mad {
        mad.set_status(NO_RESOURCES);
        message.extend_from_slice(mad.bytes());
    }
}

/// Returns a descriptor that can be given up.
fn spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Lets the process have as many descriptors as it may: one for each open device file.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Sends an errno.
fn answer(connection: &Connection, number: i32) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send(&connection.socket, &number.to_ne_bytes(), flags).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_message_keeps_its_header_and_transaction() {
        for header in [56, 64] {
            let mut mad = Mad::empty();
            mad.set_tid(0x1234_5678);
            let mut message = vec![7; header];
            message.extend_from_slice(mad.bytes());
            message.resize(100_000, 1);
            refuse(&mut message, header);
            assert_eq!(message.len(), header + SIZE);
            assert_eq!(message[16..20], ((header + SIZE) as u32).to_ne_bytes());
            let cut = Mad::of(&message[header..]).unwrap();
            assert_eq!((cut.tid(), cut.status()), (0x1234_5678, NO_RESOURCES));
        }
    }
}
