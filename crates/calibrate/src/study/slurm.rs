//! The script of a Slurm array whose tasks together compute a study.
//!
//! A task's share depends on its number and on the original number of tasks, which the script
//! contains: resubmitted tasks (`sbatch --array=3,5`) take the same shares and continue where they
//! stopped.

use std::path::Path;

/// A script for `sbatch`.
pub struct Script<'a> {
    /// The command that computes the whole study, by words.
    pub command: Vec<String>,
    /// The study's file, for a comment in the script.
    pub file: &'a Path,
    /// Number of points of the study.
    pub points: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Threads of a task.
    pub threads: usize,
}

impl Script<'_> {
    /// Returns the script's text.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        let command = words.join(" ");
        let (tasks, threads) = (self.tasks, self.threads);
        format!(
            "#!/bin/bash\n\
             # {points} points of the study {file:?} in {tasks} tasks. Submit with sbatch, \
             with the cluster's own options\n\
             # (--partition, --account, --time). A resubmitted task continues where it ended.\n\
             # When all have ended, `bash THIS_SCRIPT merge` merges their results.\n\
             #SBATCH --job-name=verbena-sweep\n\
             #SBATCH --array=0-{last}\n\
             #SBATCH --ntasks=1\n\
             #SBATCH --cpus-per-task={threads}\n\
             sweep=({command})\n\
             if [ \"$1\" = merge ]; then\n    \
                 exec \"${{sweep[@]}}\"\n\
             fi\n\
             exec \"${{sweep[@]}}\" --part \"${{SLURM_ARRAY_TASK_ID:?is set by Slurm}}/{tasks}\"\n",
            points = self.points,
            file = self.file,
            last = tasks - 1,
        )
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_the_shell() {
        for (word, expected) in [
            ("/a/b-c.toml", "/a/b-c.toml"),
            ("connectx.send.blueflame=1", "connectx.send.blueflame=1"),
            ("my study.toml", "'my study.toml'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn each_array_task_computes_its_share() {
        let script = Script {
            command: vec!["verbena".to_owned(), "sweep".to_owned(), "a b".to_owned()],
            file: Path::new("a b"),
            points: 100,
            tasks: 8,
            threads: 2,
        };
        let text = script.text();
        for line in [
            "#!/bin/bash",
            "#SBATCH --array=0-7",
            "#SBATCH --cpus-per-task=2",
            "sweep=(verbena sweep 'a b')",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}: {text}");
        }
        assert!(text.ends_with("/8\"\n"), "{text}");
    }
}
