//! Which processors a process may use, and taking one of them for itself.

/// The processors that the system and the launcher let this process use.
pub fn allowed() -> Vec<usize> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: plain data that the call fills; the set is large enough for the kernel's mask of 1,024 processors.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match libc::sched_getaffinity(0, size, &mut set) {
            0 => set,
            _ => return Vec::new(),
        }
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: below the size of the set.
        .filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) })
        .collect()
}

/// Binds this thread to these processors; whether the system did so.
#[must_use]
pub fn bind(processors: &[usize]) -> bool {
    // SAFETY: plain data, and numbers below the size of the set.
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

/// Lets this thread run on every processor of the host, after it inherited a narrower choice.
pub fn widen() -> bool {
    bind(&(0..libc::CPU_SETSIZE as usize).collect::<Vec<usize>>())
}

/// How many this process may use.
pub fn count() -> usize {
    allowed().len().max(1)
}

/// Deals out processors, one to each of those that may use the ones listed: who has the least choice chooses first.
/// `None` where they are too few.
pub fn deal(choices: &[&[usize]]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..choices.len()).collect();
    order.sort_by_key(|&one| (choices[one].len(), one));
    let mut dealt = vec![None; choices.len()];
    for one in order {
        let mut free = choices[one].iter();
        let free = free.find(|processor| !dealt.contains(&Some(**processor)));
        dealt[one] = Some(*free?);
    }
    dealt.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_one_of_its_own_or_nobody_does() {
        assert_eq!(deal(&[&[0, 1], &[0, 1]]), Some(vec![0, 1]));
        assert_eq!(deal(&[&[0, 1], &[0, 1], &[0, 1]]), None);
        // As a launcher binds them, core by core: each has but one, and they are enough.
        assert_eq!(deal(&[&[5], &[3]]), Some(vec![5, 3]));
        assert_eq!(deal(&[&[3], &[3]]), None);
        // Who has no choice comes first.
        assert_eq!(deal(&[&[0, 1], &[0]]), Some(vec![1, 0]));
        assert_eq!(deal(&[&[]]), None);
    }

    #[test]
    fn a_thread_is_bound_and_let_go_again() {
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
