//! The objects that a command leaves with faults and destroys without them.

use std::collections::BTreeMap;

use verbena_faults::alive::Alive;

/// The most objects of each kind that a process of each command line had when it exited.
#[derive(Debug, Default)]
pub struct Usual(BTreeMap<String, BTreeMap<String, u64>>);

impl Usual {
    /// Returns those of a run without faults.
    pub fn of(record: &[Alive]) -> Usual {
        let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for process in record {
            let most = all.entry(process.command.clone()).or_default();
            for (kind, count) in &process.objects {
                let known = most.entry(kind.clone()).or_default();
                *known = (*known).max(*count);
            }
        }
        Usual(all)
    }

    /// Returns the objects beyond the usual ones, as `1 pd, 2 mr`; the process is named if several
    /// left some.
    pub fn beyond(&self, record: &[Alive]) -> String {
        let none = BTreeMap::new();
        let left = |process: &Alive| {
            let usual = self.0.get(&process.command).unwrap_or(&none);
            let more = process.objects.iter().filter_map(|(kind, count)| {
                let more = count.saturating_sub(usual.get(kind).copied().unwrap_or(0));
                (more > 0).then(|| format!("{more} {kind}"))
            });
            let text = more.collect::<Vec<_>>().join(", ");
            (!text.is_empty()).then(|| (text, process.command.clone()))
        };
        let all: Vec<(String, String)> = record.iter().filter_map(left).collect();
        match &all[..] {
            [(text, _)] => text.clone(),
            all => {
                let named = all
                    .iter()
                    .map(|(text, command)| format!("{text} in {command}"));
                named.collect::<Vec<_>>().join("; ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(command: &str, objects: &[(&str, u64)]) -> Alive {
        let object = |(kind, count): &(&str, u64)| ((*kind).to_owned(), *count);
        Alive {
            process: 1,
            objects: objects.iter().map(object).collect(),
            command: command.into(),
        }
    }

    #[test]
    fn only_more_than_usual_is_left() {
        let usual = Usual::of(&[
            alive("./a", &[("ctx", 1), ("pd", 1)]),
            alive("./a", &[("ctx", 2)]),
        ]);
        let beyond = |record: &[Alive]| usual.beyond(record);
        assert_eq!(beyond(&[alive("./a", &[("ctx", 2), ("pd", 1)])]), "");
        assert_eq!(
            beyond(&[alive("./a", &[("ctx", 2), ("mr", 3), ("pd", 2)])]),
            "3 mr, 1 pd"
        );
        assert_eq!(
            beyond(&[alive("./a", &[("cq", 1)]), alive("./b", &[("pd", 1)])]),
            "1 cq in ./a; 1 pd in ./b"
        );
        assert_eq!(beyond(&[]), "");
    }
}
