//! `rfiod`: serves directories to RFIO's tools and libraries.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use verbena_rfio_auth::peer;
use verbena_rfio_server::running::Server;
use verbena_rfio_server::service::Service;
use verbena_rfio_server::{admin, exposition};
use verbena_rfio_tools::arguments::{self, Daemon};
use verbena_rfio_tools::daemon::{administration, descriptors, plan, privileges, ready};
use verbena_rfio_tools::{exit, say};

/// Extra time that a stopping daemon gives its workers after its sessions' deadline.
const GRACE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Daemon = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let outcome = match &arguments.administration {
        Some(what) => administration::carry_out(what),
        None => serve(&arguments),
    };
    match outcome {
        Ok(()) => exit::with(exit::OK),
        Err(what) => {
            exit::report("rfiod", what);
            exit::with(exit::SYSTEM)
        }
    }
}

fn serve(arguments: &Daemon) -> Result<(), String> {
    let files = descriptors::raise_limit().unwrap_or_else(|error| {
        exit::report(
            "rfiod",
            format_args!("cannot raise the limit of open files: {error}"),
        );
        descriptors::limit()
    });
    ignore_file_size_signal();
    let plan = plan::prepare(arguments, files)?;
    for warning in &plan.warnings {
        exit::report("rfiod", format_args!("warning: {warning}"));
    }
    if arguments.user.is_some() {
        privileges::forbid_new_privileges()
            .map_err(|error| format!("cannot forbid new privileges: {error}"))?;
    }
    // Before any thread starts, so that no thread misses the stop signal.
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| format!("signals: {error}"))?;
    let service = Arc::clone(&plan.context.service);
    service.accounting.mark("start");
    let server = Server::start(plan.context, &plan.layout).map_err(|error| error.to_string())?;
    if let Some(address) = arguments.metrics {
        let address = exposition::start(Arc::clone(&service), address)
            .map_err(|error| format!("cannot serve metrics on {address}: {error}"))?;
        say!("rfiod: metrics on http://{address}/metrics");
    }
    let administrators = match &arguments.admin {
        Some(path) => Some(
            admin::start(Arc::clone(&service), path)
                .map_err(|error| format!("cannot listen on {}: {error}", path.display()))?,
        ),
        None => None,
    };
    if let Some(name) = &arguments.user {
        give_logs(&service, name)?;
        privileges::become_user(name)
            .map_err(|error| format!("cannot become user {name}: {error}"))?;
    }
    warn_of_root(&service);
    for export in service.exports.iter() {
        if !export.is_watched() {
            let what = "is not accessible to the daemon's user, so unmounting, mounting over or \
                        replacing it goes undetected; give that user search permission on its \
                        parent directories";
            let path = export.directory();
            exit::report("rfiod", format_args!("warning: export {path} {what}"));
        }
        say!(
            "rfiod: exporting {} ({})",
            export.directory(),
            export.access()
        );
    }
    match &service.fabric {
        Some(fabric) => say!("rfiod: data by RDMA ({:?}) or TCP", fabric.adapter()),
        None => say!("rfiod: data by TCP"),
    }
    say!("rfiod: reading files {}", service.storage);
    for address in server.addresses() {
        say!("rfiod: serving on {address}");
    }
    if let Some(path) = &arguments.local {
        say!("rfiod: serving on {}", path.display());
    }
    ready::notify("READY=1");
    while signals.forever().next() == Some(SIGHUP) {
        match plan::reload(arguments, server.context()) {
            Ok(()) => {
                say!("rfiod: reloaded exports, rights, bans, secrets, certificates and limits")
            }
            Err(what) => exit::report(
                "rfiod",
                format_args!("reload failed, nothing changed: {what}"),
            ),
        }
        reopen_logs(&service);
    }
    ready::notify("STOPPING=1");
    say!("rfiod: stopping");
    end_anyway(signals, Duration::from_secs(arguments.stop_timeout));
    drop(administrators);
    server.stop();
    service.accounting.mark("stop");
    Ok(())
}

/// Warns of serving as root without a mapping or rights.
fn warn_of_root(service: &Service) {
    let is_restricted = service.identities.is_some() || service.rights().is_some();
    if rustix::process::geteuid().is_root() && !is_restricted {
        let what = "warning: serving as root without --map and --rights: every accepted client \
                    can read, change and remove all files below the exports; give --user NAME or \
                    --map FILE";
        exit::report("rfiod", what);
    }
}

/// Starts threads that exit the process at a second stop signal, or when storage does not answer
/// within `timeout` plus [`GRACE`].
fn end_anyway(mut signals: Signals, timeout: Duration) {
    let end = |why: &str| {
        exit::report("rfiod", format_args!("ends with pending requests: {why}"));
        std::process::exit(exit::SYSTEM.into());
    };
    std::thread::spawn(move || {
        std::thread::sleep(timeout + GRACE);
        end("storage does not answer");
    });
    std::thread::spawn(move || {
        if signals.forever().any(|signal| signal != SIGHUP) {
            end("second signal to stop");
        }
    });
}

/// Reopens the logs after a rotation, even if the rest of the configuration is refused.
fn reopen_logs(service: &Service) {
    for log in service.logs() {
        let path = log.path().display();
        match log.reopen() {
            Ok(()) => say!("rfiod: reopened {path}"),
            Err(error) => exit::report(
                "rfiod",
                format_args!("cannot reopen {path}, the old file stays in use: {error}"),
            ),
        }
    }
}

/// Changes the logs' owner to the user that the daemon becomes, so that SIGHUP can reopen them.
fn give_logs(service: &Service, name: &str) -> Result<(), String> {
    let (user, group) = peer::ids_of(name).map_err(|error| format!("user {name}: {error}"))?;
    for log in service.logs() {
        log.give_to(user, group).map_err(|error| {
            format!(
                "cannot change the owner of {} to {name}: {error}",
                log.path().display()
            )
        })?;
    }
    Ok(())
}

/// Ignores SIGXFSZ, so that reaching RLIMIT_FSIZE is an error of the request or of the log and does
/// not kill the daemon.
fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
