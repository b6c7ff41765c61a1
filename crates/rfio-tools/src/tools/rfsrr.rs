//! `rfsrr`: reports storage as WLCG Storage Resource Reporting.

use std::io::Write;
use std::path::Path as LocalPath;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::arguments::{self, StorageReport};
use crate::remote::{self, Sessions};
use crate::storage_report::{Measured, Service, Share, report};
use crate::{exit, say};
use verbena_rfio_client::{Address, Error};
use verbena_rfio_protocol::request::OnPath;
use verbena_rfio_protocol::{Reply, Request};

/// Runs the tool on this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: StorageReport = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(&arguments) {
        Ok(()) => exit::with(exit::OK),
        Err((what, error)) => {
            exit::report("rfsrr", format_args!("{what}{error}"));
            exit::with(exit::code(error.status()))
        }
    }
}

/// Writes the report. An error comes with its subject, as a prefix for the message.
fn run(arguments: &StorageReport) -> Result<(), (String, Error)> {
    let plain = |error| (String::new(), error);
    let mut sessions = Sessions::new(arguments.connection.options().map_err(plain)?);
    let shares = arguments
        .share
        .iter()
        .map(|share| {
            measure(arguments, &mut sessions, share)
                .map_err(|error| (format!("share {}: ", share.name), error))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let service = Service {
        name: arguments.name.clone(),
        id: arguments.id.clone(),
        quality: arguments.quality.clone(),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let text = format!("{:#}\n", report(&service, &shares, now));
    match &arguments.out {
        Some(path) => write_whole(path, &text).map_err(|error| {
            let what = format!("write {}: ", path.display());
            (what, Error::Setup(error.to_string()))
        }),
        None => {
            say!("{}", text.trim_end());
            Ok(())
        }
    }
}

/// Replaces the file atomically: a reader sees the old or the new report.
fn write_whole(path: &LocalPath, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let written = std::fs::File::create(&name).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&name, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&name);
    }
    written
}

fn measure(
    arguments: &StorageReport,
    sessions: &mut Sessions,
    share: &Share,
) -> Result<Measured, Error> {
    let (address, path) = remote::place(share.place.as_ref())?;
    let endpoint = match (&arguments.endpoint, &address) {
        (Some(url), _) => url.clone(),
        (None, Address::Host(host, port)) => match host.contains(':') {
            true => format!("rfio://[{host}]:{port}/"),
            false => format!("rfio://{host}:{port}/"),
        },
        (None, Address::Socket(_)) => {
            let what = "a Unix socket has no URL that others can use; give one with --endpoint";
            return Err(Error::Setup(what.into()));
        }
    };
    let session = sessions.with(&address)?;
    let about = remote::status(session, &path)?;
    let space = match session.call(Request::Space(OnPath { path: path.clone() }))? {
        Reply::Capacity(space) => space,
        other => return Err(Error::unexpected(&other)),
    };
    let used = space.blocks.saturating_sub(space.free);
    Ok(Measured {
        share: share.clone(),
        path: String::from_utf8_lossy(path.as_bytes()).into_owned(),
        endpoint,
        device: about.device,
        total: space.blocks.saturating_mul(space.block),
        used: used.saturating_mul(space.block),
    })
}
