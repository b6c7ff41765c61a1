//! CPU pinning of a job's processes. It depends on the processes that work in a point, not on their
//! total: of four processes on two processors, a pair that works while the others wait at the
//! exchange has a processor each.

use super::job::JobGroup;
use crate::error::Result;
use crate::group::Group;
use crate::interface::Pinning;
use std::collections::BTreeSet;
use std::path::Path;
use verbena_measure::processors::{allowed, bind, deal};
use verbena_measure::topology::{SYSTEM, in_order_of_use};

/// The processors available to each process of this machine.
pub struct CpuPinning {
    rank: usize,
    /// By rank; empty for processes of other machines.
    allowed: Vec<Vec<usize>>,
}

impl CpuPinning {
    /// Exchanges the processors that the launcher left to each process, in order of preference;
    /// `near` is the NUMA node of the adapter.
    ///
    /// # Errors
    ///
    /// Returns an error if the exchange fails.
    pub async fn agree(group: &JobGroup, near: Option<u32>) -> Result<CpuPinning> {
        let mine: Vec<u8> = in_order_of_use(&allowed(), near, Path::new(SYSTEM))
            .iter()
            .flat_map(|&processor| (processor as u16).to_le_bytes())
            .collect();
        let all = group.all_gather(&mine).await?;
        let here = group.machine_of(group.rank());
        let of = |(rank, told): (usize, Vec<u8>)| match group.machine_of(rank) == here {
            true => {
                let numbers = told.as_chunks::<2>().0.iter();
                numbers.map(|&two| usize::from(u16::from_le_bytes(two)))
            }
            .collect(),
            false => Vec::new(),
        };
        Ok(CpuPinning {
            rank: group.rank(),
            allowed: all.into_iter().enumerate().map(of).collect(),
        })
    }

    /// Returns the number of processors available to the processes of this machine together.
    pub fn processors(&self) -> usize {
        self.allowed.iter().flatten().collect::<BTreeSet<_>>().len()
    }

    /// Binds this process to its own processor among `members` on this machine, or to all its
    /// available processors if there are too few.
    pub fn pin(&self, members: &[usize]) -> Pinning {
        let here = members.iter().copied();
        let here: Vec<usize> = here.filter(|&m| !self.allowed[m].is_empty()).collect();
        let choices: Vec<&[usize]> = here.iter().map(|&m| &self.allowed[m][..]).collect();
        let mine = here.iter().position(|&member| member == self.rank);
        let dealt = mine.and_then(|at| deal(&choices).map(|dealt| dealt[at]));
        match dealt {
            Some(processor) if bind(&[processor]) => Pinning::Own,
            Some(_) => Pinning::Unbound,
            None if bind(&self.allowed[self.rank]) => Pinning::InTurns,
            None => Pinning::Unbound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::{Hub, Rendezvous, Secret, connect_to_hub};
    use super::super::job::{JobGroup, Placement};
    use super::super::wait_limit::WaitLimit;
    use super::*;
    use crate::executor::block_on;
    use std::time::Duration;
    use verbena_measure::clock::Clock;

    #[test]
    fn each_process_of_an_active_pair_has_a_cpu() {
        let usable = allowed();
        let size = usable.len() + 1;
        let secret = Secret::random();
        let hub = Hub::listen("127.0.0.1:0", "pinning", &secret, size).unwrap();
        let pinning = |rank: usize| {
            let wait_limit = WaitLimit::new(Duration::from_secs(20));
            let meet = || Ok(Rendezvous::at(hub.address(), &secret));
            let exchange = connect_to_hub(meet, "pinning", rank, &wait_limit).unwrap();
            let placement = Placement {
                rank,
                // Processors are shared per machine.
                nodes: (0..size).collect(),
                machines: vec![0; size],
                addresses: vec![None; size],
            };
            let group = JobGroup::new(placement, Some(exchange), None, Clock::system(), wait_limit);
            let pinning = block_on(CpuPinning::agree(&group, None)).unwrap();
            assert_eq!(pinning.processors(), size - 1);
            let all_ranks: Vec<usize> = (0..size).collect();
            assert_eq!(pinning.pin(&all_ranks), Pinning::InTurns);
            assert_eq!(allowed().len(), size - 1);
            // All but the first: one fewer than there are processes, and so one processor each.
            if rank > 0 {
                assert_eq!(pinning.pin(&all_ranks[1..]), Pinning::Own);
            }
            allowed()
        };
        let pinning = &pinning;
        let mut taken: Vec<usize> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..size).map(|r| scope.spawn(move || pinning(r))).collect();
            let all = all.into_iter().skip(1).map(|one| one.join().unwrap());
            all.flatten().collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, usable);
    }
}
