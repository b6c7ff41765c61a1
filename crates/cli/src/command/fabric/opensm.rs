//! OpenSM as the subnet manager of a fabric.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use verbena_run::environment::Environment;
use verbena_run::supervise;

use super::attach::PARTITIONS;
use crate::exit::Exit;
use crate::failure::Failure;

/// Line of its log that says that the subnet is configured.
const UP: &str = "SUBNET UP";
/// Time in which the first sweep must end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between looks at the log.
const PAUSE: Duration = Duration::from_millis(5);

/// The arguments of the process that becomes OpenSM.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Process of `verbena fabric up`
    #[arg(value_name = "PID")]
    parent: u32,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Becomes the command, which ends with `verbena fabric up` even if that is killed.
///
/// # Errors
///
/// Fails if the command cannot be run.
pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    supervise::end_with(arguments.parent).map_err(Failure::system("follow verbena fabric up"))?;
    let (program, words) = arguments
        .command
        .split_first()
        .unwrap_or_else(|| unreachable!());
    let error = Command::new(program).args(words).exec();
    Err(Failure::Input(format!(
        "cannot start opensm: {error}; install the package opensm"
    )))
}

/// A running OpenSM, which ends when dropped, and with this process.
#[derive(Debug)]
pub struct OpenSm(Child);

impl OpenSm {
    /// Starts OpenSM, with the partitions that the directory has, and waits until its first sweep
    /// has ended.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, or ends, or does not configure the subnet in time.
    pub fn start(
        directory: &Path,
        environment: &Environment,
        has_partitions: bool,
    ) -> Result<OpenSm, Failure> {
        let log = directory.join("opensm.log");
        // Otherwise the log stays in a buffer.
        let options = directory.join("opensm.conf");
        let written = fs::write(&options, "force_log_flush TRUE\n");
        written.map_err(Failure::system("write OpenSM's options"))?;
        // Debian has it in /usr/sbin, which users' PATH may lack.
        let path = std::env::var("PATH").unwrap_or_default();
        let executable = std::env::current_exe().map_err(Failure::system("find this program"))?;
        let errors = fs::File::create(&log).map_err(Failure::system("make OpenSM's log"))?;
        let mut command = Command::new(executable);
        command
            .args([
                "fabric",
                "__with",
                &std::process::id().to_string(),
                "opensm",
            ])
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .env("OSM_TMP_DIR", directory)
            .env("OSM_CACHE_DIR", directory)
            .arg("-F")
            .arg(&options)
            .arg("-f")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        if has_partitions {
            command.arg("-P").arg(directory.join(PARTITIONS));
        }
        command.envs(environment.variables());
        let child = command.spawn().map_err(Failure::system("start opensm"))?;
        let mut this = OpenSm(child);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read(&log).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains(UP) {
                return Ok(this);
            }
            let ended = this.0.try_wait().map_err(Failure::system("watch opensm"))?;
            if ended.is_some() || Instant::now() > deadline {
                let text = String::from_utf8_lossy(&text).into_owned();
                let last = text.lines().last().unwrap_or("its log is empty").to_owned();
                return Err(Failure::Input(format!(
                    "opensm did not configure the fabric: {last}"
                )));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
