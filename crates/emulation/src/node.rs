//! Rules by which processes are put on emulated nodes.

use std::fmt;
use std::str::FromStr;

/// Variables with the rank of an MPI process, and with the number of ranks: Open MPI, PMIx with
/// Slurm, MPICH and Intel MPI, MVAPICH2, Slurm alone.
const RANKS: [(&str, &str); 5] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Largest number of nodes, and of ranks of a node.
const MOST: u64 = 1 << 20;

/// How processes are put on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRule {
    /// Consecutive MPI ranks, so many on each node: `ranks:N`.
    Ranks(u64),
    /// MPI ranks in consecutive blocks, on so many nodes: `nodes:N`.
    Nodes(u64),
    /// Processes with the same value of a variable: `env:NAME`.
    Variable(String),
    /// Processes of a network namespace: `net`.
    Network,
    /// Processes of a UTS namespace, which has a host name: `uts`.
    HostName,
}

/// A text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not ranks:N, nodes:N, env:NAME, net or uts")]
pub struct NotARule(String);

impl FromStr for NodeRule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<NodeRule, NotARule> {
        let wrong = || NotARule(text.to_owned());
        let number = |text: &str| {
            let number = text.parse().ok().filter(|one| (1..=MOST).contains(one));
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            number.filter(|_| digits).ok_or_else(wrong)
        };
        match text.split_once(':') {
            Some(("ranks", count)) => Ok(NodeRule::Ranks(number(count)?)),
            Some(("nodes", count)) => Ok(NodeRule::Nodes(number(count)?)),
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
                Ok(NodeRule::Variable(name.to_owned()))
            }
            None if text == "net" => Ok(NodeRule::Network),
            None if text == "uts" => Ok(NodeRule::HostName),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for NodeRule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRule::Ranks(count) => write!(to, "ranks:{count}"),
            NodeRule::Nodes(count) => write!(to, "nodes:{count}"),
            NodeRule::Variable(name) => write!(to, "env:{name}"),
            NodeRule::Network => to.write_str("net"),
            NodeRule::HostName => to.write_str("uts"),
        }
    }
}

impl NodeRule {
    /// Returns the name of a process's node, from its variables and the names of its namespaces
    /// (`/proc/self/ns/`).
    ///
    /// # Errors
    /// Says which variables are missing or no numbers, in words.
    pub fn node(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        namespace: impl Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u64>().ok());
        let rank = || {
            let found = RANKS
                .iter()
                .find_map(|(rank, size)| Some((number(rank)?, number(size))));
            let names = RANKS.map(|(rank, _)| rank).join(", ");
            found.ok_or_else(|| format!("it has no MPI rank ({names})"))
        };
        match self {
            NodeRule::Ranks(count) => Ok(format!("rank {}", rank()?.0 / count)),
            NodeRule::Nodes(nodes) => {
                let (rank, size) = rank()?;
                let size = size.filter(|size| rank < *size && *size <= MOST);
                let size = size.ok_or("it has no number of MPI ranks")?;
                Ok(format!("block {}", rank * nodes / size))
            }
            NodeRule::Variable(name) => {
                let value = variable(name).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| format!("{name} is not set"))?;
                Ok(format!("{name}={value}"))
            }
            NodeRule::Network => namespace("net").ok_or("it has no network namespace".to_owned()),
            NodeRule::HostName => namespace("uts").ok_or("it has no UTS namespace".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(rule: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|one| one.0 == name);
            found.map(|one| one.1.to_owned())
        };
        let namespace = |name: &str| Some(format!("{name}:[4026531840]"));
        rule.parse::<NodeRule>().unwrap().node(find, namespace)
    }

    #[test]
    fn ranks_are_put_on_nodes_in_blocks() {
        let at = |rule, rank: &str| {
            let variables = [("PMI_RANK", rank), ("PMI_SIZE", "8")];
            node(rule, &variables).unwrap()
        };
        assert_eq!(
            ["0", "3", "4", "7"].map(|rank| at("ranks:4", rank)),
            ["rank 0", "rank 0", "rank 1", "rank 1"]
        );
        assert_eq!(
            ["0", "2", "3", "7"].map(|rank| at("nodes:3", rank)),
            ["block 0", "block 0", "block 1", "block 2"]
        );
    }

    #[test]
    fn variables_and_namespaces_name_nodes() {
        assert_eq!(node("env:A", &[("A", "x")]), Ok("A=x".into()));
        assert_eq!(node("net", &[]), Ok("net:[4026531840]".into()));
        assert_eq!(node("uts", &[]), Ok("uts:[4026531840]".into()));
        assert!(
            node("env:A", &[("A", "")])
                .unwrap_err()
                .contains("A is not set")
        );
        assert!(node("ranks:1", &[]).unwrap_err().contains("PMI_RANK"));
        let no_size = [("OMPI_COMM_WORLD_RANK", "1")];
        assert!(
            node("nodes:2", &no_size)
                .unwrap_err()
                .contains("number of MPI ranks")
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "", "ranks", "ranks:", "ranks:0", "ranks:+1", "env:", "env:a=b", "nodes:x", "host",
        ] {
            let error = wrong.parse::<NodeRule>().unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn rules_are_read_as_written(text in "(ranks|nodes):[1-9]{1,5}|env:[A-Z_]{1,20}|net|uts") {
            let rule: NodeRule = text.parse().unwrap();
            prop_assert_eq!(rule.to_string(), text);
        }

        #[test]
        fn each_block_has_as_many_ranks_but_for_one(nodes in 1..20u64, size in 1..200u64) {
            let [rule, size_text] = [format!("nodes:{nodes}"), size.to_string()];
            let name = |rank: u64| {
                let variables = [("PMI_RANK", &*rank.to_string()), ("PMI_SIZE", &*size_text)];
                node(&rule, &variables).unwrap()
            };
            let mut counts = std::collections::BTreeMap::new();
            (0..size).for_each(|rank| *counts.entry(name(rank)).or_insert(0) += 1);
            let counts: Vec<u64> = counts.into_values().collect();
            prop_assert_eq!(counts.len() as u64, nodes.min(size));
            let (least, most) = (counts.iter().min(), counts.iter().max());
            prop_assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
        }

        #[test]
        fn malformed_rules_do_not_panic(text in ".{0,30}", value in ".{0,30}") {
            if let Ok(rule) = text.parse::<NodeRule>() {
                let _ = rule.node(|_| Some(value.clone()), |_| None);
            }
        }
    }
}
