//! Open device files: the messages to read, and the effects of writes and ioctls.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use verbena_subnet::attribute::port_info;
use verbena_subnet::mad::{Mad, SIZE, class, method};
use verbena_subnet::{Delivery, End, Fault, Packet, Subnet};

use crate::agents::{Agent, MOST_AGENTS};
use crate::header::{Header, LONG, SHORT};
use crate::pending::{Key, Pending};
use crate::protocol::control;
use crate::protocol::errno::{EAGAIN, EINVAL, ENODEV, ENOMEM, ENOTTY, ETIMEDOUT};
use crate::rmpp;

/// Names an open file.
pub type FileId = u64;
/// The smallest datagram that a program may write: its headers.
const LEAST: usize = 36;
/// Bytes of a datagram that a program gets back with a request that was not answered.
const RETURNED: usize = 24;
/// Largest number of an agent, of all files.
const MOST_AGENT: u32 = 0x7fff_ffff;
/// Requests that wait for an answer at the same time, of all files; further ones count as not
/// answered.
const MOST_PENDING: usize = 100_000;

/// The queue pair of management other than that of subnets.
pub(crate) const GENERAL_SERVICES: u32 = 1;

/// A message that a file is to receive.
pub type Output = (FileId, Vec<u8>);

/// An open `umad<N>`.
#[derive(Debug)]
struct File {
    at: End,
    agents: [Option<Agent>; MOST_AGENTS],
    header: usize,
    was_registered: bool,
}

/// The open files on a subnet.
#[derive(Debug, Default)]
pub struct Files {
    /// The subnet.
    pub subnet: Subnet,
    files: BTreeMap<FileId, File>,
    /// Open `issm<N>`, by file.
    managers: BTreeMap<FileId, End>,
    /// Files by the number of an agent, and its index.
    agents: HashMap<u32, (FileId, u32)>,
    pending: Pending,
    /// The request that is being sent, until its answer comes.
    awaited: Option<(Key, FileId)>,
    high: u32,
    outputs: Vec<Output>,
    /// Datagrams for queue pairs of adapters.
    for_adapters: Vec<Delivery>,
}

impl Files {
    /// Returns the files of a subnet, none of them open.
    pub fn new(subnet: Subnet) -> Files {
        Files {
            subnet,
            ..Files::default()
        }
    }

    /// Returns the port of a node's device file.
    pub fn port(&self, node: u32, index: u32) -> Option<End> {
        let this = self.subnet.fabric.nodes.get(node as usize)?;
        let port = match this.first_port() {
            0 => (index == 0).then_some(0)?,
            first => u8::try_from(index).ok()?.checked_add(first)?,
        };
        this.port(port)?;
        Some(End { node, port })
    }

    /// Opens the file of a port's datagrams.
    ///
    /// # Errors
    ///
    /// Fails with an errno.
    pub fn open(&mut self, file: FileId, node: u32, index: u32) -> Result<(), i32> {
        let at = self.port(node, index).ok_or(ENODEV)?;
        let file_of_port = File {
            at,
            agents: [const { None }; MOST_AGENTS],
            header: SHORT,
            was_registered: false,
        };
        self.files.insert(file, file_of_port);
        Ok(())
    }

    /// Opens the file that marks a subnet manager at a port.
    ///
    /// # Errors
    ///
    /// Fails with an errno: EAGAIN while another has it open.
    pub fn open_manager(&mut self, file: FileId, node: u32, index: u32) -> Result<(), i32> {
        let at = self.port(node, index).ok_or(ENODEV)?;
        if self.managers.values().any(|other| *other == at) {
            return Err(EAGAIN);
        }
        self.managers.insert(file, at);
        self.mark(at, true);
        Ok(())
    }

    fn mark(&mut self, at: End, is_manager: bool) {
        let deliveries = self.subnet.mark_manager(at, is_manager);
        self.deliver(deliveries);
    }

    /// Returns the size of the headers of a file's datagrams.
    pub fn header(&self, file: FileId) -> usize {
        self.files.get(&file).map_or(LONG, |file| file.header)
    }

    /// Closes a file.
    pub fn close(&mut self, file: FileId) {
        if self.files.remove(&file).is_some() {
            self.agents.retain(|_, (of, _)| *of != file);
            self.pending.forget(file, None);
        }
        if let Some(at) = self.managers.remove(&file) {
            self.mark(at, false);
        }
    }

    /// Executes an ioctl, which may change its argument.
    ///
    /// # Errors
    ///
    /// Fails with an errno.
    pub fn control(&mut self, file: FileId, request: u32, argument: &mut [u8]) -> Result<(), i32> {
        let this = self.files.get_mut(&file).ok_or(ENOTTY)?;
        match request {
            control::ENABLE_PKEY if this.was_registered => Err(EINVAL),
            control::ENABLE_PKEY => {
                this.header = LONG;
                Ok(())
            }
            control::UNREGISTER_AGENT => {
                let index: &[u8; 4] = (&*argument).try_into().map_err(|_| EINVAL)?;
                let index = u32::from_ne_bytes(*index);
                let place = this.agents.get_mut(index as usize).ok_or(EINVAL)?;
                let agent = place.take().ok_or(EINVAL)?;
                self.agents.remove(&agent.high);
                self.pending.forget(file, Some(index));
                Ok(())
            }
            control::REGISTER_AGENT | control::REGISTER_AGENT2 => {
                self.register(file, request == control::REGISTER_AGENT2, argument)
            }
            _ => Err(ENOTTY),
        }
    }

    fn register(&mut self, file: FileId, is_second: bool, argument: &mut [u8]) -> Result<(), i32> {
        // The highest bit is that of transactions of adapters.
        self.high = (self.high.wrapping_add(1) & MOST_AGENT).max(1);
        let agent = match is_second {
            true => Agent::of_second(argument, self.high)?,
            false => Agent::of_first(argument, self.high)?,
        };
        let at = self.files.get(&file).ok_or(ENODEV)?.at;
        let of_port = self.files.values().filter(|file| file.at == at);
        if of_port
            .flat_map(|file| file.agents.iter().flatten())
            .any(|other| agent.collides(other))
        {
            return Err(EINVAL);
        }
        let this = self.files.get_mut(&file).ok_or(ENODEV)?;
        let free = this.agents.iter().position(Option::is_none).ok_or(ENOMEM)?;
        if is_second && !this.was_registered {
            this.header = LONG;
        }
        this.was_registered = true;
        argument[..4].copy_from_slice(&(free as u32).to_ne_bytes());
        self.agents.insert(agent.high, (file, free as u32));
        this.agents[free] = Some(agent);
        Ok(())
    }

    /// Returns whether a datagram reads counters of ports, or may change the way of traffic, which
    /// must be counted before.
    pub fn needs_counts(&self, file: FileId, bytes: &[u8]) -> bool {
        let header = self.files.get(&file).map(|this| this.header);
        // Version, class, class version, method.
        let mad = header.and_then(|size| bytes.get(size..)?.first_chunk::<4>());
        mad.is_some_and(|[_, class, _, method]| match *class {
            class::PM => true,
            class::SM_LID | class::SM_DIRECTED => *method == method::SET,
            _ => false,
        })
    }

    /// Sends a datagram of an adapter's queue pair.
    pub fn send(&mut self, from: End, packet: Packet) {
        let deliveries = self.subnet.transmit(from, packet);
        self.deliver(deliveries);
    }

    /// Sends a datagram from a port to its subnet manager; no program receives the answer.
    pub fn send_to_manager(&mut self, from: End, mad: Mad) {
        let Some(port) = self.subnet.fabric.port(from) else {
            return;
        };
        let packet = Packet {
            mad,
            slid: port.lid(),
            dlid: port_info::SM_LID.get(&port.info) as u16,
            sl: port_info::SM_SL.get(&port.info) as u8,
            source_qp: GENERAL_SERVICES,
            qp: GENERAL_SERVICES,
            p_key: port.default_p_key(),
        };
        self.send(from, packet);
    }

    /// Returns the datagrams that queue pairs of adapters are to receive.
    pub fn take_for_adapters(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.for_adapters)
    }

    /// Executes a write: sends a datagram.
    ///
    /// # Errors
    ///
    /// Fails with an errno.
    pub fn write(&mut self, file: FileId, bytes: &[u8]) -> Result<(), i32> {
        let (at, header, packet) = self.written(file, bytes)?;
        if packet.mad.is_response() || header.timeout == 0 {
            self.send(at, packet);
            return Ok(());
        }
        let key = (packet.mad.tid(), packet.mad.class());
        if self.pending.has(key) {
            return Err(EINVAL);
        }
        if self.pending.count() >= MOST_PENDING {
            self.expire_at_once(file, header, &packet.mad);
            return Ok(());
        }
        // Agents answer at once: a request waits, with a copy of its packet, only if none does.
        let (slid, p_key) = (packet.slid, packet.p_key);
        self.awaited = Some((key, file));
        self.send(at, packet);
        if self.awaited.take().is_some() {
            let (_, _, again) = self.written(file, bytes)?;
            let again = Packet {
                slid,
                p_key,
                ..again
            };
            self.pending.add(key, file, at, header, again);
        }
        Ok(())
    }

    /// Returns the port, the header and the packet of a write.
    fn written(&self, file: FileId, bytes: &[u8]) -> Result<(End, Header, Packet), i32> {
        let this = self.files.get(&file).ok_or(EINVAL)?;
        let (at, size) = (this.at, this.header);
        if bytes.len() < size + LEAST {
            return Err(EINVAL);
        }
        let header = Header::of(bytes, size);
        let agent = this
            .agents
            .get(header.agent as usize)
            .and_then(Option::as_ref);
        let agent = agent.ok_or(EINVAL)?;
        let length = bytes.len() - size;
        let mut mad = Mad::of(&bytes[size..]).ok_or(EINVAL)?;
        match agent.has_rmpp && rmpp::is_active(&mad) {
            true => rmpp::begin(&mut mad, length),
            false if length > SIZE => return Err(EINVAL),
            false => {}
        }
        if !mad.is_response() {
            mad.set_tid(u64::from(agent.high) << 32 | mad.tid() & 0xffff_ffff);
        }
        let port = self.subnet.fabric.port(at).ok_or(ENODEV)?;
        let base = port.lid();
        let is_directed = mad.class() == class::SM_DIRECTED;
        let packet = Packet {
            slid: match is_directed {
                true => verbena_subnet::PERMISSIVE,
                false => base | u16::from(header.path_bits) & ((1 << port.lmc()) - 1),
            },
            dlid: header.lid,
            sl: header.sl,
            source_qp: agent.qp,
            qp: header.qp,
            p_key: port.p_key(header.p_key_index),
            mad,
        };
        Ok((at, header, packet))
    }

    /// Gives datagrams to the programs that receive them.
    pub fn deliver(&mut self, deliveries: Vec<Delivery>) {
        for Delivery { at, packet } in deliveries {
            match packet.mad.is_response() {
                _ if packet.qp > 1 => self.for_adapters.push(Delivery { at, packet }),
                true => self.answer(at, packet),
                false => self.request(at, packet),
            }
        }
    }

    /// Gives an answer to the file whose request waits for it. A late answer is dropped. Those to
    /// requests of connection managers go to the adapters of the port's node.
    fn answer(&mut self, at: End, packet: Packet) {
        let key = (packet.mad.tid(), packet.mad.class());
        let high = (packet.mad.tid() >> 32) as u32;
        let Some(&(file, agent)) = self.agents.get(&high) else {
            if high >> 31 == 1 && packet.qp == GENERAL_SERVICES {
                self.for_adapters.push(Delivery { at, packet });
            }
            return;
        };
        let at = self.addressed(at);
        let is_here = self.files.get(&file).is_some_and(|file| file.at == at);
        if !is_here {
            return;
        }
        let is_awaited = self.awaited == Some((key, file));
        if is_awaited {
            self.awaited = None;
        }
        if is_awaited || self.pending.answered(key).is_some() {
            self.queue(file, agent, at, packet);
        }
    }

    /// Returns the port whose device file receives datagrams that arrive at a port.
    fn addressed(&self, at: End) -> End {
        let node = &self.subnet.fabric.nodes[at.node as usize];
        End {
            node: at.node,
            port: node.addressed(at.port),
        }
    }

    /// Gives a request to the agent that registered for it.
    fn request(&mut self, at: End, packet: Packet) {
        let here = self.addressed(at);
        let found = self
            .files
            .iter()
            .filter(|(_, file)| file.at == here)
            .find_map(|(id, file)| {
                let index = file.agents.iter().position(|agent| {
                    let agent = agent.as_ref();
                    agent.is_some_and(|agent| agent.qp == packet.qp && agent.receives(&packet.mad))
                });
                index.map(|index| (*id, index as u32))
            });
        match found {
            Some((file, agent)) => self.queue(file, agent, here, packet),
            None => {
                let deliveries = self.subnet.unmatched(at, &packet);
                // These are answers, so the recursion ends here.
                self.deliver(deliveries);
            }
        }
    }

    fn queue(&mut self, file: FileId, agent: u32, at: End, packet: Packet) {
        let Some(this) = self.files.get(&file) else {
            return;
        };
        let header = Header::received(agent, &packet, self.subnet.fabric.port(at));
        let has_rmpp = this.agents[agent as usize]
            .as_ref()
            .is_some_and(|agent| agent.has_rmpp);
        if has_rmpp || !rmpp::is_data(&packet.mad) {
            let length = rmpp::length(&packet.mad);
            let message = header.message(this.header, &packet.mad, length);
            self.outputs.push((file, message));
            return;
        }
        for segment in rmpp::segments(&packet.mad) {
            self.outputs
                .push((file, header.message(this.header, &segment, SIZE)));
        }
    }

    /// Returns the messages that files are to receive.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Returns the time at which [`Files::expire`] has something to do.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.pending.next()
    }

    /// Sends requests again whose time is over, and returns those without retries to the program.
    pub fn expire(&mut self, now: Instant) {
        while let Some((request, is_again)) = self.pending.expired(now) {
            if is_again {
                self.send(request.from, request.packet);
                continue;
            }
            self.expire_at_once(request.file, request.header, &request.packet.mad);
        }
    }

    /// Returns a request to the program as one whose time is over.
    fn expire_at_once(&mut self, file: FileId, header: Header, mad: &Mad) {
        if let Some(this) = self.files.get(&file) {
            let header = Header {
                status: ETIMEDOUT as u32,
                ..header
            };
            let message = header.message(this.header, mad, RETURNED);
            self.outputs.push((file, message));
        }
    }

    /// Executes a fault, and delivers the traps.
    ///
    /// # Errors
    ///
    /// Fails with an errno: ENODEV if there is no such port, or it has no link for a fault of
    /// links.
    pub fn fault(&mut self, end: End, fault: Fault) -> Result<(), i32> {
        let deliveries = self.subnet.fault(end, fault).ok_or(ENODEV)?;
        self.deliver(deliveries);
        Ok(())
    }
}
