//! Expands host lists as abbreviated by launchers: `node[01-03,7],login` (Slurm),
//! `node[2:1-3],10.9.0.2@0(2)` (Open MPI, which states the number of digits and, at the end, the
//! location of the daemons).

/// Maximum number of names: process 0 is looked for on each host.
const MOST: usize = 1024;

/// Returns the names in the list's order; malformed items are skipped.
pub fn expand(list: &str) -> Vec<String> {
    let list = list.split('@').next().unwrap_or_default();
    let mut names = Vec::new();
    for item in split(list) {
        names.extend(product(item));
        if names.len() >= MOST {
            names.truncate(MOST);
            break;
        }
    }
    names
}

/// Splits at commas outside brackets.
fn split(list: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let parts = list.split(|character| {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Expands one item: each number of the first bracket is combined with each expansion of the rest.
fn product(item: &str) -> Vec<String> {
    let Some((before, rest)) = item.split_once('[') else {
        return vec![item.to_owned()];
    };
    let Some((inside, after)) = rest.split_once(']') else {
        return Vec::new();
    };
    let ends = product(after);
    let mut names = Vec::new();
    for number in numbers(inside) {
        for end in &ends {
            names.push(format!("{before}{number}{end}"));
            if names.len() >= MOST {
                return names;
            }
        }
    }
    names
}

/// Expands the ranges in brackets; numbers are as wide as the first of their range, or as the
/// stated number of digits.
fn numbers(inside: &str) -> Vec<String> {
    let (digits, ranges) = match inside.split_once(':') {
        Some((digits, ranges)) => (digits.parse().unwrap_or(0), ranges),
        None => (0, inside),
    };
    let mut found = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(from), Ok(to)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            continue;
        };
        let width = first.len().max(digits).min(20);
        let numbers = (from..=to).take(MOST);
        found.extend(numbers.map(|number| format!("{number:0width$}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn slurm_host_lists_are_expanded() {
        assert_eq!(expand("one,two"), ["one", "two"]);
        assert_eq!(
            expand("n[08-10,3]-ib,login"),
            ["n08-ib", "n09-ib", "n10-ib", "n3-ib", "login"]
        );
        assert_eq!(expand("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
    }

    #[test]
    fn open_mpi_host_lists_are_expanded() {
        assert_eq!(expand("vm,[2:10].9.0.2@0(2)"), ["vm", "10.9.0.2"]);
        assert_eq!(expand("c[3:8-10]"), ["c008", "c009", "c010"]);
    }

    #[test]
    fn invalid_host_lists_give_no_hosts() {
        for wrong in ["", ",", "a[", "a[x]", "a[3-1]", "[:]", "]"] {
            assert!(expand(wrong).iter().all(|name| name == "]"), "{wrong}");
        }
        assert!(expand("a[1-99999999999]b[1-9999999999]").len() <= 1024);
    }
}
