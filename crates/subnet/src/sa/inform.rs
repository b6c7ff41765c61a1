//! Subscriptions to reports of events (13.4.8.3, 15.2.5.4): InformInfo and InformInfoRecord. As
//! with OpenSM, a report goes to the queue pair that the subscription came from.

use super::Records;
use super::event::{ISSUER_GUID, Notice};
use super::record::{Component, at, matches};
use crate::fabric::{End, Fabric, Port, UNICAST_LIDS};
use crate::field::Field;
use crate::mad::{Mad, method, sa_status};
use crate::notice::{GENERIC, ISSUER, PRODUCER, TRAP, TYPE};
use crate::partitions::DEFAULT;
use crate::route::Packet;
use std::collections::BTreeSet;

/// Number of InformInfo.
pub const NUMBER: u16 = 0x03;
/// Number of InformInfoRecord.
pub const RECORD: u16 = 0xf3;
/// Maximum number of subscriptions.
pub const MOST_SUBSCRIPTIONS: usize = 1 << 16;
const SIZE: usize = 36;
const RECORD_SIZE: usize = 60;
/// Offset of InformInfo in its record.
const INFO: usize = 24;

const GID: std::ops::Range<usize> = 0..16;
const GUID: Field = Field::at_byte(8, 64);
const FIRST_LID: Field = Field::at_byte(16, 16);
const LAST_LID: Field = Field::at_byte(18, 16);
const IS_GENERIC: Field = Field::at_byte(22, 8);
const SUBSCRIBE: Field = Field::at_byte(23, 8);
const OF_TYPE: Field = Field::at_byte(24, 16);
const OF_TRAP: Field = Field::at_byte(26, 16);
const QUEUE_PAIR: Field = Field::at_byte(28, 24);
const OF_PRODUCER: Field = Field::at_byte(33, 24);
/// In a range of LIDs, a type, or a number of a trap: any.
const ANY: u64 = 0xffff;
const ANY_PRODUCER: u64 = 0xff_ffff;

const COMPONENTS: [Component; 2] = [Component::Bytes(0, 16), at(16, 16)];

/// A subscription.
#[derive(Debug, Clone)]
struct Subscription {
    /// GUID of the subscriber's port.
    guid: u64,
    /// Which of the port's LIDs the request came from.
    path_bits: u16,
    /// The request: reports go back as its answer went.
    queue_pair: u32,
    sl: u8,
    p_key: u16,
    /// InformInfo, with the subscriber's queue pair.
    info: [u8; SIZE],
}

/// The subscriptions of a subnet.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscriptions {
    all: Vec<Subscription>,
    /// Transaction of the last report.
    transaction: u32,
}

impl Subscriptions {
    /// Adds, replaces or removes a subscription; the answer repeats the request.
    pub fn set(&mut self, fabric: &Fabric, packet: &Packet) -> Records {
        let asked = &packet.mad.record()[..SIZE];
        let from = fabric.end_of_lid(packet.slid);
        let from = from.ok_or(sa_status::REQUEST_INVALID)?;
        let mut info = [0; SIZE];
        info.copy_from_slice(asked);
        let is_added = match SUBSCRIBE.get(asked) {
            0 => false,
            1 => true,
            _ => return Err(sa_status::REQUEST_INVALID),
        };
        if is_added {
            QUEUE_PAIR.set(&mut info, packet.source_qp.into());
        }
        SUBSCRIBE.set(&mut info, 1);
        let port = fabric.port(from).ok_or(sa_status::REQUEST_INVALID)?;
        let subscription = Subscription {
            guid: port.guid,
            path_bits: packet.slid - port.lid(),
            queue_pair: packet.source_qp,
            sl: packet.sl,
            p_key: packet.p_key,
            info,
        };
        let known = self.all.iter().position(|one| one.is_same(&subscription));
        match (is_added, known) {
            (false, Some(at)) => drop(self.all.remove(at)),
            (false, None) => return Err(sa_status::REQUEST_INVALID),
            (true, _) if !reaches_sources(fabric, from, &info) => {
                return Err(sa_status::REQUEST_INVALID);
            }
            (true, Some(at)) => self.all[at] = subscription,
            (true, None) if self.all.len() >= MOST_SUBSCRIPTIONS => {
                return Err(super::NO_RESOURCES);
            }
            (true, None) => self.all.push(subscription),
        }
        Ok((SIZE, vec![asked.to_vec()]))
    }

    /// Returns the subscriptions that match, of subscribers that the asker reaches.
    pub fn query(&self, fabric: &Fabric, packet: &Packet) -> Records {
        let (mask, template) = (packet.mad.components(), packet.mad.record());
        let asker = fabric.end_of_lid(packet.slid);
        let asker = asker.ok_or(sa_status::REQUEST_INVALID)?;
        let records = self.all.iter().filter_map(|one| {
            let subscriber = fabric.end_of_guid(one.guid)?;
            shares_partition(fabric, asker, subscriber).then(|| one.record(fabric, subscriber))
        });
        let found = records.filter(|record| matches(&COMPONENTS, mask, template, record));
        Ok((RECORD_SIZE, found.collect()))
    }

    /// Ends the subscriptions of a port that is out of service.
    pub fn end(&mut self, guid: u64) {
        self.all.retain(|one| one.guid != guid);
    }

    /// Ends the subscriptions of queue pairs of a node.
    pub fn end_of(&mut self, fabric: &Fabric, node: u32, queue_pairs: &BTreeSet<u32>) {
        self.all.retain(|one| {
            let is_there = || {
                fabric
                    .end_of_guid(one.guid)
                    .is_none_or(|end| end.node == node)
            };
            !queue_pairs.contains(&one.queue_pair) || !is_there()
        });
    }

    /// Returns the reports of a notice, from the port of the manager with this LID. A subscription
    /// whose subscriber may not see the source any more ends (13.4.8.3, o13-17.1.2). A port that
    /// has lost the partition of its subscription gets none: it would drop them, each with a trap.
    pub fn reports(&mut self, fabric: &Fabric, notice: &Notice, from: u16) -> Vec<Packet> {
        let mut reports = Vec::new();
        let transaction = &mut self.transaction;
        self.all.retain(|one| {
            if !one.is_about(notice) {
                return true;
            }
            let subscriber = fabric.end_of_guid(one.guid);
            let may_see = subscriber.is_some_and(|to| notice.is_visible(fabric, to));
            if let Some(to) = subscriber
                .and_then(|end| fabric.port(end))
                .filter(|port| may_see && port.matching_p_key(one.p_key).is_some())
            {
                *transaction = transaction.wrapping_add(1);
                reports.push(one.report(notice, from, to, *transaction));
            }
            may_see || notice.is_of_group() || FIRST_LID.get(&one.info) == ANY
        });
        reports
    }
}

impl Subscription {
    /// Returns whether two are the same but for their priority and age.
    fn is_same(&self, other: &Subscription) -> bool {
        let address = |one: &Subscription| (one.guid, one.path_bits, one.queue_pair);
        // A range of LIDs is not looked at if there is a GID.
        let compared = match other.info[GID] == [0; 16] {
            true => GID.start..SIZE,
            false => LAST_LID_END..SIZE,
        };
        address(self) == address(other)
            && self.info[GID] == other.info[GID]
            && self.info[compared.clone()] == other.info[compared]
    }

    /// Returns whether a subscriber asked for a notice (table of 13.4.8.3).
    fn is_about(&self, notice: &Notice) -> bool {
        let wanted = |field: Field, any: u64, of_notice: u64| {
            let value = field.get(&self.info);
            value == any || value == of_notice
        };
        let bytes = notice.bytes();
        let is_source = match self.info[GID] == [0; 16] {
            false => self.info[GID] == bytes[ISSUER_GUID..][..16],
            true => {
                let (first, last) = (FIRST_LID.get(&self.info), LAST_LID.get(&self.info));
                let issuer = ISSUER.get(bytes);
                first == ANY || (first..=last.max(first)).contains(&issuer)
            }
        };
        is_source
            && (IS_GENERIC.get(&self.info) != 0) == (GENERIC.get(bytes) != 0)
            && wanted(OF_TYPE, ANY, TYPE.get(bytes))
            && wanted(OF_TRAP, ANY, TRAP.get(bytes))
            && wanted(OF_PRODUCER, ANY_PRODUCER, PRODUCER.get(bytes))
    }

    /// Returns the report to the subscriber's port, which may have got another LID since.
    fn report(&self, notice: &Notice, from: u16, to: &Port, transaction: u32) -> Packet {
        let mut mad = Mad::empty();
        mad.set_class(crate::mad::class::SA, super::VERSION);
        mad.set_method(method::REPORT);
        mad.set_tid(transaction.into());
        mad.set_attribute(crate::attribute::number::NOTICE, 0);
        let bytes = notice.bytes();
        mad.bytes_mut()[crate::mad::SA_DATA..][..bytes.len()].copy_from_slice(bytes);
        Packet {
            mad,
            slid: from,
            dlid: to.lid() | self.path_bits & ((1 << to.lmc()) - 1),
            sl: self.sl,
            source_qp: 1,
            qp: self.queue_pair,
            p_key: self.p_key,
        }
    }

    fn record(&self, fabric: &Fabric, subscriber: End) -> Vec<u8> {
        let mut record = vec![0; RECORD_SIZE];
        record[..16].copy_from_slice(&fabric.gid(subscriber));
        record[INFO..].copy_from_slice(&self.info);
        record
    }
}

/// End of the range of LIDs in InformInfo.
const LAST_LID_END: usize = 20;

/// Returns whether a port reaches the sources of a subscription: all ports, a GID, or a range of
/// LIDs (13.4.8.3, o13-14.1.1).
fn reaches_sources(fabric: &Fabric, from: End, info: &[u8]) -> bool {
    if info[GID] != [0; 16] {
        let source = fabric.end_of_guid(GUID.get(info));
        return source.is_some_and(|source| shares_partition(fabric, from, source));
    }
    let first = FIRST_LID.get(info);
    if first == ANY {
        return true;
    }
    let range = first..=LAST_LID.get(info).max(first);
    if *range.end() >= UNICAST_LIDS as u64 {
        return false;
    }
    let mut sources = fabric.ends().filter(|end| {
        let is_addressed = fabric.is_addressed(*end);
        let lid = fabric.port(*end).map_or(0, |port| port.lid());
        is_addressed && lid != 0 && range.contains(&u64::from(lid))
    });
    sources.all(|source| shares_partition(fabric, from, source))
}

/// Returns whether two ports are members of a partition in which they reach each other.
pub(super) fn shares_partition(fabric: &Fabric, one: End, other: End) -> bool {
    let (Some(from), Some(to)) = (fabric.port(one), fabric.port(other)) else {
        return false;
    };
    let has_key = || from.p_keys().iter().any(|key| key & DEFAULT != 0);
    one == other && has_key() || from.common_p_key(to, None).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::port_info::physical;
    use crate::mad::{SA_DATA, class};
    use crate::partitions::read;
    use crate::{Delivery, Manager, Subnet, build, small};

    const SWITCH: u32 = 0;
    const HOST: End = End { node: 1, port: 1 };
    const OTHER: End = End { node: 2, port: 1 };
    const OWN_LID: u16 = 2;
    const QUEUE_PAIR: u32 = 0x123;
    const ADD: u8 = 1;
    const REMOVE: u8 = 0;

    fn managed(partitions: &str) -> Subnet {
        let mut fabric = build(&small()).unwrap();
        let place = Manager::place(&fabric).unwrap();
        let partitions = read(partitions).unwrap();
        let manager = Manager::start(place, &mut fabric, partitions);
        Subnet::new(fabric, Some(manager))
    }

    /// Sends a request to administration from a queue pair of the first host.
    fn ask(subnet: &mut Subnet, method: u8, attribute: u16, record: &[u8]) -> Vec<Delivery> {
        let mut mad = Mad::empty();
        mad.set_class(class::SA, 2);
        mad.set_method(method);
        mad.set_attribute(attribute, 0);
        mad.bytes_mut()[SA_DATA..][..record.len()].copy_from_slice(record);
        if attribute == 0x38 {
            // Addresses, join state, and the components of a new group.
            let mask: u64 = 0b11 | 1 << 16 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
            mad.bytes_mut()[48..56].copy_from_slice(&mask.to_be_bytes());
        }
        let packet = Packet {
            mad,
            slid: OWN_LID,
            dlid: 1,
            sl: 0,
            source_qp: QUEUE_PAIR,
            qp: 1,
            p_key: 0xffff,
        };
        subnet.transmit(HOST, packet)
    }

    /// InformInfo of all sources, types and producers.
    fn info(subscribe: u8, trap: u16) -> [u8; SIZE] {
        let mut info = [0; SIZE];
        FIRST_LID.set(&mut info, ANY);
        info[22..24].copy_from_slice(&[1, subscribe]);
        OF_TYPE.set(&mut info, ANY);
        OF_TRAP.set(&mut info, trap.into());
        if subscribe == REMOVE {
            super::QUEUE_PAIR.set(&mut info, QUEUE_PAIR.into());
        }
        OF_PRODUCER.set(&mut info, ANY_PRODUCER);
        info
    }

    fn set(subnet: &mut Subnet, info: &[u8]) -> u16 {
        let answers = ask(subnet, method::SET, NUMBER, info);
        let [answer] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(answer.packet.qp, QUEUE_PAIR);
        if answer.packet.mad.status() == 0 {
            assert_eq!(&answer.packet.mad.record()[..SIZE], info);
        }
        answer.packet.mad.status()
    }

    /// The traps of the reports among deliveries, with their subject: GID or LID.
    fn reports(deliveries: &[Delivery]) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        for Delivery { at, packet } in deliveries {
            if packet.mad.method() != method::REPORT {
                continue;
            }
            assert_eq!((*at, packet.qp, packet.slid), (HOST, QUEUE_PAIR, 1));
            let notice = packet.mad.record();
            let trap = TRAP.get(notice) as u16;
            let subject = match trap {
                64..=67 => notice[16..32].to_vec(),
                _ => notice[12..14].to_vec(),
            };
            found.push((trap, subject));
        }
        found
    }

    fn traps(deliveries: &[Delivery]) -> Vec<u16> {
        reports(deliveries).iter().map(|report| report.0).collect()
    }

    /// MCMemberRecord of the first host.
    fn membership(subnet: &Subnet) -> Vec<u8> {
        let mut record = vec![0; 52];
        record[..16].copy_from_slice(&[0xff, 0x12, 0xa0, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        record[16..32].copy_from_slice(&subnet.fabric.gid(HOST));
        record[40..42].copy_from_slice(&[0xff, 0xff]);
        record[48] = 1;
        record
    }

    #[test]
    fn events_are_reported_to_subscribers_until_they_end_it() {
        let mut subnet = managed("");
        let gid = subnet.fabric.gid(OTHER).to_vec();
        let record = membership(&subnet);
        assert_eq!(set(&mut subnet, &info(ADD, 0xffff)), 0);
        // The same again is one subscription.
        assert_eq!(set(&mut subnet, &info(ADD, 0xffff)), 0);
        let down = subnet.change_link(OTHER, physical::DISABLED);
        assert_eq!(traps(&down), [128, 65]);
        assert_eq!(reports(&down)[1].1, gid);
        let up = subnet.change_link(OTHER, physical::POLLING);
        assert_eq!(traps(&up), [128, 64]);
        let made = ask(&mut subnet, method::SET, 0x38, &record);
        assert_eq!(reports(&made), [(66, record[..16].to_vec())]);
        let again = ask(&mut subnet, method::SET, 0x38, &record);
        assert_eq!(traps(&again), []);
        let deleted = ask(&mut subnet, method::DELETE, 0x38, &record);
        assert_eq!(reports(&deleted), [(67, record[..16].to_vec())]);
        let marked = subnet.mark_manager(OTHER, true);
        assert_eq!(reports(&marked), [(144, 3u16.to_be_bytes().to_vec())]);
        assert_eq!(traps(&subnet.mark_manager(OTHER, true)), []);
        let mut query = ask(&mut subnet, method::GET_TABLE, RECORD, &[]);
        let table = query.pop().unwrap().packet.mad;
        assert_eq!(table.bytes()[SA_DATA..][..16], subnet.fabric.gid(HOST));
        assert_eq!(table.bytes()[SA_DATA + INFO..][22..24], [1, 1]);
        assert_eq!(set(&mut subnet, &info(REMOVE, 0xffff)), 0);
        assert_eq!(set(&mut subnet, &info(REMOVE, 0xffff)), 0x200);
        assert_eq!(traps(&subnet.change_link(OTHER, physical::DISABLED)), []);
    }

    /// A report that its port would drop, with a trap that is reported in turn, is not sent.
    #[test]
    fn a_port_without_the_partition_of_its_subscription_gets_no_reports() {
        let mut subnet = managed("");
        assert_eq!(set(&mut subnet, &info(ADD, 0xffff)), 0);
        for (end, keys) in [(HOST, vec![0x8010]), (OTHER, vec![0xffff, 0x8010])] {
            subnet.fabric.port_mut(end).unwrap().tables_mut().p_keys = keys;
        }
        assert_eq!(traps(&subnet.change_link(OTHER, physical::DISABLED)), []);
        let info = subnet.fabric.port(HOST).unwrap().info;
        assert_eq!(crate::attribute::port_info::P_KEY_VIOLATIONS.get(&info), 0);
    }

    #[test]
    fn a_subscriber_gets_the_events_of_its_subscription() {
        let mut subnet = managed("");
        // A trap, a type, a producer, an issuer.
        let mut of_type = info(ADD, 0xffff);
        OF_TYPE.set(&mut of_type, 3);
        let mut of_switches = info(ADD, 0xffff);
        OF_PRODUCER.set(&mut of_switches, 2);
        let mut of_host = info(ADD, 0xffff);
        FIRST_LID.set(&mut of_host, 3);
        let mut of_gid = info(ADD, 0xffff);
        of_gid[GID].copy_from_slice(&subnet.fabric.gid(OTHER));
        let mut of_vendor = info(ADD, 0xffff);
        of_vendor[22] = 0;
        for (wanted, expected) in [
            (info(ADD, 64), &[64][..]),
            (of_type, &[65, 64]),
            (of_switches, &[128, 128]),
            (of_host, &[144]),
            (of_gid, &[144]),
            (of_vendor, &[]),
        ] {
            assert_eq!(set(&mut subnet, &wanted), 0);
            let mut found = subnet.change_link(OTHER, physical::DISABLED);
            found.extend(subnet.change_link(OTHER, physical::POLLING));
            found.extend(subnet.mark_manager(OTHER, true));
            assert_eq!(traps(&found), expected, "{wanted:?}");
            let mut end = wanted;
            end[23] = REMOVE;
            super::QUEUE_PAIR.set(&mut end, QUEUE_PAIR.into());
            assert_eq!(set(&mut subnet, &end), 0);
            subnet.mark_manager(OTHER, false);
        }
    }

    #[test]
    fn invalid_subscriptions_are_refused() {
        let mut subnet = managed("");
        let mut unknown = info(ADD, 0xffff);
        unknown[23] = 2;
        assert_eq!(set(&mut subnet, &unknown), 0x200);
        let mut no_port = info(ADD, 0xffff);
        no_port[GID].fill(9);
        assert_eq!(set(&mut subnet, &no_port), 0x200);
        let mut no_lid = info(ADD, 0xffff);
        FIRST_LID.set(&mut no_lid, 0xc000);
        assert_eq!(set(&mut subnet, &no_lid), 0x200);
    }

    #[test]
    fn partitions_hide_events_and_a_port_out_of_service_has_no_subscriptions() {
        // Limited members do not see each other; the manager's switch sees both.
        let mut subnet = managed("Default=0x7fff : ALL=limited, SELF=full;");
        let mut of_host = info(ADD, 0xffff);
        FIRST_LID.set(&mut of_host, 3);
        assert_eq!(set(&mut subnet, &of_host), 0x200);
        assert_eq!(set(&mut subnet, &info(ADD, 0xffff)), 0);
        assert_eq!(traps(&subnet.change_link(OTHER, physical::DISABLED)), [128]);
        let own = End {
            node: SWITCH,
            port: 1,
        };
        subnet.change_link(own, physical::DISABLED);
        subnet.change_link(own, physical::POLLING);
        assert_eq!(traps(&subnet.change_link(OTHER, physical::POLLING)), []);
    }

    #[test]
    fn reports_follow_the_subscriber_to_another_lid() {
        let mut subnet = managed("");
        assert_eq!(set(&mut subnet, &info(ADD, 0xffff)), 0);
        let port = subnet.fabric.port_mut(HOST).unwrap();
        crate::attribute::port_info::LID.set(&mut port.info, 9);
        // The manager's sweep fills the tables.
        let down = subnet.change_link(OTHER, physical::DISABLED);
        assert_eq!(traps(&down), [128, 65]);
        let mut sent = down
            .iter()
            .filter(|one| one.packet.mad.method() == method::REPORT);
        assert!(sent.all(|one| one.packet.dlid == 9), "{down:?}");
    }

    #[test]
    fn subscriptions_are_bounded() {
        let mut subscriptions = Subscriptions::default();
        let subnet = managed("");
        let mut mad = Mad::empty();
        mad.bytes_mut()[SA_DATA..][..SIZE].copy_from_slice(&info(ADD, 1));
        let mut add = |queue_pair: usize| {
            let packet = Packet {
                mad: mad.clone(),
                slid: OWN_LID,
                dlid: 1,
                sl: 0,
                source_qp: queue_pair as u32,
                qp: 1,
                p_key: 0xffff,
            };
            subscriptions.set(&subnet.fabric, &packet).err()
        };
        assert_eq!((add(2), add(3), add(2)), (None, None, None));
        assert_eq!(subscriptions.all.len(), 2);
        let one = subscriptions.all[0].clone();
        subscriptions.all.resize(MOST_SUBSCRIPTIONS, one);
        let packet = Packet {
            mad,
            slid: OWN_LID,
            dlid: 1,
            sl: 0,
            source_qp: 9,
            qp: 1,
            p_key: 0xffff,
        };
        let refused = subscriptions.set(&subnet.fabric, &packet);
        assert_eq!(refused.err(), Some(0x100));
    }
}
