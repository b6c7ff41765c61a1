//! A fabric with its subnet manager: takes datagrams in at ports and delivers those that programs
//! receive.

use crate::agent::Answer;
use crate::attribute::number;
use crate::attribute::port_info;
use crate::fabric::{End, Fabric, Kind, Port};
use crate::fault::Fault;
use crate::mad::{Mad, class, method, status};
use crate::manager::Manager;
use crate::notice;
use crate::route::{PERMISSIVE, Packet};
use std::collections::BTreeSet;

/// A datagram that a program at a port receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The port.
    pub at: End,
    /// The datagram.
    pub packet: Packet,
}

/// A subnet.
#[derive(Debug, Clone, Default)]
pub struct Subnet {
    /// The fabric.
    pub fabric: Fabric,
    /// The subnet manager inside the fabric; `None` if a program is to be the manager.
    pub manager: Option<Manager>,
}

impl Subnet {
    /// Joins a fabric and its manager.
    pub fn new(fabric: Fabric, manager: Option<Manager>) -> Subnet {
        Subnet { fabric, manager }
    }

    /// Sends a datagram from a port, and returns the datagrams that programs receive: the answer,
    /// the datagram itself if it is for a program, and traps.
    pub fn transmit(&mut self, from: End, packet: Packet) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        self.pass(from, packet, &mut deliveries);
        self.send_traps(&mut deliveries);
        self.send_reports(&mut deliveries);
        deliveries
    }

    /// Answers a request that no program at the port takes, as a kernel does: with a status for Get
    /// and Set, else not at all.
    pub fn unmatched(&mut self, at: End, packet: &Packet) -> Vec<Delivery> {
        if !matches!(packet.mad.method(), method::GET | method::SET) {
            return Vec::new();
        }
        let mut deliveries = Vec::new();
        let answer = packet.mad.response(status::ATTRIBUTE);
        self.reply(at, packet, answer, &mut deliveries);
        deliveries
    }

    /// Takes a link down, or up again, and returns the traps that programs receive.
    pub fn change_link(&mut self, end: End, physical: u64) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        self.fabric.set_link(end, physical);
        self.settle(&mut deliveries);
        deliveries
    }

    /// Ends the subscriptions of queue pairs of a node, whose program has ended.
    pub fn end_subscriptions(&mut self, node: u32, queue_pairs: &BTreeSet<u32>) {
        if let Some(manager) = &mut self.manager {
            manager.end_subscriptions(&self.fabric, node, queue_pairs);
        }
    }

    /// Marks a port as that of a subnet manager or not, and returns the traps and reports that
    /// programs receive.
    pub fn mark_manager(&mut self, end: End, is_manager: bool) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let is_builtin = self.manager.as_ref().is_some_and(|one| one.at == end);
        self.fabric.mark_manager(end, is_manager || is_builtin);
        self.send_traps(&mut deliveries);
        self.send_reports(&mut deliveries);
        deliveries
    }

    /// Sends the traps and reports of a changed link.
    fn settle(&mut self, deliveries: &mut Vec<Delivery>) {
        self.send_traps(deliveries);
        self.sweep_without_switches();
        self.send_reports(deliveries);
    }

    /// Sends the manager's reports to their subscribers.
    fn send_reports(&mut self, deliveries: &mut Vec<Delivery>) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        let (from, reports) = (manager.at, manager.take_reports());
        for report in reports {
            self.pass(from, report, deliveries);
        }
    }

    /// Has the manager sweep after a change of a link. Switches send it traps; two adapters that
    /// are connected with each other do not.
    fn sweep_without_switches(&mut self) {
        let has_switch = self
            .fabric
            .nodes
            .iter()
            .any(|node| node.kind == Kind::Switch);
        if let Some(manager) = &mut self.manager
            && !has_switch
        {
            manager.sweep(&mut self.fabric);
        }
    }

    /// Executes a fault, and returns the traps that programs receive; `None` if there is no such
    /// port, or it has no link for a fault of links.
    pub fn fault(&mut self, end: End, fault: Fault) -> Option<Vec<Delivery>> {
        let mut deliveries = Vec::new();
        let is_done = self.fabric.fault(end, fault);
        self.settle(&mut deliveries);
        is_done.then_some(deliveries)
    }

    fn pass(&mut self, from: End, mut packet: Packet, deliveries: &mut Vec<Delivery>) {
        let Some(at) = self.fabric.carry(from, &mut packet) else {
            return;
        };
        match self.fabric.respond(at, &packet.mad, packet.qp) {
            Answer::Dropped => {}
            Answer::Reply(answer) => self.reply(at, &packet, answer, deliveries),
            Answer::Foreign => {
                if let Some(manager) = &mut self.manager
                    && manager.at == at_lid_of(&self.fabric, at)
                    && is_for_manager(&packet.mad)
                {
                    if let Some(answer) = manager.answer(&mut self.fabric, &packet) {
                        self.reply(at, &packet, answer, deliveries);
                    }
                    return;
                }
                deliveries.push(Delivery { at, packet });
            }
        }
    }

    fn reply(&mut self, at: End, request: &Packet, answer: Mad, deliveries: &mut Vec<Delivery>) {
        let own = at_lid_of(&self.fabric, at);
        let from = match answer.is_directed() {
            true => PERMISSIVE,
            false => self.fabric.port(own).map_or(0, Port::lid),
        };
        let mut packet = request.answer(answer, from);
        if let Some(at) = self.fabric.carry(at, &mut packet) {
            deliveries.push(Delivery { at, packet });
        }
    }

    /// Sends the traps of agents to the subnet manager.
    fn send_traps(&mut self, deliveries: &mut Vec<Delivery>) {
        while !self.fabric.traps.is_empty() {
            let traps = std::mem::take(&mut self.fabric.traps);
            // Neither a change of capabilities nor a wrong key changes a table.
            let is_sweep_due = traps.iter().any(|(_, notice)| {
                notice::TRAP.get(notice) != notice::CAPABILITIES_CHANGED
                    && notice::TYPE.get(notice) != u64::from(notice::SECURITY)
            });
            for (from, notice) in traps {
                let Some(port) = self.fabric.port(from) else {
                    continue;
                };
                let (slid, dlid) = (port.lid(), port_info::SM_LID.get(&port.info) as u16);
                if slid == 0 || dlid == 0 {
                    continue;
                }
                let mut mad = Mad::empty();
                mad.set_class(class::SM_LID, 1);
                mad.set_method(method::TRAP);
                mad.set_tid(u64::from(slid));
                mad.set_attribute(number::NOTICE, 0);
                mad.data_mut()[..notice.len()].copy_from_slice(&notice);
                let sl = port_info::SM_SL.get(&port.info) as u8;
                let packet = Packet {
                    mad,
                    slid,
                    dlid,
                    sl,
                    source_qp: 0,
                    qp: 0,
                    p_key: 0,
                };
                self.pass(from, packet, deliveries);
            }
            if let Some(manager) = self.manager.as_mut().filter(|_| is_sweep_due) {
                manager.sweep(&mut self.fabric);
            }
        }
    }
}

fn is_for_manager(mad: &Mad) -> bool {
    // Answers are for the program that has asked, reports for the one that has subscribed.
    if mad.is_response() || mad.method() == method::REPORT {
        return false;
    }
    match mad.class() {
        class::SA => true,
        class::SM_LID | class::SM_DIRECTED => {
            mad.attribute() == number::SM_INFO || mad.method() == method::TRAP
        }
        _ => false,
    }
}

/// Returns the port that has the LID of a port.
fn at_lid_of(fabric: &Fabric, at: End) -> End {
    match fabric.nodes.get(at.node as usize) {
        Some(node) => End {
            node: at.node,
            port: node.addressed(at.port),
        },
        None => at,
    }
}
