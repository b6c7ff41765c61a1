use super::{Action, Collective, Reader, Trace};
use proptest::prelude::*;
use std::io::BufReader;

/// Appends a varint.
fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Returns a field with a varint.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3, &mut bytes);
    varint(value, &mut bytes);
    bytes
}

/// Returns a field with bytes.
fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3 | 2, &mut bytes);
    varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

/// Returns an attribute (field 10 of a node).
fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), value.to_vec()].concat())
}

/// Returns a file: metadata, then nodes.
fn file(nodes: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut file = Vec::new();
    let metadata = bytes(1, b"0.0.4");
    for message in std::iter::once(metadata).chain(nodes.iter().map(|node| node.concat())) {
        varint(message.len() as u64, &mut file);
        file.extend(message);
    }
    file
}

fn read(files: &[Vec<u8>]) -> Result<Trace, String> {
    let mut reader = Reader::default();
    for (rank, file) in files.iter().enumerate() {
        let read = reader.read(&format!("x.{rank}.et"), BufReader::new(&file[..]));
        read.map_err(|error| error.to_string())?;
    }
    reader.finish().map_err(|error| error.to_string())
}

/// Returns the only node's action, or the error.
fn action(node: Vec<Vec<u8>>) -> Result<Action, String> {
    let trace = read(&[file(&[node])])?;
    Ok(trace.ranks[0].nodes[0].action.clone())
}

/// Nodes as Chakra's generator.py makes them, serialized by google.protobuf 7.36.2.
const GENERATED: &[u8] = b"\x07\n\x050.0.4\
    @\x08\x05\x12\nALL_GATHER\x18\x07R\x0e\n\tis_cpu_op\xd8\x01\x00R\r\n\tcomm_typeH\x02\
    R\x0f\n\tcomm_sizeh\x80\x80\x04\
    \x1f\x12\tCOMP_NODE\x18\x048\x05R\x0e\n\tis_cpu_op\xd8\x01\x00\
    &\x08\xac\x02\x12\tCOMP_NODE\x18\x04*\x02\x00\x058\x05R\x0e\n\tis_cpu_op\xd8\x01\x00";

#[test]
fn files_of_googles_library_are_read() {
    let trace = read(&[GENERATED.to_vec()]).unwrap();
    let [coll, parent, child] = &trace.ranks[0].nodes[..] else {
        panic!("three nodes");
    };
    assert_eq!(
        coll.action,
        Action::Collective {
            kind: Collective::AllGather,
            bytes: 65536,
            group: String::new()
        }
    );
    assert_eq!((coll.id, coll.name.as_str()), (5, "ALL_GATHER"));
    assert_eq!((parent.id, child.id), (0, 300));
    assert_eq!(child.data, [0, 5]);
    assert_eq!(
        child.action,
        Action::Compute {
            micros: 5,
            operations: 0,
            on_host: false,
            is_memory: false
        }
    );
}

#[test]
fn integers_of_all_types_are_read() {
    let send = |size: Vec<u8>| {
        action(vec![
            number(3, 5),
            attribute("comm_dst", &number(7, 1)),
            attribute("comm_size", &size),
        ])
    };
    let fixed = |field: u64, wire: u64, value: &[u8]| {
        let mut bytes = Vec::new();
        varint(field << 3 | wire, &mut bytes);
        bytes.extend(value);
        bytes
    };
    for size in [
        number(7, 300),
        number(9, 300),
        number(11, 300),
        number(13, 300),
        number(15, 600),
        number(17, 600),
        fixed(19, 5, &300_u32.to_le_bytes()),
        fixed(21, 1, &300_u64.to_le_bytes()),
        fixed(23, 5, &300_i32.to_le_bytes()),
        fixed(25, 1, &300_i64.to_le_bytes()),
    ] {
        let sent = Action::Send {
            to: 1,
            bytes: 300,
            tag: 0,
        };
        assert_eq!(send(size), Ok(sent));
    }
    let reason = send(number(9, u64::MAX)).unwrap_err();
    assert_eq!(reason, "x.0.et, node 0 (): its comm_size is -1");
    let reason = send(bytes(29, b"300")).unwrap_err();
    assert_eq!(reason, "x.0.et, node 0 (): its comm_size is not an integer");
}

#[test]
fn groups_of_pytorch_and_of_a_file_are_known() {
    let inputs = "['[{\"pg_name\": \"0\", \"ranks\": []}, {\"pg_name\": \"3\", \"pg_desc\": \"x\", \
                  \"ranks\": [1, 0]}]']";
    let metadata = vec![number(3, 1), bytes(8, &bytes(1, inputs.as_bytes()))];
    let mut reader = Reader::default();
    let written = file(&[metadata]);
    reader.read("x.0.et", &written[..]).unwrap();
    reader.read("x.1.et", &file(&[])[..]).unwrap();
    reader.read_groups("g.json", b"{\"7\": [1]}").unwrap();
    assert!(reader.read_groups("g.json", b"[1]").is_err());
    let trace = reader.finish().unwrap();
    assert_eq!(trace.members(0, "0"), Some(vec![0, 1]));
    assert_eq!(trace.members(0, "3"), Some(vec![1, 0]));
    assert_eq!(trace.members(1, "3"), None);
    assert_eq!(trace.members(1, ""), Some(vec![0, 1]));
    assert_eq!(trace.members(1, "7"), Some(vec![1]));
}

#[test]
fn refusals_name_file_and_place() {
    let compute = vec![number(1, 2), number(3, 4)];
    let whole = file(std::slice::from_ref(&compute));
    let cut = whole[..whole.len() - 1].to_vec();
    for (file, reason) in [
        (vec![], "x.0.et, byte 0: the file is empty"),
        (
            vec![0x1f, 0x8b, 8],
            "x.0.et, byte 0: the file is compressed; unpack it with gunzip",
        ),
        (
            cut,
            "x.0.et, byte 8: the file ends 1 bytes before this message does",
        ),
        (
            vec![2, 8, 1],
            "x.0.et, byte 0: the first message is not the metadata of a Chakra trace",
        ),
        (
            b"\xff\xff\xff\xff\xff".to_vec(),
            "x.0.et, byte 0: a message is longer than 268435456 bytes; is this a Chakra trace?",
        ),
        (
            file(&[vec![number(3, 7), attribute("comm_type", &number(9, 12))]]),
            "x.0.et, node 0 (): its comm_type 12 is unknown",
        ),
        (
            file(&[vec![number(3, 9)]]),
            "x.0.et, node 0 (): nodes of type BATCH_NODE are not replayed",
        ),
        (
            file(&[vec![number(3, 6), attribute("comm_dst", &number(7, 3))]]),
            "x.0.et, node 0 (): its comm_dst is 3, in the file of rank 0",
        ),
        (
            file(&[vec![
                number(3, 7),
                attribute("comm_type", &number(9, 0)),
                attribute("involved_dim", &bytes(28, &bytes(1, &[1, 0]))),
            ]]),
            "x.0.et, node 0 (): its involved_dim selects dimensions of a simulated network, and \
             not ranks; give it a process group (pg_name)",
        ),
        (
            file(&[vec![bytes(1, b"id")]]),
            "x.0.et, byte 8: no varint, where one is expected",
        ),
    ] {
        assert_eq!(read(&[file]).unwrap_err(), reason);
    }
}

#[test]
fn the_older_form_is_read() {
    let json = br#"{"workload_graph": [
        {"Id": 1, "Name": "COMP", "NodeType": 4, "is_cpu_op": false, "runtime": 7, "data_deps": []},
        {"Id": 2, "Name": "C", "NodeType": 7, "is_cpu_op": false, "data_deps": [1],
         "comm_type": 0, "comm_size": 128}]}"#;
    let mut reader = Reader::default();
    reader.read("x.0.json", &json[..]).unwrap();
    let trace = reader.finish().unwrap();
    assert_eq!(trace.ranks[0].nodes[1].data, [1]);
    let mut reader = Reader::default();
    let refused = reader.read("x.0.json", &b"{\"nodes\": []}"[..]);
    let reason = refused.unwrap_err().to_string();
    assert!(
        reason.starts_with("x.0.json, byte 0: no nodes in JSON"),
        "{reason}"
    );
}

proptest! {
    #[test]
    fn written_nodes_are_read_back(
        nodes in proptest::collection::btree_map(
            any::<u64>(),
            (any::<u64>(), proptest::collection::btree_set(any::<u64>(), 0..4), any::<bool>()),
            0..20,
        ),
    ) {
        let written: Vec<_> = nodes.iter().map(|(&id, (micros, deps, packed))| {
            let mut node = vec![number(1, id), number(3, 4), number(7, *micros)];
            let mut all = Vec::new();
            for &dep in deps {
                match packed {
                    true => varint(dep, &mut all),
                    false => node.push(number(5, dep)),
                }
            }
            node.push(bytes(4, &all));
            node
        }).collect();
        let trace = read(&[file(&written)]).unwrap();
        prop_assert_eq!(trace.ranks[0].nodes.len(), nodes.len());
        for (node, (&id, (written, deps, packed))) in trace.ranks[0].nodes.iter().zip(&nodes) {
            prop_assert_eq!(node.id, id);
            let found = if *packed { &node.control } else { &node.data };
            prop_assert!(found.iter().eq(deps));
            let Action::Compute { micros, .. } = node.action else { panic!("it computes") };
            prop_assert_eq!(micros, *written);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(
        input in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&[input]);
    }
}
