//! Management datagrams: the common header, directed routes, and the header of subnet
//! administration with RMPP. Source of the layout: InfiniBand Architecture Specification, volume 1,
//! 13.4.2, 13.6.2, 14.2.1 and 15.2.1.

use crate::field::Field;

/// Size of a datagram without RMPP, in bytes.
pub const SIZE: usize = 256;
/// The longest datagram that is taken, with RMPP, in bytes.
pub const MOST: usize = 64 << 20;
/// Offset of an attribute in datagrams of subnet management and performance management.
pub const DATA: usize = 64;
/// Offset of an attribute in datagrams of subnet administration.
pub const SA_DATA: usize = 56;

/// Management classes.
pub mod class {
    /// Subnet management, routed by LID.
    pub const SM_LID: u8 = 0x01;
    /// Subnet management, by a directed route.
    pub const SM_DIRECTED: u8 = 0x81;
    /// Subnet administration.
    pub const SA: u8 = 0x03;
    /// Performance management.
    pub const PM: u8 = 0x04;
}

/// Methods.
pub mod method {
    /// Reads an attribute.
    pub const GET: u8 = 0x01;
    /// Writes an attribute.
    pub const SET: u8 = 0x02;
    /// Reports an event.
    pub const TRAP: u8 = 0x05;
    /// Reports an event to a subscriber.
    pub const REPORT: u8 = 0x06;
    /// Confirms a trap.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// Reads all records that match.
    pub const GET_TABLE: u8 = 0x12;
    /// Deletes a record.
    pub const DELETE: u8 = 0x15;
    /// Bit of a response.
    pub const RESPONSE: u8 = 0x80;
}

/// Statuses of the common header.
pub mod status {
    /// The class or its version is unknown.
    pub const VERSION: u16 = 0x04;
    /// The method is unknown.
    pub const METHOD: u16 = 0x08;
    /// The method and attribute do not go together.
    pub const ATTRIBUTE: u16 = 0x0c;
    /// A field or the modifier is invalid.
    pub const INVALID: u16 = 0x1c;
    /// Of a directed route: the datagram is on its way back.
    pub const DIRECTION: u16 = 0x8000;
}

/// Subnet administration's own statuses.
pub mod sa_status {
    /// The request lacks a component or has an invalid one.
    pub const REQUEST_INVALID: u16 = 0x0200;
    /// No record matches.
    pub const NO_RECORDS: u16 = 0x0300;
    /// More than one record matches a Get.
    pub const TOO_MANY_RECORDS: u16 = 0x0400;
    /// The GID is none of the subnet's.
    pub const INVALID_GID: u16 = 0x0500;
}

const TID: Field = Field::at_byte(8, 64);
const STATUS: Field = Field::at_byte(4, 16);
const ATTRIBUTE: Field = Field::at_byte(16, 16);
const MODIFIER: Field = Field::at_byte(20, 32);
const M_KEY: Field = Field::at_byte(24, 64);
const DR_SLID: Field = Field::at_byte(32, 16);
const DR_DLID: Field = Field::at_byte(34, 16);
const PAYLOAD_LENGTH: Field = Field::at_byte(32, 32);
const SEGMENT: Field = Field::at_byte(28, 32);
const ATTRIBUTE_OFFSET: Field = Field::at_byte(44, 16);
const COMPONENTS: Field = Field::at_byte(48, 64);
const HOP_POINTER: usize = 6;
const HOP_COUNT: usize = 7;
const INITIAL_PATH: usize = 128;
const RETURN_PATH: usize = 192;
/// Entries of a path; the first is unused.
pub const PATH: usize = 64;

/// A datagram: at least [`SIZE`] bytes, more with RMPP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mad(Vec<u8>);

impl Mad {
    /// Returns a datagram of zeros.
    pub fn empty() -> Mad {
        Mad(vec![0; SIZE])
    }

    /// Takes the bytes of a datagram; short ones are filled up with zeros. `None` if it is longer
    /// than [`MOST`].
    pub fn of(bytes: &[u8]) -> Option<Mad> {
        if bytes.len() > MOST {
            return None;
        }
        let mut all = Vec::with_capacity(bytes.len().max(SIZE));
        all.extend_from_slice(bytes);
        all.resize(bytes.len().max(SIZE), 0);
        Some(Mad(all))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Sets the length; at least [`SIZE`] bytes stay.
    pub fn resize(&mut self, length: usize) {
        self.0.resize(length.max(SIZE), 0);
    }

    /// Returns the management class.
    pub fn class(&self) -> u8 {
        self.0[1]
    }

    /// Returns the class version.
    pub fn class_version(&self) -> u8 {
        self.0[2]
    }

    /// Sets the class and its version, and the base version 1.
    pub fn set_class(&mut self, class: u8, version: u8) {
        self.0[..3].copy_from_slice(&[1, class, version]);
    }

    /// Returns the method.
    pub fn method(&self) -> u8 {
        self.0[3]
    }

    /// Sets the method.
    pub fn set_method(&mut self, method: u8) {
        self.0[3] = method;
    }

    /// Returns whether the datagram answers a request: a response, or a TrapRepress.
    pub fn is_response(&self) -> bool {
        self.method() & method::RESPONSE != 0 || self.method() == method::TRAP_REPRESS
    }

    /// Returns the status.
    pub fn status(&self) -> u16 {
        STATUS.get(&self.0) as u16
    }

    /// Sets the status.
    pub fn set_status(&mut self, status: u16) {
        STATUS.set(&mut self.0, status.into());
    }

    /// Returns the transaction ID.
    pub fn tid(&self) -> u64 {
        TID.get(&self.0)
    }

    /// Sets the transaction ID.
    pub fn set_tid(&mut self, tid: u64) {
        TID.set(&mut self.0, tid);
    }

    /// Returns the attribute.
    pub fn attribute(&self) -> u16 {
        ATTRIBUTE.get(&self.0) as u16
    }

    /// Sets the attribute and its modifier.
    pub fn set_attribute(&mut self, attribute: u16, modifier: u32) {
        ATTRIBUTE.set(&mut self.0, attribute.into());
        MODIFIER.set(&mut self.0, modifier.into());
    }

    /// Returns the attribute modifier.
    pub fn modifier(&self) -> u32 {
        MODIFIER.get(&self.0) as u32
    }

    /// Returns the M_Key of subnet management.
    pub fn m_key(&self) -> u64 {
        M_KEY.get(&self.0)
    }

    /// Returns the attribute of subnet or performance management; 192 bytes of which subnet
    /// management uses 64.
    pub fn data(&self) -> &[u8] {
        &self.0[DATA..SIZE]
    }

    /// Returns the attribute, to be changed.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.0[DATA..SIZE]
    }

    /// Returns the attribute of subnet management, to be changed; the paths of a directed route
    /// follow it.
    pub fn smp_data_mut(&mut self) -> &mut [u8] {
        &mut self.0[DATA..INITIAL_PATH]
    }

    /// Returns the response to a request, with the same content.
    pub fn response(&self, status: u16) -> Mad {
        let mut answer = self.clone();
        answer.0.truncate(SIZE);
        let direction = match self.class() == class::SM_DIRECTED {
            true => status::DIRECTION,
            false => 0,
        };
        answer.set_method(match self.method() {
            method::SET => method::GET | method::RESPONSE,
            method => method | method::RESPONSE,
        });
        answer.set_status(status | direction);
        answer
    }

    /// Returns whether the route is directed.
    pub fn is_directed(&self) -> bool {
        self.class() == class::SM_DIRECTED
    }

    /// Returns whether a directed datagram is on its way back.
    pub fn is_returning(&self) -> bool {
        self.status() & status::DIRECTION != 0
    }

    /// Returns the hop pointer of a directed route.
    pub fn hop_pointer(&self) -> u8 {
        self.0[HOP_POINTER]
    }

    /// Sets the hop pointer.
    pub fn set_hop_pointer(&mut self, pointer: u8) {
        self.0[HOP_POINTER] = pointer;
    }

    /// Returns the number of hops of a directed route.
    pub fn hop_count(&self) -> u8 {
        self.0[HOP_COUNT]
    }

    /// Sets the directed route: the ports by which the datagram leaves each node.
    ///
    /// # Panics
    ///
    /// Panics if the path is longer than 63 hops.
    pub fn set_path(&mut self, ports: &[u8]) {
        assert!(ports.len() < PATH, "a path has at most 63 hops");
        self.0[HOP_POINTER] = 0;
        self.0[HOP_COUNT] = ports.len() as u8;
        DR_SLID.set(&mut self.0, 0xffff);
        DR_DLID.set(&mut self.0, 0xffff);
        self.0[INITIAL_PATH + 1..][..ports.len()].copy_from_slice(ports);
    }

    /// Returns the LIDs of the parts before and behind the directed part.
    pub fn directed_lids(&self) -> (u16, u16) {
        (DR_SLID.get(&self.0) as u16, DR_DLID.get(&self.0) as u16)
    }

    /// Returns the outgoing port of a hop; hops beyond 63 have port 0.
    pub fn outgoing(&self, hop: u8) -> u8 {
        let hop = usize::from(hop);
        if hop < PATH {
            self.0[INITIAL_PATH + hop]
        } else {
            0
        }
    }

    /// Returns the port by which the datagram came in at a hop.
    pub fn incoming(&self, hop: u8) -> u8 {
        let hop = usize::from(hop);
        if hop < PATH {
            self.0[RETURN_PATH + hop]
        } else {
            0
        }
    }

    /// Records the port by which the datagram came in at a hop.
    pub fn set_incoming(&mut self, hop: u8, port: u8) {
        if usize::from(hop) < PATH {
            self.0[RETURN_PATH + usize::from(hop)] = port;
        }
    }

    /// Returns the component mask of subnet administration.
    pub fn components(&self) -> u64 {
        COMPONENTS.get(&self.0)
    }

    /// Sets the component mask of subnet administration.
    pub fn set_components(&mut self, components: u64) {
        COMPONENTS.set(&mut self.0, components);
    }

    /// Returns the record of a request to subnet administration, 200 bytes.
    pub fn record(&self) -> &[u8] {
        &self.0[SA_DATA..SIZE]
    }

    /// Returns whether the header says that this is part of an RMPP transfer.
    pub fn is_rmpp(&self) -> bool {
        self.0[26] & 1 != 0
    }

    /// Returns the RMPP type: 1 is data.
    pub fn rmpp_type(&self) -> u8 {
        self.0[25]
    }

    /// Sets the header of an RMPP segment: its number from 1, whether it is the last, and the
    /// payload length of the first and the last.
    pub fn set_segment(&mut self, number: u32, is_last: bool, payload: u32) {
        self.0[24] = 1;
        self.0[25] = 1;
        let response_time = self.0[26] & 0xf8;
        let first = u8::from(number == 1) << 1;
        self.0[26] = response_time | 1 | first | u8::from(is_last) << 2;
        self.0[27] = 0;
        SEGMENT.set(&mut self.0, number.into());
        PAYLOAD_LENGTH.set(&mut self.0, payload.into());
    }

    /// Returns the number of the segment and the payload length.
    pub fn segment(&self) -> (u32, u32) {
        let (segment, payload) = (SEGMENT.get(&self.0), PAYLOAD_LENGTH.get(&self.0));
        (segment as u32, payload as u32)
    }

    /// Returns whether this is the last segment.
    pub fn is_last_segment(&self) -> bool {
        self.0[26] & 4 != 0
    }

    /// Sets the size of a record in a table, a multiple of 8 bytes.
    pub fn set_record_size(&mut self, bytes: usize) {
        ATTRIBUTE_OFFSET.set(&mut self.0, (bytes / 8) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_keeps_everything_but_method_and_status() {
        let mut request = Mad::empty();
        request.set_class(class::SM_DIRECTED, 1);
        request.set_method(method::SET);
        request.set_tid(0x1234_5678_9abc_def0);
        request.set_attribute(0x15, 7);
        request.set_path(&[1, 2, 3]);
        let answer = request.response(status::INVALID);
        assert_eq!(answer.method(), 0x81);
        assert_eq!(answer.status(), 0x801c);
        assert!(answer.is_returning() && answer.is_response());
        assert_eq!((answer.tid(), answer.modifier()), (request.tid(), 7));
        assert_eq!((answer.hop_count(), answer.outgoing(3)), (3, 3));
        assert_eq!(answer.directed_lids(), (0xffff, 0xffff));
    }

    #[test]
    fn hops_beyond_the_path_have_no_port() {
        let mut mad = Mad::empty();
        mad.set_incoming(255, 9);
        assert_eq!((mad.outgoing(64), mad.incoming(255)), (0, 0));
        assert_eq!(mad, Mad::empty());
    }

    #[test]
    fn segments_have_flags_and_lengths() {
        let mut mad = Mad::empty();
        mad.set_segment(1, true, 220);
        assert_eq!((mad.bytes()[26], mad.segment()), (7, (1, 220)));
        assert!(mad.is_rmpp() && mad.is_last_segment());
    }
}
