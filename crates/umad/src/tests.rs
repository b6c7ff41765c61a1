//! Open files on the small fabric.

use std::time::{Duration, Instant};

use verbena_subnet::attribute::node_info;
use verbena_subnet::attribute::port_info::{self, capability};
use verbena_subnet::mad::{Mad, class, method, status};
use verbena_subnet::{End, Manager, Subnet, build, small};

use crate::files::Files;
use crate::header::{Header, LONG};
use crate::protocol::control::{ENABLE_PKEY, REGISTER_AGENT, UNREGISTER_AGENT};
use crate::protocol::errno::{EAGAIN, EINVAL, ENODEV, ENOMEM, ETIMEDOUT};

/// Nodes of the small fabric.
const HOST: u32 = 1;
const OTHER: u32 = 2;

fn files() -> Files {
    let mut fabric = build(&small()).unwrap();
    let place = Manager::place(&fabric).unwrap();
    let manager = Manager::start(place, &mut fabric, Vec::new());
    Files::new(Subnet::new(fabric, Some(manager)))
}

fn registration(qp: u8, class: u8, version: u8, methods: u128, rmpp: u8) -> [u8; 28] {
    let mut argument = [0; 28];
    argument[4..20].copy_from_slice(&methods.to_ne_bytes());
    argument[20..23].copy_from_slice(&[qp, class, version]);
    argument[26] = rmpp;
    argument
}

/// Opens a file and registers an agent, whose index is 0.
fn opened(files: &mut Files, id: u64, node: u32, mut registration: [u8; 28]) {
    files.open(id, node, 0).unwrap();
    files.control(id, ENABLE_PKEY, &mut []).unwrap();
    files
        .control(id, REGISTER_AGENT, &mut registration)
        .unwrap();
    assert_eq!(registration[..4], [0; 4]);
}

fn mad(class: u8, version: u8, method: u8, attribute: u16) -> Mad {
    let mut mad = Mad::empty();
    mad.set_class(class, version);
    mad.set_method(method);
    mad.set_attribute(attribute, 0);
    mad.set_tid(0xdead_beef_0000_0001);
    mad
}

fn message(mad: &Mad, lid: u16, qp: u32, timeout: u32, retries: u32) -> Vec<u8> {
    let header = Header {
        agent: 0,
        status: 0,
        timeout,
        retries,
        length: 0,
        qp,
        lid,
        sl: 0,
        path_bits: 0,
        p_key_index: 0,
    };
    header.message(LONG, mad, mad.bytes().len())
}

/// Returns the only message, which is for this file.
fn received(files: &mut Files, id: u64) -> (Header, Vec<u8>) {
    let outputs = files.take_outputs();
    assert_eq!(
        outputs.iter().map(|output| output.0).collect::<Vec<_>>(),
        [id]
    );
    let message = &outputs[0].1;
    let header = Header::of(message, LONG);
    assert_eq!(header.length as usize, message.len());
    (header, message[LONG..].to_vec())
}

#[test]
fn an_answer_comes_back_with_the_lower_half_of_the_transaction() {
    let mut files = files();
    opened(&mut files, 1, HOST, registration(0, 1, 1, 0, 0));
    let request = mad(class::SM_LID, 1, method::GET, node_info::NUMBER);
    files.write(1, &message(&request, 3, 0, 1000, 0)).unwrap();
    let (header, answer) = received(&mut files, 1);
    assert_eq!((header.status, header.lid, answer.len()), (0, 3, 256));
    let answer = Mad::of(&answer).unwrap();
    assert_eq!(answer.tid() as u32, 1);
    assert_ne!(answer.tid() >> 32, 0xdead_beef);
    assert_eq!(node_info::NODE_GUID.get(answer.data()), 0x2000000000300);
    assert_eq!(files.next_deadline(), None);
}

#[test]
fn a_request_without_an_answer_is_sent_again_and_comes_back() {
    let mut files = files();
    opened(&mut files, 1, HOST, registration(0, 1, 1, 0, 0));
    let request = mad(class::SM_LID, 1, method::GET, node_info::NUMBER);
    // No port has this LID.
    files.write(1, &message(&request, 99, 0, 10, 2)).unwrap();
    assert_eq!(
        files.write(1, &message(&request, 99, 0, 10, 2)),
        Err(EINVAL)
    );
    let sent = |files: &Files| {
        let end = End {
            node: HOST,
            port: 1,
        };
        let port = files.subnet.fabric.port(end).unwrap();
        port.counters
            .get(verbena_subnet::attribute::counters::Counter::TransmitPackets)
    };
    for attempt in 1..=3 {
        assert_eq!(sent(&files), attempt);
        assert!(files.take_outputs().is_empty());
        let deadline = files.next_deadline().unwrap();
        files.expire(deadline.max(Instant::now()) + Duration::from_millis(1));
    }
    let (header, returned) = received(&mut files, 1);
    assert_eq!((header.status, returned.len()), (ETIMEDOUT as u32, 24));
    assert_eq!(sent(&files), 3);
}

#[test]
fn wrong_writes_and_registrations_fail() {
    let mut files = files();
    let long = message(&mad(class::PM, 1, 1, 1), 2, 1, 0, 0);
    assert_eq!(files.write(1, &long), Err(EINVAL));
    assert_eq!(files.open(1, HOST, 1), Err(ENODEV));
    opened(&mut files, 1, HOST, registration(1, 4, 1, 2, 0));
    assert_eq!(files.write(1, &long[..LONG + 35]), Err(EINVAL));
    let mut other = long.clone();
    other[0] = 1;
    assert_eq!(files.write(1, &other), Err(EINVAL));
    other[0] = 0;
    other.resize(LONG + 257, 0);
    assert_eq!(files.write(1, &other), Err(EINVAL));
    assert_eq!(files.control(1, ENABLE_PKEY, &mut []), Err(EINVAL));
    assert_eq!(
        files.control(1, REGISTER_AGENT, &mut registration(1, 4, 1, 2, 0)),
        Err(EINVAL)
    );
    for _ in 1..32 {
        files
            .control(1, REGISTER_AGENT, &mut registration(1, 4, 1, 0, 0))
            .unwrap();
    }
    assert_eq!(
        files.control(1, REGISTER_AGENT, &mut registration(1, 4, 1, 0, 0)),
        Err(ENOMEM)
    );
    files
        .control(1, UNREGISTER_AGENT, &mut 5u32.to_ne_bytes())
        .unwrap();
    assert_eq!(
        files.control(1, UNREGISTER_AGENT, &mut 5u32.to_ne_bytes()),
        Err(EINVAL)
    );
    assert_eq!(
        files.control(1, UNREGISTER_AGENT, &mut 50u32.to_ne_bytes()),
        Err(EINVAL)
    );
}

#[test]
fn a_request_reaches_only_the_agent_that_registered_its_method() {
    let mut files = files();
    let ping = |methods| registration(1, 9, 1, methods, 0);
    opened(&mut files, 1, HOST, ping(0));
    opened(&mut files, 2, OTHER, ping(1 << method::GET));
    let request = mad(9, 1, method::GET, 0x10);
    files.write(1, &message(&request, 3, 1, 1000, 0)).unwrap();
    let (header, content) = received(&mut files, 2);
    assert_eq!(header.lid, 2);
    // The other answers, with the transaction as it came.
    let answer = Mad::of(&content).unwrap().response(0);
    files
        .write(2, &message(&answer, header.lid, header.qp, 0, 0))
        .unwrap();
    let (header, _) = received(&mut files, 1);
    assert_eq!((header.lid, header.status), (3, 0));
    files.close(2);
    files.write(1, &message(&request, 3, 1, 1000, 0)).unwrap();
    let (_, refusal) = received(&mut files, 1);
    assert_eq!(Mad::of(&refusal).unwrap().status(), status::ATTRIBUTE);
}

#[test]
fn one_manager_at_a_time_marks_a_port() {
    let mut files = files();
    let is_marked = |files: &Files| {
        let port = files
            .subnet
            .fabric
            .port(End {
                node: HOST,
                port: 1,
            })
            .unwrap();
        port_info::CAPABILITIES.get(&port.info) & capability::IS_SM != 0
    };
    files.open_manager(1, HOST, 0).unwrap();
    assert!(is_marked(&files));
    assert_eq!(files.open_manager(2, HOST, 0), Err(EAGAIN));
    files.close(1);
    assert!(!is_marked(&files));
    files.open_manager(2, HOST, 0).unwrap();
}

#[test]
fn a_long_answer_is_whole_or_in_segments() {
    let mut files = files();
    opened(&mut files, 1, HOST, registration(1, class::SA, 2, 0, 1));
    opened(&mut files, 2, OTHER, registration(1, class::SA, 2, 0, 0));
    let request = mad(class::SA, 2, method::GET_TABLE, 0x11);
    files.write(1, &message(&request, 1, 1, 1000, 0)).unwrap();
    let (_, whole) = received(&mut files, 1);
    assert_eq!(whole.len(), 56 + 3 * 112);
    files.write(2, &message(&request, 1, 1, 1000, 0)).unwrap();
    let segments = files.take_outputs();
    assert_eq!(segments.len(), 2);
    let data: Vec<u8> = segments
        .iter()
        .flat_map(|(_, one)| one[LONG + 56..].to_vec())
        .collect();
    assert_eq!(data[..3 * 112], whole[56..]);
}

#[test]
fn any_bytes_may_be_written() {
    let mut files = files();
    opened(
        &mut files,
        1,
        HOST,
        registration(1, class::SA, 2, u128::MAX, 1),
    );
    opened(&mut files, 2, OTHER, registration(1, 9, 1, u128::MAX, 1));
    let mut state = 0x5eed_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..next() % 700).map(|_| next() as u8).collect();
        if bytes.len() > LONG + 3 {
            bytes[..4].fill(0);
            // Few retries, as each is sent in the end.
            bytes[12..16].copy_from_slice(&(next() as u32 % 3).to_ne_bytes());
            bytes[20..24].copy_from_slice(&(next() as u32 % 2).to_be_bytes());
            bytes[28..30].copy_from_slice(&(next() as u16 % 4).to_be_bytes());
            bytes[LONG + 1] = [3, 9, 0x32, 4][next() as usize % 4];
        }
        let _ = files.write(1 + next() % 2, &bytes);
        files.take_outputs();
    }
    for _ in 0..4 {
        files.expire(Instant::now() + Duration::from_secs(u32::MAX.into()));
    }
}
