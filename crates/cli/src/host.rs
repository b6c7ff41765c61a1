//! This host and its software adapter, for the measuring engine.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use verbena_bench::Failure as BenchFailure;
use verbena_bench::host::Host;
use verbena_bench_mpi::Mpi;
use verbena_bench_mpi::library::MpiKind;
use verbena_hca_net::link;
use verbena_hca_os::interfaces;
use verbena_hca_shm::registry::{self, Registry};
use verbena_run::environment::Environment;
use verbena_run::libraries::Libraries;

use crate::failure::Failure;

/// This host.
pub struct ThisHost;

/// The one that measurements use.
pub static HOST: ThisHost = ThisHost;

/// Returns the launcher of MPI benchmarks, and with it the engine of all others.
pub fn mpi(kind: Option<MpiKind>) -> Mpi {
    Mpi { kind, host: &HOST }
}

fn libraries() -> Result<Libraries, BenchFailure> {
    Libraries::beside_this_executable().map_err(|error| BenchFailure::Adapter(error.to_string()))
}

impl Host for ThisHost {
    fn runtime_directory(&self) -> PathBuf {
        registry::directory()
    }

    /// Checks that processes can join the registry; they themselves could only report that a call
    /// was not permitted.
    fn software_library(&self) -> Result<PathBuf, BenchFailure> {
        let library = libraries()?.ibverbs();
        let path = registry::directory();
        if let Err(source) = Registry::open(&path) {
            let failure = Failure::Registry { path, source };
            return Err(BenchFailure::Adapter(failure.to_string()));
        }
        self.clean_up();
        Ok(library)
    }

    fn software_variables(&self) -> Result<Vec<(&'static str, OsString)>, BenchFailure> {
        let environment = Environment::new(&libraries()?);
        let owned = environment
            .variables()
            .map(|(name, value)| (name, value.to_owned()));
        Ok(owned.collect())
    }

    fn is_ethernet(&self) -> bool {
        link::is_ethernet()
    }

    fn interface(&self, port: u8) -> Option<String> {
        link::interface(port).map(|interface| interface.name.clone())
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let all = interfaces::all().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let outward = all.into_iter().filter(|one| one.is_up && !one.is_loopback);
        Ok(outward.flat_map(|one| one.addresses).collect())
    }

    fn interface_addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let all = interfaces::all().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let its = all.into_iter().filter(|one| one.name == name);
        Ok(its.flat_map(|one| one.addresses).collect())
    }

    fn clean_up(&self) {
        registry::sweep(&registry::directory());
    }
}
