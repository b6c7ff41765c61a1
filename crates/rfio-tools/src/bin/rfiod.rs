//! `rfiod`: serves directories to RFIO's tools and libraries.

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use verbena_rfio::server::exposition;
use verbena_rfio::server::running::Server;
use verbena_rfio_tools::arguments::{self, Daemon};
use verbena_rfio_tools::daemon::{plan, privileges, ready};
use verbena_rfio_tools::{exit, say};

fn main() -> ExitCode {
    let arguments: Daemon = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match serve(&arguments) {
        Ok(()) => exit::with(exit::OK),
        Err(what) => {
            exit::report("rfiod", what);
            exit::with(exit::SYSTEM)
        }
    }
}

fn serve(arguments: &Daemon) -> Result<(), String> {
    let files = plan::raise_file_limit().unwrap_or_else(|error| {
        exit::report(
            "rfiod",
            format_args!("limit of open files stays as it is: {error}"),
        );
        plan::file_limit()
    });
    let plan = plan::prepare(arguments, files)?;
    // Before any thread starts, so that none misses the stop.
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| format!("signals: {error}"))?;
    let service = Arc::clone(&plan.context.service);
    let server = Server::start(plan.context, &plan.layout).map_err(|error| error.to_string())?;
    if let Some(address) = arguments.metrics {
        let address = exposition::start(Arc::clone(&service), address)
            .map_err(|error| format!("metrics on {address}: {error}"))?;
        say!("rfiod: metrics on http://{address}/metrics");
    }
    if let Some(name) = &arguments.user {
        privileges::become_user(name).map_err(|error| format!("become user {name}: {error}"))?;
    }
    for export in service.exports.iter() {
        say!(
            "rfiod: exporting {} ({:?})",
            export.directory().display(),
            export.access()
        );
    }
    match &service.fabric {
        Some(fabric) => say!("rfiod: data by RDMA ({:?}) or TCP", fabric.adapter()),
        None => say!("rfiod: data by TCP"),
    }
    say!("rfiod: files read {}", service.storage);
    for address in server.addresses() {
        say!("rfiod: serving on {address}");
    }
    if let Some(path) = &arguments.local {
        say!("rfiod: serving on {}", path.display());
    }
    ready::notify("READY=1");
    while signals.forever().next() == Some(SIGHUP) {
        match plan::reload(arguments, server.context()) {
            Ok(()) => say!("rfiod: secrets, certificates and limits by address read again"),
            Err(what) => exit::report("rfiod", format_args!("nothing is reloaded: {what}")),
        }
    }
    ready::notify("STOPPING=1");
    say!("rfiod: stopping");
    server.stop();
    Ok(())
}
