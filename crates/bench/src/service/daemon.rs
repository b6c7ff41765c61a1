//! The server under test: the `rfiod` beside this executable, serving a directory in memory.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Failure;
use crate::host::Host;
use crate::interrupt::{self, Scratch};
use crate::resolved::Resolved;
use crate::runtime::RuntimeDirectory;

/// Size in bytes of the file to read.
pub const FILE: u64 = 1 << 30;
pub const HOT: &str = "hot";
/// The file without storage.
pub const UNFILLED: &str = ".rfio-unfilled";

/// Returns the variables that put a program on the target's adapter.
///
/// # Errors
///
/// Fails if the adapter's libraries are not found.
pub fn environment(
    host: &dyn Host,
    target: &Resolved,
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut variables = match target.kind.as_str() {
        "hardware" => Vec::new(),
        _ => host.software_variables()?,
    };
    variables.push(("RFIO_DEVICE", target.device().into()));
    Ok(variables)
}

/// A directory in memory, in the runtime directory, removed when dropped.
struct Directory {
    path: PathBuf,
    _scratch: Scratch,
}

impl Directory {
    fn new(host: &dyn Host) -> Result<Directory, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rfio-{}-{number}", std::process::id());
        let path = RuntimeDirectory::open(host)?.path(&name);
        let _scratch = Scratch::new(&path);
        let export = path.join("export");
        fs::create_dir_all(&export).map_err(|source| Failure::Directory {
            path: export,
            source,
        })?;
        Ok(Directory { path, _scratch })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The server process.
pub struct Daemon {
    process: Child,
    port: u16,
    directory: Directory,
}

impl Daemon {
    /// Starts the server; `cached` creates a file of random bytes first.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be created or the server does not start.
    pub fn start(host: &dyn Host, target: &Resolved, cached: bool) -> Result<Daemon, Failure> {
        let system = |doing| move |source| Failure::System { doing, source };
        let directory = Directory::new(host)?;
        if cached {
            fill(&directory.path.join("export").join(HOT)).map_err(system("make the file"))?;
        }
        let secrets = directory.path.join("secrets");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&secrets)
            .map_err(system("write the secrets"))?;
        writeln!(file, "bench:{:032x}", rand()).map_err(system("write the secrets"))?;
        let executable = std::env::current_exe().map_err(system("find this executable"))?;
        let program = executable.with_file_name("rfiod");
        let mut process = Command::new(&program)
            .args(["--listen", "127.0.0.1:0", "--fabric", "verbs"])
            .args(["--cache", "1200M", "--unfilled", &FILE.to_string()])
            .arg("--export")
            .arg(directory.path.join("export"))
            .arg("--secrets")
            .arg(&secrets)
            .envs(environment(host, target)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|source| {
                let text = format!("cannot start {}: {source}", program.display());
                Failure::Suite(text)
            })?;
        let output = process.stdout.take().expect("its output is piped");
        let mut daemon = Daemon {
            process,
            port: 0,
            directory,
        };
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(port) = line.strip_prefix("rfiod: serving on 127.0.0.1:") {
                daemon.port = port.parse().unwrap_or(0);
                return Ok(daemon);
            }
        }
        Err(Failure::Suite("rfiod did not start serving".to_owned()))
    }

    pub fn place(&self, name: &str) -> String {
        format!("rfio://127.0.0.1:{}/{name}", self.port)
    }

    /// Returns the variables for clients: user, secrets, fabric and timeout.
    pub fn client_environment(&self) -> Vec<(String, std::ffi::OsString)> {
        vec![
            ("RFIO_USER".to_owned(), "bench".into()),
            (
                "RFIO_SECRETS".to_owned(),
                self.directory.path.join("secrets").into(),
            ),
            ("RFIO_FABRIC".to_owned(), "verbs".into()),
            ("RFIO_TIMEOUT".to_owned(), "60".into()),
        ]
    }

    /// Returns the server's processor time, in seconds (proc(5), fields 14 and 15).
    pub fn cpu_seconds(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Returns the server's memory in bytes, as proportional share: registered pages are mapped
    /// twice in a process of the software adapter, and once more in its peers (proc(5),
    /// smaps_rollup).
    pub fn resident_bytes(&self) -> f64 {
        let path = format!("/proc/{}/smaps_rollup", self.process.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let kibibytes = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) as f64 * 1024.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

/// Fills the file with random bytes, which cannot be compressed in transit.
fn fill(path: &Path) -> std::io::Result<()> {
    let mut random = verbena_measure::random::Random::new(1);
    let mut piece = vec![0u8; 1 << 20];
    let mut file = fs::File::create(path)?;
    for bytes in piece.as_chunks_mut().0 {
        *bytes = random.next_u64().to_le_bytes();
    }
    for number in 0..FILE / piece.len() as u64 {
        // Each chunk begins differently, so that none can be mistaken for another.
        piece[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&piece)?;
        if interrupt::is_wanted() {
            break;
        }
    }
    // Readers do not share a file that was modified just now.
    std::thread::sleep(std::time::Duration::from_millis(50));
    Ok(())
}

/// Returns a secret for this run.
fn rand() -> u128 {
    let mut bytes = [0; 16];
    // Without the device the secret is weak, but the server runs for seconds and serves only random
    // data.
    if let Ok(mut source) = fs::File::open("/dev/urandom") {
        let _ = std::io::Read::read_exact(&mut source, &mut bytes);
    }
    u128::from_le_bytes(bytes)
}
