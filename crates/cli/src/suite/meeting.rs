//! How the processes of a job find process 0, at which they exchange what they must know of each other: by TCP, at a place
//! that they learn
//!
//! - from the user (`--exchange HOST:PORT`),
//! - on one host, from a file whose name follows from the job's,
//! - under MPICH, from the process manager's board,
//! - under Open MPI and Slurm by looking: on each of the job's hosts at the few ports that follow from the job's name.

use super::job::{Hosts, Job};
use super::pmi::Board;
use crate::failure::Failure;
use rustix::process::getuid;
use std::env;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use verbena_fabric::verbs::Hub;
use verbena_hca::sys::interfaces;

/// Ports at which process 0 may listen, so that one which is taken keeps nobody away.
const PORTS: u16 = 4;
/// Where they lie: below those that systems give to connections (ip(7), ip_local_port_range).
const FIRST_PORT: u16 = 0x4000;
/// The key on the process manager's board.
const KEY: &str = "verbena-exchange";
/// Bytes that a board takes for sure.
const LONGEST_VALUE: usize = 500;

/// Where the processes of a job meet.
pub struct Meeting {
    /// The job's name, the same in all of its processes.
    pub job: String,
    /// The exchange, in process 0.
    pub hub: Option<Hub>,
    places: Places,
}

enum Places {
    Known(Vec<String>),
    /// Told by a file that process 0 writes.
    Told(PathBuf),
}

impl Meeting {
    /// Opens the exchange in process 0, and tells the others where it is.
    pub fn of(job: &Job, asked: Option<&str>) -> Result<Meeting, Failure> {
        let meeting = match (asked, &job.hosts) {
            (Some(place), _) => return Meeting::at(job, place),
            (None, Hosts::One) => Meeting::by_file(job),
            (None, Hosts::Board(descriptor)) => Meeting::by_board(job, *descriptor),
            (None, Hosts::Named(names)) if names.is_empty() => {
                let text = "the job runs on several hosts, and its launcher does not say on which: tell where process 0 listens by --exchange HOST:PORT";
                return Err(Failure::Input(text.to_owned()));
            }
            (None, Hosts::Named(names)) => Meeting::by_name(job, names),
        };
        meeting.map_err(|source| Failure::System {
            doing: "find process 0 of the job; --exchange HOST:PORT tells where it listens",
            source,
        })
    }

    fn at(job: &Job, place: &str) -> Result<Meeting, Failure> {
        let port = place.rsplit_once(':').map(|(_, port)| port.parse());
        let Some(Ok(port)) = port else {
            let text = format!("--exchange {place}: expected HOST:PORT");
            return Err(Failure::Input(text));
        };
        let hub = listen(job, place, &everywhere([port])).map_err(|source| Failure::System {
            doing: "listen for the exchange",
            source,
        })?;
        Ok(Meeting {
            // What all were told, whatever else the launcher tells each.
            job: place.to_owned(),
            hub,
            places: Places::Known(vec![place.to_owned()]),
        })
    }

    fn by_file(job: &Job) -> io::Result<Meeting> {
        let file = file_of("exchange", &job.id);
        let hub = listen(job, &job.id, &[(Ipv4Addr::LOCALHOST, 0).into()])?;
        if let Some(hub) = &hub {
            let scratch = file.with_extension("new");
            fs::write(&scratch, hub.address().to_string())?;
            fs::rename(&scratch, &file)?;
        }
        Ok(Meeting {
            job: job.id.clone(),
            hub,
            places: Places::Told(file),
        })
    }

    fn by_name(job: &Job, names: &[String]) -> io::Result<Meeting> {
        let ports = ports(&job.id);
        let hub = listen(job, &job.id, &everywhere(ports))?;
        // The first port on all hosts before the next one: on one of them it answers at once.
        let places = ports
            .iter()
            .flat_map(|port| names.iter().map(move |name| format!("{name}:{port}")));
        Ok(Meeting {
            job: job.id.clone(),
            hub,
            places: Places::Known(places.collect()),
        })
    }

    fn by_board(job: &Job, descriptor: i32) -> io::Result<Meeting> {
        let mut board = Board::open(descriptor)?;
        let name = board.job().to_owned();
        let hub = listen(job, &name, &everywhere([0]))?;
        if let Some(hub) = &hub {
            board.put(KEY, &addresses(hub.address().port())?)?;
        }
        board.wait()?;
        let places = board.get(KEY)?;
        board.close()?;
        Ok(Meeting {
            job: name,
            hub,
            places: Places::Known(places.split(',').map(str::to_owned).collect()),
        })
    }

    /// Where process 0 may be, as far as is known now.
    pub fn places(&self) -> Vec<String> {
        match &self.places {
            Places::Known(places) => places.clone(),
            // Not there yet, as a rule.
            Places::Told(file) => fs::read_to_string(file).into_iter().collect(),
        }
    }

    /// A file that the processes of the job on one host share.
    pub fn page(&self) -> PathBuf {
        file_of("start", &self.job)
    }

    /// Takes back the files that the job shared.
    pub fn close(self) {
        let _ = fs::remove_file(self.page());
        if let Places::Told(file) = &self.places {
            let _ = fs::remove_file(file);
        }
        if let Some(hub) = &self.hub {
            hub.expect_ends();
        }
    }
}

/// The exchange, in process 0 alone.
fn listen(job: &Job, name: &str, addresses: &[SocketAddr]) -> io::Result<Option<Hub>> {
    match job.rank {
        0 => Hub::listen(addresses, name, job.size).map(Some),
        _ => Ok(None),
    }
}

/// All addresses of this host at each of the ports: IPv6, which takes IPv4 too, or IPv4 where there is no IPv6.
fn everywhere(ports: impl IntoIterator<Item = u16>) -> Vec<SocketAddr> {
    let both = |port| -> [SocketAddr; 2] {
        [
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]
    };
    ports.into_iter().flat_map(both).collect()
}

/// The ports of a job.
fn ports(job: &str) -> [u16; PORTS as usize] {
    // FNV-1a, the same in every build.
    let hash = job.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let start = (hash >> 8) as u16 % FIRST_PORT;
    // Far from each other, as another job's begin anywhere.
    std::array::from_fn(|turn| {
        FIRST_PORT + (start + turn as u16 * (FIRST_PORT / PORTS)) % FIRST_PORT
    })
}

/// This host's addresses at a port, separated by commas, as many as a board takes.
fn addresses(port: u16) -> io::Result<String> {
    let all = interfaces::all().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    let outward = all.iter().filter(|one| one.is_up && !one.is_loopback);
    let routed = |address: &&IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let mut words = String::new();
    for address in outward.flat_map(|one| &one.addresses).filter(routed) {
        let place = SocketAddr::new(*address, port).to_string();
        if words.len() + 1 + place.len() > LONGEST_VALUE {
            break;
        }
        if !words.is_empty() {
            words.push(',');
        }
        words += &place;
    }
    match words.is_empty() {
        true => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()),
        false => Ok(words),
    }
}

fn file_of(purpose: &str, job: &str) -> PathBuf {
    let job: String = job
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name = format!("verbena-{purpose}-{}-{job}", getuid().as_raw());
    Path::new(&env::temp_dir()).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_from_the_job_and_lie_apart() {
        assert_eq!(ports("7-0"), ports("7-0"));
        assert_ne!(ports("7-0"), ports("7-1"));
        for job in ["", "7-0", "a b"] {
            let mut ports = ports(job);
            ports.sort_unstable();
            assert!(ports.windows(2).all(|two| two[0] < two[1]));
            assert!(ports.iter().all(|port| (0x4000..0x8000).contains(port)));
        }
    }

    #[test]
    fn a_job_is_a_name_of_a_file_whatever_it_is_called() {
        let file = file_of("start", "a.b/1");
        assert!(file.to_string_lossy().ends_with("-a-b-1"));
    }
}
