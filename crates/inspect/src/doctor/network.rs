//! Checks access to other hosts by RoCEv2, and the namespaces for testing two hosts on one machine.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use verbena_hca_net::device::Device;
use verbena_hca_net::link;
use verbena_hca_os::interfaces::{self, Description};

use super::finding::Finding;
use super::probe::Probe;
use crate::doctor::Failure;

/// Checks interfaces, the port, namespaces, the interface of `verbena ipoib`, and the mounts of
/// `verbena fabric exec`.
pub fn findings() -> Result<Vec<Finding>, Failure> {
    let mut findings = vec![interfaces(), port()?, namespaces(), ipoib()?, mounts()?];
    if link::is_shared_out() {
        findings.insert(0, devices());
    }
    Ok(findings)
}

/// Lists the devices requested by VERBENA_DEVICES.
fn devices() -> Finding {
    let names: Vec<String> = Device::all().map(Device::name).collect();
    let ports = match link::is_ethernet() {
        true => "an interface for each port",
        false => "an InfiniBand port each",
    };
    Finding::ok("devices", format!("{}, {ports}", names.join(", ")))
}

fn interfaces() -> Finding {
    let subject = "interfaces";
    let all = match interfaces::all() {
        Ok(all) => all,
        Err(error) => return Finding::missing(subject, error.to_string()),
    };
    let words: Vec<String> = all.iter().map(describe).collect();
    let outward = |one: &Description| one.is_up && !one.is_loopback && !one.addresses.is_empty();
    match all.iter().any(outward) {
        true => Finding::ok(subject, words.join("; ")),
        false => Finding::limited(
            subject,
            format!("none connects to other hosts: {}", words.join("; ")),
        )
        .advise(
            "`--link roce` needs an interface that is up and has an address; local \
                     processes need none",
        ),
    }
}

fn describe(one: &Description) -> String {
    let state = match (one.is_up, one.is_running) {
        (true, true) => "up",
        (true, false) => "up without carrier",
        (false, _) => "down",
    };
    let addresses: Vec<String> = one.addresses.iter().map(ToString::to_string).collect();
    let addresses = match addresses.is_empty() {
        true => "no address".to_owned(),
        false => addresses.join(" "),
    };
    format!("{} {state}, MTU {}, {addresses}", one.name, one.mtu)
}

fn port() -> Result<Finding, Failure> {
    let subject = "--link roce";
    let mut command = Probe::Port.command()?;
    command.env("VERBENA_LINK", "roce");
    Ok(match Probe::outcome(command)? {
        Ok(said) if said.is_empty() => Finding::ok(subject, "UDP port 4791 can be used"),
        Ok(said) => Finding::limited(subject, said).advise(
            "other RoCE adapters cannot reach this host; docs/hosts.md lists possible users of \
             the port",
        ),
        Err(reason) => Finding::missing(subject, reason).advise(
            "only processes of this host are reachable; docs/hosts.md lists possible users of the \
             port",
        ),
    })
}

/// Tests the namespaces with which docs/hosts.md simulates two hosts on one machine.
fn namespaces() -> Finding {
    let subject = "user namespaces";
    let tried = Command::new("unshare")
        .args(["-Urn", "true"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => Finding::ok(
            subject,
            "unprivileged users can create network namespaces (two hosts on one machine)",
        ),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Finding::missing(subject, said).advise(
                "needed only to test two hosts on one machine; root can use `unshare -n` \
                         instead",
            )
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Finding::missing(subject, "not tested: `unshare` (util-linux) is missing")
        }
        Err(error) => Finding::missing(subject, error.to_string()),
    }
}

/// Makes the interface of `verbena ipoib`, in a process that then ends.
fn ipoib() -> Result<Finding, Failure> {
    let subject = "ipoib";
    Ok(match Probe::outcome(Probe::Ipoib.command()?)? {
        Ok(_) => Finding::ok(subject, "`verbena ipoib` can make its interface"),
        Err(reason) => Finding::missing(subject, reason.trim_start_matches("verbena: "))
            .advise("needed only for `verbena ipoib`; docs/ipoib.md lists its requirements"),
    })
}

/// Makes the mounts of `verbena fabric exec --mount`, in a process that then ends.
fn mounts() -> Result<Finding, Failure> {
    let subject = "fabric mount";
    Ok(match Probe::outcome(Probe::Mount.command()?)? {
        Ok(_) => Finding::ok(subject, "programs without the C library can see a fabric"),
        Err(reason) => Finding::missing(subject, reason.trim_start_matches("verbena: ")).advise(
            "needed only for `verbena fabric exec --mount`; `verbena fabric sysfs` needs no mount",
        ),
    })
}
