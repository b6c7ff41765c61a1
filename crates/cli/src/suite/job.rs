//! Jobs that a cluster's launcher started: rank, size and job from the environment of Open MPI, MPICH (PMI) or Slurm. The
//! exchange goes over TCP to process 0: on one host through a file that names its port, over several by `--exchange` or
//! Slurm's address of the launching node.

use crate::failure::Failure;
use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use verbena_fabric::verbs::Hub;

/// A job that somebody else started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `mpi` or `slurm`.
    pub launcher: &'static str,
    /// This process.
    pub rank: usize,
    /// All processes.
    pub size: usize,
    /// Processes on this host.
    pub on_host: usize,
    /// What tells this job from others.
    pub id: String,
}

/// How long processes wait for process 0.
const PATIENCE: Duration = Duration::from_secs(30);

impl Job {
    /// The job of this process, if it was started by a launcher.
    pub fn from_environment() -> Option<Job> {
        Job::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Job> {
        // (launcher, rank, size, processes on this host, what names the job)
        const KNOWN: [(&str, &str, &str, &str, &[&str]); 3] = [
            (
                "mpi",
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
            ),
            (
                "mpi",
                "PMI_RANK",
                "PMI_SIZE",
                "MPI_LOCALNRANKS",
                &["PMI_JOBID", "PMI_PORT"],
            ),
            (
                "slurm",
                "SLURM_PROCID",
                "SLURM_NTASKS",
                "SLURM_NTASKS_PER_NODE",
                &["SLURM_STEP_ID", "SLURM_JOB_ID"],
            ),
        ];
        for (launcher, rank_variable, size, on_host, ids) in KNOWN {
            let number = |name: &str| variable(name).and_then(|text| text.parse::<usize>().ok());
            let (Some(rank), Some(size)) = (number(rank_variable), number(size)) else {
                continue;
            };
            // An allocation without a step (a batch script) has these variables too, with one task.
            if launcher == "slurm" && variable("SLURM_STEP_ID").is_none() || rank >= size {
                continue;
            }
            let mut id: Vec<String> = ids.iter().filter_map(|name| variable(name)).collect();
            if id.is_empty() {
                id.push(launching_process(rank_variable).to_string());
            }
            let on_host = number(on_host).unwrap_or(size);
            return Some(Job {
                launcher,
                rank,
                size,
                on_host,
                id: id.join("-"),
            });
        }
        None
    }

    /// Whether all processes share a host.
    pub fn one_host(&self) -> bool {
        self.on_host >= self.size
    }

    /// For each rank its node, ranks being dealt out host by host.
    pub fn nodes(&self) -> Vec<usize> {
        (0..self.size)
            .map(|rank| rank / self.on_host.max(1))
            .collect()
    }

    /// Process 0 listens; all get the address.
    pub fn exchange(&self, asked: Option<&str>) -> Result<(Option<Hub>, String), Failure> {
        let system = |doing| move |source| Failure::System { doing, source };
        let listen = |address: &str| {
            Hub::listen(address, self.size).map_err(system("listen for the exchange"))
        };
        if let Some(address) = asked {
            let port = address.rsplit_once(':').map_or("", |(_, port)| port);
            if port.parse::<u16>().is_err() {
                return Err(Failure::Input(format!(
                    "--exchange {address}: expected HOST:PORT"
                )));
            }
            let hub = if self.rank == 0 {
                Some(listen(&format!("0.0.0.0:{port}"))?)
            } else {
                None
            };
            return Ok((hub, address.to_owned()));
        }
        if !self.one_host() {
            let text = "the job runs on several hosts: tell where process 0 listens by --exchange HOST:PORT";
            return Err(Failure::Input(text.to_owned()));
        }
        let file = self.file("exchange");
        if self.rank == 0 {
            let hub = listen("127.0.0.1:0")?;
            let address = hub.address().to_string();
            let scratch = file.with_extension("new");
            std::fs::write(&scratch, &address)
                .and_then(|()| std::fs::rename(&scratch, &file))
                .map_err(system("tell where the exchange listens"))?;
            return Ok((Some(hub), address));
        }
        let since = Instant::now();
        loop {
            match std::fs::read_to_string(&file) {
                Ok(address) => return Ok((None, address)),
                Err(source) if since.elapsed() > PATIENCE => {
                    return Err(Failure::System {
                        doing: "find process 0 of the job",
                        source,
                    });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// A file that the processes of this job on one host share by its name.
    pub fn file(&self, purpose: &str) -> PathBuf {
        let id: String = self
            .id
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let user = rustix::process::getuid().as_raw();
        env::temp_dir().join(format!("verbena-{purpose}-{user}-{id}"))
    }
}

/// The process of the launcher on this host, the same for all ranks: the nearest ancestor that has no rank itself. A
/// shell in between has one, and each rank has its own shell.
fn launching_process(variable: &str) -> u32 {
    let mark = format!("{variable}=");
    let ranked = |process: u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|one| one.starts_with(mark.as_bytes()))
    };
    let parent = |process: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok().filter(|parent| *parent > 0)
    };
    let mut process = std::os::unix::process::parent_id();
    while ranked(process) {
        match parent(process) {
            Some(above) => process = above,
            None => break,
        }
    }
    process
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pairs: &[(&str, &str)]) -> Option<Job> {
        Job::from_variables(|name| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.to_owned())
        })
    }

    #[test]
    fn launchers_are_told_by_their_variables() {
        assert_eq!(job(&[]), None);
        let open = job(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "a.b/1"),
        ])
        .unwrap();
        assert_eq!((open.rank, open.size, open.one_host()), (1, 4, false));
        assert_eq!(open.nodes(), [0, 0, 1, 1]);
        assert!(!open.file("x").to_string_lossy().contains("a.b/1"));
        let mpich = job(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap();
        assert!(mpich.one_host());
    }

    #[test]
    fn a_batch_script_is_no_job() {
        assert_eq!(job(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(job(&[("PMI_RANK", "5"), ("PMI_SIZE", "2")]), None);
    }
}
