//! The processors a process may use, and binding threads to them.

/// Returns the processors that the system and the launcher allow this process to use; empty if the
/// system does not say.
pub fn allowed() -> Vec<usize> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `cpu_set_t` is plain data, for which zero is a valid value, and the call writes at
    // most `size` bytes of it. The set holds the kernel's mask of up to 1,024 processors.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match libc::sched_getaffinity(0, size, &mut set) {
            0 => set,
            _ => return Vec::new(),
        }
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: `processor` is below CPU_SETSIZE, the number of bits in the set.
        .filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) })
        .collect()
}

/// Binds this thread to these processors; returns whether the system did so.
#[must_use]
pub fn bind(processors: &[usize]) -> bool {
    // SAFETY: `cpu_set_t` is plain data, for which zero is a valid value; each number is checked to
    // be below CPU_SETSIZE, the number of bits in the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &processor in processors {
            if processor < libc::CPU_SETSIZE as usize {
                libc::CPU_SET(processor, &mut set);
            }
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Lets this thread run on every processor of the host, after it inherited a narrower affinity.
pub fn widen() -> bool {
    bind(&(0..libc::CPU_SETSIZE as usize).collect::<Vec<usize>>())
}

/// Returns the number of processors this process may use, at least 1.
pub fn count() -> usize {
    allowed().len().max(1)
}

/// Returns the number of processors available regardless of the affinity set by the launcher: a
/// process may widen that affinity, but not the system's limit (cpuset).
pub fn at_most() -> usize {
    let widened = || {
        widen();
        count()
    };
    // In a separate thread, so that the wider affinity ends with it.
    std::thread::scope(|scope| scope.spawn(widened).join()).unwrap_or(1)
}

/// Assigns a different processor to each list, from the processors it contains, preferring those
/// listed first. `None` if there are too few.
pub fn deal(choices: &[&[usize]]) -> Option<Vec<usize>> {
    let mut dealt = vec![None; choices.len()];
    for one in 0..choices.len() {
        if !give(one, choices, &mut dealt, &mut Vec::new()) {
            return None;
        }
    }
    dealt.into_iter().collect()
}

/// Assigns `one` a free processor, or one whose owner can take another (an augmenting path of a
/// bipartite matching). `asked` holds the processors already tried without success.
fn give(
    one: usize,
    choices: &[&[usize]],
    dealt: &mut [Option<usize>],
    asked: &mut Vec<usize>,
) -> bool {
    let is_free = |processor: &&usize| !dealt.contains(&Some(**processor));
    if let Some(&free) = choices[one].iter().find(is_free) {
        dealt[one] = Some(free);
        return true;
    }
    for &processor in choices[one] {
        if asked.contains(&processor) {
            continue;
        }
        asked.push(processor);
        let owner = dealt.iter().position(|dealt| *dealt == Some(processor));
        if owner.is_some_and(|owner| give(owner, choices, dealt, asked)) {
            dealt[one] = Some(processor);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_gets_its_own_cpu_or_none_is_assigned() {
        assert_eq!(deal(&[&[0, 1], &[0, 1]]), Some(vec![0, 1]));
        assert_eq!(deal(&[&[0, 1], &[0, 1], &[0, 1]]), None);
        // Bound core by core by a launcher: each list has one processor, and they suffice.
        assert_eq!(deal(&[&[5], &[3]]), Some(vec![5, 3]));
        assert_eq!(deal(&[&[3], &[3]]), None);
        // A list without alternatives takes precedence.
        assert_eq!(deal(&[&[0, 1], &[0]]), Some(vec![1, 0]));
        assert_eq!(deal(&[&[]]), None);
        // The second must give up its first choice for the third to have one.
        assert_eq!(deal(&[&[0, 1], &[1, 2], &[0, 1]]), Some(vec![1, 2, 0]));
        // Processors listed first are assigned first.
        assert_eq!(deal(&[&[6, 2, 0], &[6, 2, 0]]), Some(vec![6, 2]));
    }

    /// Compares with exhaustive search, for all lists that three processes may have of three
    /// processors.
    #[test]
    fn an_assignment_is_found_whenever_one_exists() {
        let sets: Vec<Vec<usize>> = (0..8_usize)
            .map(|bits| (0..3).filter(|bit| bits >> bit & 1 == 1).collect())
            .collect();
        let all = || sets.iter().map(Vec::as_slice);
        for one in all() {
            for two in all() {
                for three in all() {
                    let choices = [one, two, three];
                    let suits = |dealt: &[usize]| {
                        let apart =
                            dealt[0] != dealt[1] && dealt[0] != dealt[2] && dealt[1] != dealt[2];
                        apart
                            && choices
                                .iter()
                                .zip(dealt)
                                .all(|(own, one)| own.contains(one))
                    };
                    let can = (0..27).any(|n| suits(&[n / 9, n / 3 % 3, n % 3]));
                    let dealt = deal(&choices);
                    assert_eq!(dealt.is_some(), can, "{choices:?}");
                    assert!(dealt.is_none_or(|dealt| suits(&dealt)), "{choices:?}");
                }
            }
        }
    }

    #[test]
    fn a_thread_is_bound_and_released() {
        let mine = std::thread::spawn(|| {
            let before = allowed();
            assert!(bind(&before[..1]));
            assert_eq!(allowed(), before[..1]);
            assert!(bind(&before));
            assert_eq!(allowed(), before);
            assert!(!bind(&[]), "a thread needs a processor");
        });
        mine.join().unwrap();
    }
}
