use super::file::{FOOTER, FUNCTIONS, MAGIC};
use super::{Imported, import};
use crate::{Collective, Messages, Part, RankTrace, Summary, Trace};
use proptest::prelude::*;

/// Writes a rank's file, as libdumpi does.
#[derive(Default)]
struct File {
    calls: Vec<u8>,
    /// Time of the next call in nanoseconds.
    now: u64,
    version: Option<[u8; 3]>,
}

/// An argument of a call.
enum Arg<'a> {
    I(i32),
    H(u16),
    B(u8),
    List(&'a [i32]),
    /// Length, source and tag of each status.
    Statuses(&'a [(i32, i32, i32)]),
}
use Arg::{B, H, I, List, Statuses};

const WORLD: Arg<'static> = H(2);
/// MPI_DOUBLE, of 8 bytes.
const DOUBLE: Arg<'static> = H(14);

impl File {
    /// Adds a call that takes 10 ns and begins 100 ns after the previous one.
    fn call(mut self, number: u16, arguments: &[Arg<'_>]) -> File {
        self.now += 100;
        self.calls.extend(number.to_be_bytes());
        self.calls.push(3 | 1 << 2 | 1 << 3 | 1 << 6);
        self.calls.extend(0_u16.to_be_bytes());
        for now in [0, 0, self.now, self.now + 10] {
            self.calls
                .extend(((now / 1_000_000_000) as u16).to_be_bytes());
            self.calls
                .extend(((now % 1_000_000_000) as u32).to_be_bytes());
        }
        self.now += 10;
        for argument in arguments {
            match *argument {
                I(number) => self.calls.extend(number.to_be_bytes()),
                H(number) => self.calls.extend(number.to_be_bytes()),
                B(number) => self.calls.push(number),
                List(list) => {
                    self.calls.extend((list.len() as u32).to_be_bytes());
                    list.iter().for_each(|n| self.calls.extend(n.to_be_bytes()));
                }
                Statuses(list) => {
                    self.calls.extend((list.len() as u32).to_be_bytes());
                    for (bytes, source, tag) in list {
                        self.calls.extend(bytes.to_be_bytes());
                        self.calls.extend(source.to_be_bytes());
                        self.calls.extend([0, 0]);
                        self.calls.extend(tag.to_be_bytes());
                    }
                }
            }
        }
        self
    }

    fn finish(self) -> Vec<u8> {
        let mut file = MAGIC.to_be_bytes().to_vec();
        let body = file.len();
        file.extend([0; 8]);
        file.extend(self.calls);
        file.extend(293_u16.to_be_bytes());
        let header = file.len();
        file.extend(self.version.unwrap_or([1, 1, 0]));
        file.extend([0; 8 + 2 + 2 + 4 + 4]);
        let footer = file.len();
        file.extend(FOOTER.to_be_bytes());
        file.extend(vec![0; 8 * (FUNCTIONS + 1)]);
        let sizes = file.len();
        file.extend(30_u32.to_be_bytes());
        for datatype in 0..30_u32 {
            let size = if datatype == 29 { 24 } else { 8 };
            file.extend(u32::to_be_bytes(size));
        }
        file.extend(MAGIC.to_be_bytes());
        for position in [sizes, 0, 0, header, body, footer, 0] {
            file.extend((position as u64).to_be_bytes());
        }
        file
    }
}

fn init() -> File {
    File::default().call(124, &[I(0)])
}

fn imported(files: &[Vec<u8>]) -> Result<Imported, String> {
    let names: Vec<String> = (0..files.len())
        .map(|rank| format!("x-{rank}.bin"))
        .collect();
    import(&names, |rank| Ok(files[rank].clone())).map_err(|error| error.to_string())
}

/// Imports files and reads the result back.
fn trace(files: Vec<File>) -> Trace {
    let files: Vec<_> = files
        .into_iter()
        .map(|file| file.call(125, &[]).finish())
        .collect();
    let imported = imported(&files).unwrap();
    let ranks = imported
        .ranks
        .iter()
        .map(|file| RankTrace::read(file).unwrap());
    Trace {
        path: "x".into(),
        ranks: ranks.collect(),
    }
}

fn parts(trace: &Trace, rank: usize) -> Vec<Part> {
    let rank = &trace.ranks[rank];
    let records = rank.records.iter();
    records
        .flat_map(|record| rank.parts(record).to_vec())
        .collect()
}

#[test]
fn messages_have_their_bytes_and_times() {
    let first = init()
        .call(0, &[I(512), DOUBLE, I(1), I(7), WORLD])
        .call(8, &[I(2), H(29), I(1), I(8), WORLD, I(5)])
        .call(13, &[I(5), Statuses(&[])]);
    let second = init()
        .call(12, &[I(600), DOUBLE, I(-1), I(-1), WORLD, I(2)])
        .call(18, &[I(1), List(&[2]), Statuses(&[(4096, 0, 7)])])
        .call(1, &[I(2), H(29), I(0), I(8), WORLD, Statuses(&[])]);
    let trace = trace(vec![first, second]);
    let messages = Messages::of(&trace).unwrap();
    assert_eq!(messages.sent(), (2, 4096 + 48));
    assert!(messages.imbalances().is_empty());
    // 100 ns before each of the four calls of a rank after MPI_Init.
    assert_eq!(Summary::of(&trace).computing, 8 * 100);
    assert!(trace.unfinished().next().is_none());
}

#[test]
fn persistent_requests_keep_their_slots() {
    let file = init()
        .call(26, &[I(1), DOUBLE, I(0), I(3), H(3), I(4)])
        .call(30, &[I(1), DOUBLE, I(0), I(3), H(3), I(6)])
        .call(32, &[I(2), List(&[4, 6])])
        .call(18, &[I(2), List(&[4, 6]), Statuses(&[])])
        .call(32, &[I(2), List(&[4, 6])])
        .call(
            20,
            &[I(2), List(&[4, 6]), I(2), List(&[1, 0]), Statuses(&[])],
        )
        .call(15, &[I(4)]);
    let trace = trace(vec![file]);
    assert_eq!(Messages::of(&trace).unwrap().sent(), (2, 16));
    let begun = parts(&trace, 0).into_iter().filter_map(|part| match part {
        Part::BeginSend { slot, .. } => Some(slot),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn one_number_can_be_several_sends_and_null_messages_are_omitted() {
    let send = [I(1), DOUBLE, I(0), I(3), H(3), I(4)];
    let file = init()
        .call(8, &send)
        .call(8, &send)
        .call(8, &[I(1), DOUBLE, I(-2), I(3), WORLD, I(4)])
        .call(18, &[I(3), List(&[4, 4, 4]), Statuses(&[])])
        .call(
            1,
            &[I(1), DOUBLE, I(-1), I(3), WORLD, Statuses(&[(0, -1, -1)])],
        )
        .call(1, &[I(1), DOUBLE, I(0), I(3), H(3), Statuses(&[])])
        .call(1, &[I(1), DOUBLE, I(0), I(3), H(3), Statuses(&[])]);
    let trace = trace(vec![file]);
    let messages = Messages::of(&trace).unwrap();
    assert_eq!(messages.sent(), (2, 16));
    assert!(messages.imbalances().is_empty());
}

#[test]
fn collective_operations_have_kind_root_and_lengths() {
    let rank = |rank: i32| {
        let is_root = rank == 1;
        let gather = [I(rank), I(3), DOUBLE, I(1), WORLD, I(3), DOUBLE];
        let gather = if is_root { &gather[..] } else { &gather[..5] };
        let lists = [List(&[1, 2]), List(&[0, 1]), DOUBLE];
        let gatherv = [I(rank), I(2), I(rank + 1), DOUBLE, I(1), WORLD];
        let gatherv = gatherv
            .into_iter()
            .chain(lists.into_iter().skip(if is_root { 0 } else { 2 }));
        init()
            .call(52, &[WORLD])
            .call(53, &[I(4), DOUBLE, I(1), WORLD])
            .call(62, &[I(4), DOUBLE, B(3), I(0), WORLD])
            .call(65, &[I(4), DOUBLE, B(3), WORLD])
            .call(54, gather)
            .call(55, &gatherv.collect::<Vec<_>>())
            .call(58, &[I(0), H(1), I(5), DOUBLE, WORLD])
            .call(66, &[I(2), List(&[1, 2]), DOUBLE, B(3), WORLD])
    };
    let trace = trace(vec![rank(0), rank(1)]);
    let found: Vec<_> = parts(&trace, 1)
        .into_iter()
        .filter_map(|part| match part {
            Part::Collective {
                kind, root, bytes, ..
            } => Some((kind, root, vec![bytes])),
            Part::Varied {
                kind, root, back, ..
            } => Some((kind, root, back)),
            _ => None,
        })
        .collect();
    assert_eq!(
        found,
        [
            (Collective::Barrier, None, vec![0]),
            (Collective::Broadcast, Some(1), vec![32]),
            (Collective::Reduce, Some(0), vec![32]),
            (Collective::AllReduce, None, vec![32]),
            (Collective::Gather, Some(1), vec![24]),
            (Collective::Gather, Some(1), vec![8, 16]),
            (Collective::AllGather, None, vec![40]),
            (Collective::ReduceScatter, None, vec![8, 16]),
        ]
    );
}

/// Returns the members of the communicators that a rank created, in order.
fn created(trace: &Trace, rank: usize) -> Vec<Vec<usize>> {
    let parts = parts(trace, rank).into_iter();
    let members = parts.filter_map(|part| match part {
        Part::Communicator { members, .. } => Some(members),
        _ => None,
    });
    members.skip(2).collect()
}

#[test]
fn members_of_communicators_are_computed() {
    let rank = |rank: i32| {
        let in_group = matches!(rank, 0 | 3);
        let grid = [WORLD, I(2), List(&[2, 2]), List(&[0, 0]), I(0), H(6)];
        init()
            .call(84, &[WORLD, H(4)])
            // Even and odd ranks, in reverse order.
            .call(86, &[H(4), I(rank % 2), I(-rank), H(5)])
            .call(99, &grid)
            .call(111, &[I(2), H(6), List(&[0, 1]), H(7)])
            .call(72, &[WORLD, H(3)])
            .call(76, &[H(3), I(2), List(&[3, 0]), H(4)])
            .call(85, &[WORLD, H(4), H(if in_group { 8 } else { 1 })])
            .call(87, &[H(4)])
            .call(84, &[H(5), H(4)])
    };
    let trace = trace((0..4).map(rank).collect());
    assert_eq!(
        created(&trace, 0),
        [
            vec![0, 1, 2, 3],
            vec![2, 0],
            vec![0, 1, 2, 3],
            vec![0, 1],
            vec![3, 0],
            vec![2, 0]
        ]
    );
    assert_eq!(
        created(&trace, 3)[1..],
        [
            vec![3, 1],
            vec![0, 1, 2, 3],
            vec![2, 3],
            vec![3, 0],
            vec![3, 1]
        ]
    );
    assert_eq!(created(&trace, 1).len(), 5);
    Messages::of(&trace).unwrap();
}

#[test]
fn seconds_of_16_bits_wrap() {
    let mut file = init();
    file.now = 65_535_999_999_000;
    let file = file.call(122, &[]).call(122, &[]);
    let mut file = file.call(122, &[]);
    // A second later, after the wrap.
    file.now = 65_536_999_999_000;
    let trace = trace(vec![file.call(122, &[])]);
    let computing = Summary::of(&trace).computing;
    assert_eq!(computing / 1_000_000_000, 65_536 - 1 + 1);
}

#[test]
fn refusals_name_file_and_place() {
    let refused = |files: Vec<File>| {
        let files: Vec<_> = files.into_iter().map(File::finish).collect();
        imported(&files).unwrap_err()
    };
    let any = [I(1), DOUBLE, I(-1), I(3), WORLD, Statuses(&[])];
    assert_eq!(
        refused(vec![init().call(1, &any)]),
        "x-0.bin, byte 49: MPI_Recv: a receive from any rank or with any tag has no status in the \
         trace, which would name its message"
    );
    assert_eq!(
        refused(vec![init().call(142, &[])]),
        "x-0.bin, byte 49: a call of function 142, of one-sided communication"
    );
    assert_eq!(
        refused(vec![init().call(52, &[H(9)])]),
        "x-0.bin, byte 49: MPI_Barrier: there is no communicator 9"
    );
    assert_eq!(
        refused(vec![init().call(84, &[WORLD, H(4)]), init()]),
        "x-0.bin, byte 49: it creates a communicator, and rank 1 of the same communicator does not"
    );
    assert_eq!(
        refused(vec![
            init().call(84, &[WORLD, H(4)]),
            init().call(86, &[WORLD, I(0), I(0), H(4)])
        ]),
        "x-1.bin, byte 49: it does not agree with x-0.bin, byte 49, the call of rank 0 to the same \
         operation"
    );
    let whole = init().finish();
    assert_eq!(
        imported(&[whole[..whole.len() - 1].to_vec()]).unwrap_err(),
        format!(
            "x-0.bin, byte {}: the file has no index: the program did not end normally",
            whole.len() - 1
        )
    );
    assert_eq!(
        imported(&[b"\x7fELF".to_vec()]).unwrap_err(),
        "x-0.bin, byte 0: it is not a DUMPI file"
    );
}

proptest! {
    #[test]
    fn damaged_files_are_imported_or_refused(
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let file = init()
            .call(84, &[WORLD, H(4)])
            .call(86, &[H(4), I(0), I(1), H(5)])
            .call(72, &[WORLD, H(3)])
            .call(76, &[H(3), I(1), List(&[0]), H(4)])
            .call(8, &[I(1), DOUBLE, I(0), I(3), WORLD, I(4)])
            .call(12, &[I(1), DOUBLE, I(-1), I(3), WORLD, I(6)])
            .call(20, &[I(2), List(&[4, 6]), I(2), List(&[1, 0]),
                Statuses(&[(8, 0, 3), (8, 0, 3)])])
            .call(54, &[I(0), I(1), DOUBLE, I(0), WORLD, I(1), DOUBLE])
            .call(61, &[I(1), List(&[1]), List(&[0]), DOUBLE, List(&[1]), List(&[0]), DOUBLE,
                WORLD])
            .call(125, &[]);
        let mut file = file.finish();
        for (at, value) in damages {
            let at = at.index(file.len());
            file[at] = value;
        }
        let _ = imported(&[file]);
    }
}
