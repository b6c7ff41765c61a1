//! Multicast memberships that programs request by datagrams of their queue pairs.
//!
//! A port is a member once for all of its programs, so their memberships are counted, as Linux's
//! `ib_sa` counts those of its users: a program that leaves does not end the membership of another,
//! and the memberships of a program end with it. Joins by device files are not counted, as in
//! Linux.

use std::collections::{BTreeMap, VecDeque};

use verbena_subnet::End;
use verbena_subnet::mad::{Mad, SA_DATA, class, method};

use crate::files::FileId;

/// Number of the attribute.
const MEMBER: u16 = 0x38;
/// Class version of subnet administration.
const VERSION: u8 = 2;
/// Bytes of a record, and its MGID with the GID of the port.
const RECORD: usize = 52;
const GIDS: usize = 32;
/// Byte of the record with the join state in its lower half.
const STATE: usize = 48;
const STATES: u8 = 0x0f;
/// Component mask of MGID, port GID and join state.
const COMPONENTS: u64 = 1 | 1 << 1 | 1 << 16;
/// Memberships of a program, and its requests that wait for an answer; further ones are not
/// counted.
const MOST: usize = 4096;

type Gids = [u8; GIDS];

/// A join or a leave that waits for an answer.
#[derive(Debug)]
struct Request {
    from: End,
    queue_pair: u32,
    transaction: u64,
    is_join: bool,
    gids: Gids,
    states: u8,
}

/// The memberships of a program by group and port, with the port and the join states.
#[derive(Debug, Default)]
struct Program {
    states: BTreeMap<Gids, (End, u8)>,
    requests: VecDeque<Request>,
}

/// The memberships of all programs, by connection.
#[derive(Debug, Default)]
pub struct Memberships {
    programs: BTreeMap<FileId, Program>,
}

impl Memberships {
    /// Notes a request of a queue pair. A leave is reduced to the join states that no other program
    /// has; if others have all, the answer is returned, and the request need not be sent.
    pub fn sent(
        &mut self,
        id: FileId,
        (from, queue_pair): (End, u32),
        mad: &mut Mad,
    ) -> Option<Mad> {
        let is_join = match (mad.class(), mad.attribute(), mad.method()) {
            (class::SA, MEMBER, method::SET) => true,
            (class::SA, MEMBER, method::DELETE) => false,
            _ => return None,
        };
        let (gids, states) = (gids(mad), mad.record()[STATE] & STATES);
        if !is_join {
            let others = self.states_of_others(id, &gids);
            if states != 0 && states & !others == 0 {
                if let Some(program) = self.programs.get_mut(&id) {
                    program.leave(&gids, states, program.requests.len());
                }
                return Some(mad.response(0));
            }
            mad.bytes_mut()[SA_DATA + STATE] &= !others | !STATES;
        }
        let program = self.programs.entry(id).or_default();
        let is_same = |one: &Request| (one.queue_pair, one.transaction) == (queue_pair, mad.tid());
        program.requests.retain(|one| !is_same(one));
        if program.requests.len() == MOST {
            program.requests.pop_front();
        }
        program.requests.push_back(Request {
            from,
            queue_pair,
            transaction: mad.tid(),
            is_join,
            gids,
            states,
        });
        None
    }

    /// Notes an answer to a queue pair.
    pub fn answered(&mut self, id: FileId, queue_pair: u32, mad: &Mad) {
        if mad.class() != class::SA || mad.attribute() != MEMBER {
            return;
        }
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        let is_its = |one: &Request| (one.queue_pair, one.transaction) == (queue_pair, mad.tid());
        let Some(at) = program.requests.iter().position(is_its) else {
            return;
        };
        let Some(request) = program.requests.remove(at).filter(|_| mad.status() == 0) else {
            return;
        };
        match request.is_join {
            // The address of a group may have been chosen for it.
            true => program.join(gids(mad), request.from, request.states),
            false => program.leave(&request.gids, request.states, at),
        }
    }

    /// Ends the memberships of a program, and returns the requests to leave those that no other
    /// program has, with the ports that they leave by.
    pub fn close(&mut self, id: FileId) -> Vec<(End, Mad)> {
        let Some(mut program) = self.programs.remove(&id) else {
            return Vec::new();
        };
        // A join under way is carried out before the leave.
        for request in std::mem::take(&mut program.requests) {
            if request.is_join {
                program.join(request.gids, request.from, request.states);
            }
        }
        let mut leave = |(gids, (from, states)): (Gids, (End, u8))| {
            let left = states & !self.states_of_others(id, &gids);
            (left != 0).then(|| (from, leave(&gids, left)))
        };
        let states = program.states.into_iter();
        states.filter_map(&mut leave).collect()
    }

    /// Returns the join states of a port in a group that other programs have. Their joins under way
    /// count as carried out from now on, even if they are refused: the subnet administration could
    /// carry out a leave after them.
    fn states_of_others(&mut self, id: FileId, gids: &Gids) -> u8 {
        let others = self.programs.iter_mut().filter(|(other, _)| **other != id);
        others.fold(0, |all, (_, program)| all | program.states_in(gids))
    }
}

impl Program {
    /// Returns the join states in a group, after joins under way.
    fn states_in(&mut self, gids: &Gids) -> u8 {
        let joins = self
            .requests
            .iter()
            .filter(|one| one.is_join && one.gids == *gids);
        for (from, states) in joins.map(|one| (one.from, one.states)).collect::<Vec<_>>() {
            self.join(*gids, from, states);
        }
        self.states.get(gids).map_or(0, |(_, states)| *states)
    }

    fn join(&mut self, gids: Gids, from: End, states: u8) {
        if self.states.len() < MOST || self.states.contains_key(&gids) {
            self.states.entry(gids).or_insert((from, 0)).1 |= states;
        }
    }

    /// Ends join states, those of the oldest `before` requests included.
    fn leave(&mut self, gids: &Gids, states: u8, before: usize) {
        let joins = self.requests.iter_mut().take(before);
        for join in joins.filter(|one| one.is_join && one.gids == *gids) {
            join.states &= !states;
        }
        if let Some((_, known)) = self.states.get_mut(gids) {
            *known &= !states;
            if *known == 0 {
                self.states.remove(gids);
            }
        }
    }
}

fn gids(mad: &Mad) -> Gids {
    std::array::from_fn(|at| mad.record()[at])
}

/// Returns a request to leave a group.
fn leave(gids: &Gids, states: u8) -> Mad {
    let mut mad = Mad::empty();
    mad.set_class(class::SA, VERSION);
    mad.set_method(method::DELETE);
    mad.set_attribute(MEMBER, 0);
    mad.set_components(COMPONENTS);
    let record = &mut mad.bytes_mut()[SA_DATA..][..RECORD];
    record[..GIDS].copy_from_slice(gids);
    record[STATE] = states;
    mad
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u8 = 1;
    const SEND_ONLY: u8 = 8;
    const QUEUE_PAIR: u32 = 7;
    const FROM: (End, u32) = (End { node: 3, port: 1 }, QUEUE_PAIR);

    fn request(method: u8, group: u8, states: u8) -> Mad {
        let mut gids = [0; GIDS];
        (gids[0], gids[15], gids[31]) = (0xff, group, 9);
        let mut mad = leave(&gids, states);
        mad.set_method(method);
        mad.set_tid(u64::from(group) << 8 | u64::from(method));
        mad
    }

    /// Sends a request and its answer. Returns the join states that administration would see.
    fn ask(all: &mut Memberships, id: FileId, mut mad: Mad, status: u16) -> Option<u8> {
        if let Some(answer) = all.sent(id, FROM, &mut mad) {
            assert_eq!((answer.status(), answer.tid()), (0, mad.tid()));
            assert_eq!(answer.method(), method::DELETE | method::RESPONSE);
            return None;
        }
        all.answered(id, QUEUE_PAIR, &mad.response(status));
        Some(mad.record()[STATE] & STATES)
    }

    fn left(all: &mut Memberships, id: FileId) -> Vec<(u8, u8)> {
        let of = |(from, mad): (End, Mad)| {
            assert_eq!(from, FROM.0);
            (mad.record()[15], mad.record()[STATE])
        };
        all.close(id).into_iter().map(of).collect()
    }

    #[test]
    fn the_last_program_of_a_port_leaves_its_groups() {
        let mut all = Memberships::default();
        for id in [1, 2] {
            ask(&mut all, id, request(method::SET, 5, FULL), 0);
        }
        ask(&mut all, 1, request(method::SET, 6, SEND_ONLY), 0);
        ask(&mut all, 1, request(method::SET, 7, FULL), 0x200);
        assert_eq!(left(&mut all, 1), [(6, SEND_ONLY)]);
        assert_eq!(left(&mut all, 2), [(5, FULL)]);
        assert_eq!(left(&mut all, 3), []);
    }

    #[test]
    fn a_leave_keeps_the_join_states_of_other_programs() {
        let mut all = Memberships::default();
        ask(&mut all, 1, request(method::SET, 5, FULL | SEND_ONLY), 0);
        ask(&mut all, 2, request(method::SET, 5, FULL), 0);
        let both = request(method::DELETE, 5, FULL | SEND_ONLY);
        assert_eq!(ask(&mut all, 1, both, 0), Some(SEND_ONLY));
        ask(&mut all, 3, request(method::SET, 5, FULL), 0);
        assert_eq!(ask(&mut all, 3, request(method::DELETE, 5, FULL), 0), None);
        assert_eq!(
            ask(&mut all, 2, request(method::DELETE, 5, FULL), 0),
            Some(FULL)
        );
        assert_eq!((left(&mut all, 1), left(&mut all, 2)), (vec![], vec![]));
    }

    #[test]
    fn a_join_without_an_answer_is_left_and_a_refused_leave_too() {
        let mut all = Memberships::default();
        assert!(
            all.sent(1, FROM, &mut request(method::SET, 5, FULL))
                .is_none()
        );
        ask(&mut all, 1, request(method::SET, 6, FULL), 0);
        ask(&mut all, 1, request(method::DELETE, 6, FULL), 0x200);
        // Of another queue pair.
        all.answered(
            1,
            QUEUE_PAIR + 1,
            &request(method::SET, 5, FULL).response(0x200),
        );
        assert_eq!(left(&mut all, 1), [(5, FULL), (6, FULL)]);
    }

    #[test]
    fn a_program_that_never_joined_ends_no_membership_of_another() {
        let mut all = Memberships::default();
        ask(&mut all, 1, request(method::SET, 5, FULL), 0);
        assert_eq!(ask(&mut all, 2, request(method::DELETE, 5, FULL), 0), None);
        assert_eq!(left(&mut all, 1), [(5, FULL)]);
    }

    #[test]
    fn a_membership_is_kept_for_a_join_under_way() {
        for status in [0, 0x200] {
            let mut all = Memberships::default();
            ask(&mut all, 1, request(method::SET, 5, FULL), 0);
            let mut join = request(method::SET, 5, FULL);
            assert!(all.sent(2, FROM, &mut join).is_none());
            assert_eq!(left(&mut all, 1), []);
            all.answered(2, QUEUE_PAIR, &join.response(status));
            // It is not lost if the join is refused.
            assert_eq!(left(&mut all, 2), [(5, FULL)]);
        }
    }

    #[test]
    fn a_join_without_an_answer_does_not_count_after_a_leave() {
        let mut all = Memberships::default();
        for tid in [1, 1, 2] {
            let mut join = request(method::SET, 5, FULL);
            join.set_tid(tid);
            assert!(all.sent(1, FROM, &mut join).is_none());
        }
        assert_eq!(all.programs[&1].requests.len(), 2);
        ask(&mut all, 1, request(method::DELETE, 5, FULL), 0);
        ask(&mut all, 2, request(method::SET, 5, FULL), 0);
        assert_eq!(left(&mut all, 2), [(5, FULL)]);
        assert_eq!(left(&mut all, 1), []);
    }

    #[test]
    fn memberships_of_a_program_are_bounded() {
        let mut all = Memberships::default();
        for at in 0..2 * MOST {
            let mut mad = request(method::SET, 0, FULL);
            mad.bytes_mut()[SA_DATA + 1..][..8].copy_from_slice(&at.to_be_bytes());
            mad.set_tid(at as u64);
            if at % 2 == 0 {
                all.answered(1, QUEUE_PAIR, &mad.response(0));
            }
            all.sent(1, FROM, &mut mad);
            all.answered(1, QUEUE_PAIR, &mad.response(0));
        }
        assert_eq!(all.programs[&1].states.len(), MOST);
        assert!(all.programs[&1].requests.is_empty());
    }
}
