//! The rendezvous of a job's processes: how they find process 0, which hosts the exchange of
//! connection data over TCP. They learn its address
//!
//! - from the user (`--exchange HOST:PORT`),
//! - on one host, from a file in the runtime directory,
//! - under MPICH, from the process manager (PMI),
//! - under Open MPI and Slurm by trying each of the job's hosts at a few ports derived from the
//!   job's name.
//!
//! The address authenticates nothing; a secret does. Process 0 publishes a random secret together
//! with its address. If it publishes no address, the secret is the launcher's or the user's,
//! otherwise one in a file in the home directory, which the hosts of a cluster share.

use super::job::{Hosts, Job, SECRET};
use super::pmi::Board;
use super::runtime::RuntimeDirectory;
use crate::failure::Failure;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use verbena_fabric::verbs::{Hub, Rendezvous, Secret};
use verbena_hca_os::interfaces;

/// Number of ports at which process 0 may listen, so that a port in use does not prevent the
/// rendezvous.
const PORTS: u16 = 4;
/// Start of their range, below the ephemeral ports (ip(7), ip_local_port_range).
const FIRST_PORT: u16 = 0x4000;
/// The key in the process manager.
const KEY: &str = "verbena-exchange";
/// Bytes that every process manager accepts in a value.
const LONGEST_VALUE: usize = 500;
/// The part of it for addresses; a secret takes 64, plus a separator.
const LONGEST_PLACES: usize = LONGEST_VALUE - 65;
/// Characters of a job's name used in a file name.
const LONGEST_NAME: usize = 150;
/// Shortest secret accepted from a user.
const SHORTEST_SECRET: usize = 16;

/// The rendezvous of a job.
pub struct JobRendezvous {
    /// The job's name, the same in all of its processes.
    pub job: String,
    /// The exchange, in process 0.
    pub hub: Option<Hub>,
    knowledge: Knowledge,
    directory: RuntimeDirectory,
}

/// How a process learns the address of process 0.
enum Knowledge {
    Known(Rendezvous),
    /// From a file written by process 0, which holds the secret and, unless they are known, the
    /// addresses.
    Told {
        directory: RuntimeDirectory,
        file: String,
        places: Option<Vec<String>>,
    },
}

impl JobRendezvous {
    /// Opens the exchange in process 0, and publishes its address to the others.
    ///
    /// # Errors
    ///
    /// Fails if the secret is too short, the address is malformed or unknown, or the exchange
    /// cannot be opened.
    pub fn of(job: &Job, asked: Option<&str>) -> Result<JobRendezvous, Failure> {
        let told = job.secret.as_ref().map(Secret::reveal);
        if told.is_some_and(|told| told.len() < SHORTEST_SECRET) {
            let text = format!(
                "{SECRET} is shorter than {SHORTEST_SECRET} characters and could be guessed"
            );
            return Err(Failure::Input(text));
        }
        let directory = RuntimeDirectory::open()?;
        let (name, addresses, places) = match (asked, &job.hosts) {
            (Some(place), _) => {
                let port = place.rsplit_once(':').map(|(_, port)| port.parse());
                let Some(Ok(port)) = port else {
                    let text = format!("--exchange {place}: expected HOST:PORT");
                    return Err(Failure::Input(text));
                };
                // All processes share this name; names from the launcher may differ between
                // processes.
                (
                    place.to_owned(),
                    everywhere([port]),
                    Some(vec![place.to_owned()]),
                )
            }
            (None, Hosts::One) => (job.id.clone(), vec![(Ipv4Addr::LOCALHOST, 0).into()], None),
            (None, Hosts::Board(_)) => (job.id.clone(), everywhere([0]), None),
            (None, Hosts::Named(names)) if names.is_empty() => {
                let text = "the job runs on several hosts, which its launcher does not name; give \
                            the address of process 0 with --exchange HOST:PORT";
                return Err(Failure::Input(text.to_owned()));
            }
            (None, Hosts::Named(names)) => {
                let ports = ports(&job.id);
                // The first port on all hosts before the next one: one of the hosts answers at
                // once.
                let places = ports
                    .iter()
                    .flat_map(|port| names.iter().map(move |name| format!("{name}:{port}")));
                (job.id.clone(), everywhere(ports), Some(places.collect()))
            }
        };
        let door = Door {
            job,
            name,
            addresses,
            places,
        };
        match (&job.hosts, job.secret.clone()) {
            (Hosts::Board(descriptor), _) => door.by_board(*descriptor, directory),
            // If an address was given, the job may span hosts that the launcher does not know of.
            (Hosts::One, _) if asked.is_none() => door.by_file(directory.clone(), directory),
            (_, Some(secret)) => door.by_secret(secret, directory),
            (_, None) => door.by_file(RuntimeDirectory::shared()?, directory),
        }
    }

    /// Returns the possible addresses of process 0 and the secret.
    ///
    /// # Errors
    ///
    /// States why they are not known yet.
    pub fn find_hub(&self) -> Result<Rendezvous, String> {
        match &self.knowledge {
            Knowledge::Known(rendezvous) => Ok(rendezvous.clone()),
            Knowledge::Told {
                directory,
                file,
                places,
            } => {
                let text = directory.read(file).map_err(|error| {
                    let path = directory.path(file);
                    format!(
                        "process 0 must write its address to {}: {error}; without a shared \
                         directory, give all processes the same {SECRET}",
                        path.display()
                    )
                })?;
                let told = rendezvous(&text).ok_or_else(|| {
                    let path = directory.path(file);
                    format!("{} was not written by process 0; remove it", path.display())
                })?;
                Ok(Rendezvous {
                    places: places.clone().unwrap_or(told.places),
                    ..told
                })
            }
        }
    }

    /// Returns a file shared by the processes of the job on one host.
    pub fn page(&self) -> PathBuf {
        self.directory.path(&file_of("start", &self.job))
    }

    /// Removes the files shared by the job.
    pub fn close(self) {
        self.directory.remove(&file_of("start", &self.job));
        if let Knowledge::Told {
            directory, file, ..
        } = &self.knowledge
        {
            directory.remove(file);
        }
        if let Some(hub) = &self.hub {
            hub.expect_ends();
        }
    }
}

/// The parameters of a rendezvous before the exchange is open.
struct Door<'a> {
    job: &'a Job,
    name: String,
    /// Process 0 listens at the first of these that is free.
    addresses: Vec<SocketAddr>,
    /// Addresses that the others try, unless process 0 publishes its own.
    places: Option<Vec<String>>,
}

impl Door<'_> {
    /// Opens the exchange, in process 0 only.
    fn listen(&self, name: &str, secret: &Secret) -> Result<Option<Hub>, Failure> {
        let listen = || Hub::listen(&self.addresses[..], name, secret, self.job.size);
        match self.job.rank {
            0 => listen().map(Some).map_err(|source| Failure::System {
                doing: "listen for the exchange",
                source,
            }),
            _ => Ok(None),
        }
    }

    fn by_secret(
        self,
        secret: Secret,
        directory: RuntimeDirectory,
    ) -> Result<JobRendezvous, Failure> {
        let hub = self.listen(&self.name, &secret)?;
        Ok(JobRendezvous {
            job: self.name,
            hub,
            knowledge: Knowledge::Known(Rendezvous {
                places: self.places.unwrap_or_default(),
                secret,
            }),
            directory,
        })
    }

    fn by_file(
        self,
        at: RuntimeDirectory,
        directory: RuntimeDirectory,
    ) -> Result<JobRendezvous, Failure> {
        let file = file_of("exchange", &self.name);
        let secret = Secret::random();
        let hub = self.listen(&self.name, &secret)?;
        if let Some(hub) = &hub {
            let place = hub.address().to_string();
            at.leave(&file, &note(&place, &secret))
                .map_err(|source| Failure::Directory {
                    path: at.path(&file),
                    source,
                })?;
        }
        Ok(JobRendezvous {
            job: self.name,
            hub,
            knowledge: Knowledge::Told {
                directory: at,
                file,
                places: self.places,
            },
            directory,
        })
    }

    fn by_board(
        self,
        descriptor: i32,
        directory: RuntimeDirectory,
    ) -> Result<JobRendezvous, Failure> {
        let trouble = |source| Failure::System {
            doing: "find process 0 of the job by its process manager",
            source,
        };
        let mut board = Board::open(descriptor).map_err(trouble)?;
        let name = board.job().to_owned();
        let secret = Secret::random();
        let hub = self.listen(&name, &secret)?;
        let mut tell = || -> io::Result<Option<Rendezvous>> {
            if let Some(hub) = &hub {
                let places = addresses(hub.address().port())?;
                board.put(KEY, &note(&places, &secret))?;
            }
            board.wait()?;
            let told = board.get(KEY)?;
            Ok(rendezvous(&told))
        };
        let told = tell().map_err(trouble)?;
        board.close().map_err(trouble)?;
        let nonsense = || trouble(io::Error::other("process 0 published an invalid address"));
        let told = told.ok_or_else(nonsense)?;
        Ok(JobRendezvous {
            job: name,
            hub,
            knowledge: Knowledge::Known(Rendezvous {
                places: self.places.unwrap_or(told.places),
                ..told
            }),
            directory,
        })
    }
}

/// Formats the published value without spaces, which process managers do not accept.
fn note(places: &str, secret: &Secret) -> String {
    format!("{};{places}", secret.reveal())
}

fn rendezvous(note: &str) -> Option<Rendezvous> {
    let (secret, places) = note.split_once(';')?;
    let is_whole = secret.len() >= SHORTEST_SECRET && !places.is_empty();
    is_whole.then(|| Rendezvous {
        places: places.split(',').map(str::to_owned).collect(),
        secret: Secret::told(secret),
    })
}

/// Returns the wildcard addresses for each port: IPv6, which accepts IPv4 as well, then IPv4 for
/// hosts without IPv6.
fn everywhere(ports: impl IntoIterator<Item = u16>) -> Vec<SocketAddr> {
    let both = |port| -> [SocketAddr; 2] {
        [
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]
    };
    ports.into_iter().flat_map(both).collect()
}

fn ports(job: &str) -> [u16; PORTS as usize] {
    // FNV-1a, the same in every build.
    let hash = job.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let start = (hash >> 8) as u16 % FIRST_PORT;
    // Spaced widely, because the ports of other jobs may start anywhere.
    std::array::from_fn(|turn| {
        FIRST_PORT + (start + turn as u16 * (FIRST_PORT / PORTS)) % FIRST_PORT
    })
}

/// Returns this host's addresses with a port, separated by commas, as many as fit into a value.
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
        if words.len() + 1 + place.len() > LONGEST_PLACES {
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

/// Returns the name of a file of the job, with other characters than letters and digits replaced.
fn file_of(purpose: &str, job: &str) -> String {
    let job: String = job
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(LONGEST_NAME)
        .collect();
    format!("{purpose}-{job}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_derive_from_the_job_and_are_spread() {
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
    fn any_job_identifier_becomes_a_valid_file_name() {
        assert_eq!(file_of("start", "a.b/1"), "start-a-b-1");
        assert!(file_of("start", &"x".repeat(1000)).len() < 255);
    }

    #[test]
    fn the_note_of_process_0_is_parsed() {
        let secret = Secret::random();
        let told = rendezvous(&note("10.0.0.1:99,[fd00::1]:99", &secret)).unwrap();
        assert_eq!(told.places, ["10.0.0.1:99", "[fd00::1]:99"]);
        assert_eq!(told.secret, secret);
        let whole = note("10.0.0.1:99", &secret);
        for cut in [
            "10.0.0.1:99",
            "",
            ";10.0.0.1:99",
            &whole[..20],
            &whole[..65],
        ] {
            assert_eq!(rendezvous(cut), None, "{cut}");
        }
        // Fits into a value, without spaces.
        let longest = note(&"x".repeat(LONGEST_PLACES), &secret);
        assert!(longest.len() <= LONGEST_VALUE && !longest.contains(char::is_whitespace));
    }

    #[test]
    fn a_short_secret_is_refused() {
        let job = Job {
            launcher: "mpi",
            rank: 1,
            size: 2,
            id: "7".to_owned(),
            hosts: Hosts::Named(vec!["one".to_owned()]),
            secret: Some(Secret::told("short")),
        };
        let words = JobRendezvous::of(&job, None).err().unwrap().to_string();
        assert!(words.contains(SECRET), "{words}");
    }
}
