//! Measures two properties of a transport that pure message benchmarks do not show, using a C
//! program: the time of an exchange between processes that compute, and the eager limit.

use super::run::cpu_list;
use crate::Failure;
use crate::mpirun::{self, Mpirun};
use crate::ready::Ready;
use crate::recorder::{Compiler, put_before};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use verbena_bench::Failure as BenchFailure;
use verbena_bench::temporary::Directory;
use verbena_measure::processors;
use verbena_mpi_trace::{recorder, stopwatch};

const SOURCE: &str = include_str!("../../programs/probe.c");

#[derive(Debug, PartialEq)]
pub struct ProbeResult {
    /// By size in bytes, nanoseconds of an exchange between processes that have just computed, and
    /// of one directly after it.
    pub exchanges: Vec<(u64, [f64; 2])>,
    /// Nanoseconds of a barrier.
    pub barrier: f64,
    /// Largest message in bytes that does not wait for its receiver.
    pub eager: u64,
}

/// Compiles and runs the probe over the transport of `ready`.
///
/// # Errors
///
/// Fails if the probe does not compile, run or print its results.
pub fn run(ready: &Ready, processes: usize, sizes: &[usize]) -> Result<ProbeResult, Failure> {
    let (directory, counters) = (Directory::create()?, Directory::create()?);
    let (source, program) = (
        directory.path().join("probe.c"),
        directory.path().join("probe"),
    );
    fs::write(&source, SOURCE).map_err(|error| BenchFailure::Directory {
        path: source.clone(),
        source: error,
    })?;
    let mut compiler = Command::new(ready.compiler());
    compiler.arg("-O2").arg(&source).arg("-o").arg(&program);
    let made = compiler.stdin(Stdio::null()).output();
    let made =
        made.map_err(|error| BenchFailure::of_exec(ready.compiler().display().to_string(), error))?;
    if !made.status.success() {
        let words = String::from_utf8_lossy(&made.stderr).into_owned();
        let text = format!("the probe does not compile: {words}");
        return Err(BenchFailure::Suite(text).into());
    }
    // The probe works in pairs.
    let processes = processes.next_multiple_of(2);
    let mut command = ready.command(ready.transport(), &program, processes, &counters)?;
    put_before(&mut command, &Compiler::of(ready.compiler())?.recorder()?);
    let processors = processors::allowed();
    command.env(recorder::CPUS, cpu_list(&processors));
    // The recorder library pins processes only when it records or times them.
    command.env(stopwatch::DIRECTORY, counters.path());
    command.arg(processes.div_ceil(processors.len()).to_string());
    command.args(sizes.iter().map(usize::to_string));
    let (mpirun, mut output) = Mpirun::start(command, ready.launcher())?;
    let mut text = String::new();
    let read = output.read_to_string(&mut text);
    let (status, said) = mpirun.end()?;
    if let Some(reason) = mpirun::trouble(status, &said) {
        return Err(BenchFailure::Suite(reason).into());
    }
    let result = read.ok().and_then(|_| parse(&text));
    result.ok_or_else(|| {
        let text = format!("the message probe printed unexpected output: {text:?}");
        BenchFailure::Suite(text).into()
    })
}

fn parse(text: &str) -> Option<ProbeResult> {
    let mut exchanges = Vec::new();
    let (mut barrier, mut eager) = (None, None);
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["exchange", bytes, first, second] => {
                // Times below the noise of computing count as the minimum.
                let nanos = |word: &str| word.parse().ok().map(|nanos: f64| nanos.max(1.0));
                exchanges.push((bytes.parse().ok()?, [nanos(first)?, nanos(second)?]));
            }
            ["barrier", nanos] => barrier = nanos.parse().ok(),
            ["eager", bytes] => eager = bytes.parse().ok(),
            _ => (),
        }
    }
    Some(ProbeResult {
        exchanges,
        barrier: barrier?,
        eager: eager?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_messages_between_answers_are_ignored() {
        let text = "a warning\nexchange 8 1500 700\nexchange 64 -20 3\nbarrier 900\neager 4096\n";
        let result = ProbeResult {
            exchanges: vec![(8, [1500.0, 700.0]), (64, [1.0, 3.0])],
            barrier: 900.0,
            eager: 4096,
        };
        assert_eq!(parse(text), Some(result));
        for wrong in [
            "",
            "barrier 1\neager\n",
            "barrier x\neager 1\n",
            "exchange 8 x 1\nbarrier 1\neager 1\n",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
