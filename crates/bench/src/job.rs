//! Jobs started by a cluster's launcher: reads rank, size and job from the environment of Open MPI,
//! MPICH (PMI) or Slurm.

use std::env;
use verbena_fabric::verbs::Secret;
use verbena_topology::expand;

/// Maximum number of hosts of a list: process 0 is looked for on each.
const MOST_HOSTS: usize = 1024;

/// The variable with a secret that the user shares with the processes of a job.
pub const SECRET: &str = "VERBENA_EXCHANGE_SECRET";
/// Open MPI's random key of a job, meant for transports that need one.
const KEY_OF_OPEN_MPI: &str = "OMPI_MCA_orte_precondition_transports";

/// A job, as seen by one of its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `mpi` or `slurm`.
    pub launcher: &'static str,
    /// Rank of this process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Identifies the job; the same on all of its hosts.
    pub id: String,
    /// The job's hosts, as reported by the launcher.
    pub hosts: Hosts,
    /// A secret that only the processes of this job know, if there is one.
    pub secret: Option<Secret>,
}

/// The hosts of a job, as reported by its launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// All processes are on this host.
    One,
    /// Names or addresses; empty if the launcher does not report them.
    Named(Vec<String>),
    /// The processes can publish values through the process manager (PMI), at this file descriptor.
    Board(i32),
}

impl Job {
    /// Returns the job of this process, if a launcher started it.
    pub fn from_environment() -> Option<Job> {
        Job::from_variables(&Variables(|name: &str| env::var(name).ok()))
    }

    /// Launchers may be nested: the one nearest to the process takes precedence.
    fn from_variables<F: Fn(&str) -> Option<String>>(variables: &Variables<F>) -> Option<Job> {
        let job = variables
            .open_mpi()
            .or_else(|| variables.hydra())
            .or_else(|| variables.slurm())
            .or_else(|| variables.other_managers())?;
        (job.rank < job.size).then_some(job)
    }
}

struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.text(name)?.parse().ok()
    }

    /// Joins the values of the variables that are set; if none is, returns the launcher's process
    /// id on this host.
    fn id(&self, names: &[&str], rank: &str) -> String {
        let words: Vec<String> = names.iter().filter_map(|name| self.text(name)).collect();
        match words.is_empty() {
            true => launching_process(rank).to_string(),
            false => words.join("-"),
        }
    }

    /// Returns the user's secret, otherwise the launcher's.
    fn secret(&self, of_launcher: &str) -> Option<Secret> {
        let text = self.text(SECRET).or_else(|| self.text(of_launcher));
        text.map(Secret::told)
    }

    fn open_mpi(&self) -> Option<Job> {
        const RANK: &str = "OMPI_COMM_WORLD_RANK";
        let size = self.number("OMPI_COMM_WORLD_SIZE")?;
        let id = [
            "PMIX_NAMESPACE",
            "OMPI_MCA_ess_base_jobid",
            // Job numbers are local to an `mpirun`, not unique in the cluster.
            KEY_OF_OPEN_MPI,
        ];
        let hosts = match self.number("OMPI_COMM_WORLD_LOCAL_SIZE") {
            Some(here) if here < size => Hosts::Named(self.hosts_of_open_mpi()),
            _ => Hosts::One,
        };
        Some(Job {
            launcher: "mpi",
            rank: self.number(RANK)?,
            size,
            id: self.id(&id, RANK),
            hosts,
            secret: self.secret(KEY_OF_OPEN_MPI),
        })
    }

    /// Returns the addresses of `mpirun`, because process 0 usually runs beside it, then the names
    /// of all hosts.
    fn hosts_of_open_mpi(&self) -> Vec<String> {
        let uri = self.text("OMPI_MCA_orte_hnp_uri").unwrap_or_default();
        let mut hosts = addresses_of_uri(&uri);
        let names = self.text("OMPI_MCA_orte_node_regex").unwrap_or_default();
        hosts.extend(expand(&names, MOST_HOSTS));
        hosts
    }

    /// MPICH's process manager, and those derived from it.
    fn hydra(&self) -> Option<Job> {
        let here = self.number("MPI_LOCALNRANKS")?;
        self.pmi(here)
    }

    /// Process managers that set only PMI's variables.
    fn other_managers(&self) -> Option<Job> {
        self.pmi(self.number("PMI_SIZE")?)
    }

    fn pmi(&self, here: usize) -> Option<Job> {
        const RANK: &str = "PMI_RANK";
        let size = self.number("PMI_SIZE")?;
        let board = self.text("PMI_FD").and_then(|text| text.parse().ok());
        let hosts = match here < size {
            true => board.map_or_else(|| Hosts::Named(Vec::new()), Hosts::Board),
            false => Hosts::One,
        };
        Some(Job {
            launcher: "mpi",
            rank: self.number(RANK)?,
            size,
            id: self.id(&["PMI_JOBID", "PMI_PORT"], RANK),
            hosts,
            secret: self.secret(SECRET),
        })
    }

    /// A job step: a batch script has these variables too, with one task and without a step.
    fn slurm(&self) -> Option<Job> {
        self.text("SLURM_STEP_ID")?;
        let named = || {
            let list = self.text("SLURM_STEP_NODELIST");
            list.or_else(|| self.text("SLURM_JOB_NODELIST"))
                .map_or_else(Vec::new, |list| expand(&list, MOST_HOSTS))
        };
        let hosts = match self.number("SLURM_STEP_NUM_NODES") {
            Some(1) => Hosts::One,
            _ => Hosts::Named(named()),
        };
        let id = [
            "SLURM_JOB_ID",
            "SLURM_STEP_ID",
            // Job numbers restart with a new controller; the listening address of this step's srun
            // is unique.
            "SLURM_LAUNCH_NODE_IPADDR",
            "SLURM_SRUN_COMM_PORT",
        ];
        Some(Job {
            launcher: "slurm",
            rank: self.number("SLURM_PROCID")?,
            size: self.number("SLURM_NTASKS")?,
            id: self.id(&id, "SLURM_PROCID"),
            hosts,
            secret: self.secret(SECRET),
        })
    }
}

/// Returns the addresses of `2130706432.0;tcp://10.9.0.1,10.8.0.1:33153;tcp6://[fd00::1]:33154`.
fn addresses_of_uri(uri: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in uri.split(';') {
        let Some((_, places)) = part.split_once("://") else {
            continue;
        };
        let addresses = places.rsplit_once(':').map_or(places, |(before, _)| before);
        found.extend(addresses.split(',').map(str::to_owned));
    }
    found
}

/// Returns the launcher's process on this host, the same for all ranks: the nearest ancestor
/// without a rank. A shell in between has one, and each rank may have its own shell.
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
        Job::from_variables(&Variables(|name: &str| {
            let found = pairs.iter().find(|pair| pair.0 == name)?;
            Some(found.1.to_owned())
        }))
    }

    const STEP: [(&str, &str); 7] = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
        ("SLURM_SRUN_COMM_PORT", "39623"),
    ];

    #[test]
    fn hosts_are_read_from_open_mpis_variables() {
        assert_eq!(job(&[]), None);
        let open = job(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "a.b/1"),
            (
                "OMPI_MCA_orte_hnp_uri",
                "21.0;tcp://10.9.0.1,10.8.0.1:33153;tcp6://[fd00::1]:99",
            ),
            ("OMPI_MCA_orte_node_regex", "vm,[2:10].9.0.2@0(2)"),
            (KEY_OF_OPEN_MPI, "0d1e-2f3a"),
        ])
        .unwrap();
        assert_eq!((open.rank, open.size), (1, 4));
        assert_eq!(open.secret, Some(Secret::told("0d1e-2f3a")));
        let hosts = ["10.9.0.1", "10.8.0.1", "[fd00::1]", "vm", "10.9.0.2"];
        assert_eq!(open.hosts, Hosts::Named(hosts.map(str::to_owned).to_vec()));
    }

    #[test]
    fn mpich_jobs_over_several_hosts_use_pmi() {
        let here = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "14")];
        assert_eq!(job(&here).unwrap().hosts, Hosts::One);
        let apart = [&here[..], &[("MPI_LOCALNRANKS", "1")]].concat();
        assert_eq!(job(&apart).unwrap().hosts, Hosts::Board(14));
        let together = [&here[..], &[("MPI_LOCALNRANKS", "2")]].concat();
        assert_eq!(job(&together).unwrap().hosts, Hosts::One);
    }

    #[test]
    fn slurm_variables_take_precedence_for_hosts() {
        // `srun --mpi=pmi2` sets PMI's variables in addition to Slurm's.
        let with_pmi = [&STEP[..], &[("PMI_RANK", "3"), ("PMI_SIZE", "4")]].concat();
        for variables in [&STEP[..], &with_pmi] {
            let step = job(variables).unwrap();
            assert_eq!((step.launcher, step.rank, step.size), ("slurm", 3, 4));
            let names = ["n1", "n2"].map(str::to_owned).to_vec();
            assert_eq!(step.hosts, Hosts::Named(names));
            assert_eq!(step.id, "7-0-39623");
            assert_eq!(step.secret, None);
        }
        let told = [&STEP[..], &[(SECRET, "of the user")]].concat();
        assert_eq!(
            job(&told).unwrap().secret,
            Some(Secret::told("of the user"))
        );
        // MPICH's process manager, whose proxies were started by srun.
        let hydra = [
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALNRANKS", "2"),
        ];
        let within = job(&[&STEP[..], &hydra].concat()).unwrap();
        assert_eq!((within.launcher, within.size), ("mpi", 2));
    }

    #[test]
    fn a_batch_script_is_not_a_rank() {
        assert_eq!(job(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(job(&[("PMI_RANK", "5"), ("PMI_SIZE", "2")]), None);
    }
}
