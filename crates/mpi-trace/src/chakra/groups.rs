//! Process groups: names and ranks.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Ranks by the name of the group; an empty list means all ranks.
pub(super) type Groups = BTreeMap<String, Vec<usize>>;

/// A group in the metadata of PyTorch.
#[derive(Deserialize)]
struct Described {
    pg_name: String,
    ranks: Vec<usize>,
}

/// Returns the groups that a metadata node describes; none if it describes something else.
///
/// PyTorch's list of groups is the JSON in the first value of the inputs, which Python printed as a
/// list of one string: `['[{"pg_name": "0", "ranks": [0, 1]}]']`.
pub(super) fn described(inputs: &str) -> Groups {
    let printed = inputs.strip_prefix("['").or(inputs.strip_prefix("[\""));
    let json = printed.and_then(|rest| rest.strip_suffix("']").or(rest.strip_suffix("\"]")));
    let described: Vec<Described> = json
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    let pairs = described.into_iter().map(|one| (one.pg_name, one.ranks));
    pairs.collect()
}

/// Parses a file of groups, as given to ASTRA-sim: `{"1": [0, 1], "2": [2, 3]}`.
pub(super) fn listed(json: &[u8]) -> Result<Groups, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}
