//! Input of a page beside the runs.

use super::fitted_profile::FittedProfile;
use super::reproduction::Reproduction;
use crate::ip_table::PublishedIp;
use crate::summary::Published;
use serde::Serialize;

/// Description of a benchmark, in addition to its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Title of its group.
    pub group: String,
    /// The question that it answers.
    pub answers: String,
    /// Its source.
    pub source: String,
    /// The parameter on the x axis.
    pub axis: String,
}

/// Data about real adapters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Published figures to compare with the headlines.
    pub published: &'a [Published],
    /// Published figures of IP and of the verbs, for runs that measured IP.
    pub ip: &'a [PublishedIp],
    /// All claims with the models' results, if these were computed.
    pub reproduction: Option<&'a Reproduction>,
    /// Predictions of a profile fitted to a part of the first run.
    pub fitted_profile: Option<&'a FittedProfile>,
}
