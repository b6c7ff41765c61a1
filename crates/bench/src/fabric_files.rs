//! Fabrics that exist, for models: topology and routes as other tools print them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Failure;
use verbena_model::profile::Topology as Connections;
use verbena_model::topology::discovered;
use verbena_topology::{
    Forwarding, MOST_BYTES, MOST_NODES, Network, PathSurvey, Remark, Topology, expand, read,
    read_routes,
};

/// Files of a fabric, and the hosts of it that a model uses.
#[derive(Debug, Clone)]
pub struct FabricFiles {
    /// Its topology.
    pub topology: PathBuf,
    /// Its switches' forwarding tables.
    pub routes: Option<PathBuf>,
    /// The hosts: a list as Slurm abbreviates it, or `@FILE` with a name per line.
    pub hosts: Option<String>,
}

/// A fabric for models.
#[derive(Debug, Clone)]
pub struct Fabric {
    /// How its nodes are connected.
    pub connections: Connections,
    /// Name of each node.
    pub names: Vec<String>,
    /// Notes for the user: sizes, order of nodes, omissions.
    pub notes: Vec<String>,
}

impl FabricFiles {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or does not fit the others, or the routes do not reach an
    /// adapter.
    pub fn load(&self) -> Result<Fabric, Failure> {
        let topology = read_topology(&self.topology)?;
        let hosts = self.hosts.as_deref().map(hosts).transpose()?;
        let network = Network::of(&topology, hosts.as_deref());
        let network = network.map_err(|error| within(&self.topology, &error))?;
        let mut notes = vec![sizes(&self.topology, &network)];
        notes.extend(remarks(&self.topology, &topology.remarks));
        notes.extend(remarks(&self.topology, &network.remarks));
        notes.extend(unknown_rates(&network));
        let forwarding = match &self.routes {
            Some(path) => Some(forwarding(path, &topology, &network, &mut notes)?),
            None => {
                let text = "no forwarding tables given: shortest paths, among which the number of \
                            the destination chooses; --routes FILE takes the fabric's own";
                notes.push(text.to_owned());
                None
            }
        };
        let (wiring, built) = discovered(&network, forwarding.as_ref())
            .map_err(|error| within(self.routes.as_ref().unwrap_or(&self.topology), &error))?;
        Ok(Fabric {
            connections: Connections {
                about: self.topology.display().to_string(),
                wiring: Arc::new(wiring),
                built: Some(Arc::new(built)),
            },
            names: network.names,
            notes,
        })
    }
}

/// Reads a topology.
///
/// # Errors
///
/// Fails if the file cannot be read or its format is unknown.
pub fn read_topology(path: &Path) -> Result<Topology, Failure> {
    read(&content(path)?).map_err(|error| within(path, &error))
}

/// Returns a file's content, `-` for standard input, up to one byte more than [`read`] takes.
///
/// # Errors
///
/// Fails if it cannot be read.
pub fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error| Failure::Input(format!("cannot read {}: {error}", path.display()));
    let mut content = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(most).read_to_end(&mut content),
        false => File::open(path)
            .map_err(unreadable)?
            .take(most)
            .read_to_end(&mut content),
    }
    .map_err(unreadable)?;
    Ok(content)
}

fn within(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: {error}", path.display()))
}

/// Expands `n[1-4],n7`, or reads `@FILE`: a host per line, further words ignored as in a hostfile.
fn hosts(list: &str) -> Result<Vec<String>, Failure> {
    let names = match list.strip_prefix('@') {
        Some(file) => {
            let bytes = content(Path::new(file))?;
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.map(str::to_owned).collect()
        }
        None => expand(list, MOST_NODES),
    };
    match names.is_empty() {
        true => Err(Failure::Input(format!("--hosts {list}: no host"))),
        false => Ok(names),
    }
}

fn sizes(path: &Path, network: &Network) -> String {
    let names = &network.names;
    let last = names.len() - 1;
    format!(
        "{}: {} nodes, {} switches, {} cables between them; node 0 is {}, node {last} is {}",
        path.display(),
        names.len(),
        network.switches.len(),
        network.cables.len(),
        names[0],
        names[last]
    )
}

/// Returns remarks on a file as sentences.
fn remarks<'a>(path: &'a Path, remarks: &'a [Remark]) -> impl Iterator<Item = String> + 'a {
    remarks.iter().map(move |remark| {
        format!(
            "{}: {} ({}), such as {}",
            path.display(),
            remark.text,
            remark.count,
            remark.examples.join("; ")
        )
    })
}

fn unknown_rates(network: &Network) -> Option<String> {
    let rates = network.adapter_rates.iter().chain(&network.cable_rates);
    let unknown = rates.filter(|rate| rate.is_none()).count();
    (unknown > 0).then(|| {
        format!("the rate of {unknown} links is not stated: they have the rate of the model's link")
    })
}

/// Reads forwarding tables and checks that they lead to every adapter.
fn forwarding(
    path: &Path,
    topology: &Topology,
    network: &Network,
    notes: &mut Vec<String>,
) -> Result<Forwarding, Failure> {
    let (forwarding, survey) = read_forwarding(path, topology, network, notes)?;
    if let Some((from, to, broken)) = survey.examples.first() {
        let why = broken.text(network);
        let text = format!(
            "{} of {} pairs have no path: packets from {} to {} {why}",
            survey.broken, survey.pairs, network.names[*from], network.names[*to]
        );
        return Err(within(path, &text));
    }
    if survey.longer > 0 {
        notes.push(format!(
            "{}: the paths of {} of {} pairs are longer than the shortest",
            path.display(),
            survey.longer,
            survey.pairs
        ));
    }
    Ok(forwarding)
}

/// Reads forwarding tables and follows every path; adds remarks on the file to `notes`.
///
/// # Errors
///
/// Fails if the file cannot be read or does not fit the network.
pub fn read_forwarding(
    path: &Path,
    topology: &Topology,
    network: &Network,
    notes: &mut Vec<String>,
) -> Result<(Forwarding, PathSurvey), Failure> {
    let routes = read_routes(&content(path)?).map_err(|error| within(path, &error))?;
    notes.extend(remarks(path, &routes.remarks));
    let forwarding = Forwarding::of(topology, network, &routes);
    let forwarding = forwarding.map_err(|error| within(path, &error))?;
    let survey = forwarding.survey(network);
    Ok((forwarding, survey))
}
