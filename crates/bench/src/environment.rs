//! The environment of a run (rule 19), and the resulting warnings.

use std::collections::BTreeMap;
use std::fs;
use verbena_measure::clock::Clock;
use verbena_measure::processors;
use verbena_measure::warning::Warning;

pub fn describe() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value);
        }
    };
    put("host", read("/proc/sys/kernel/hostname"));
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("processor", processor("model name"));
    put("cores", Some(processors::count().to_string()));
    put("governor", governor());
    put("memory", memory());
    put(
        "virtual machine",
        Some(if is_virtual() { "yes" } else { "no" }.to_owned()),
    );
    put("verbena", Some(env!("CARGO_PKG_VERSION").to_owned()));
    out
}

/// Returns warnings for the reader of the results.
pub fn warnings(clock: &Clock, launches: u32) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if is_virtual() {
        warnings.push(Warning::Virtual);
    }
    if let Some(name) = governor().filter(|name| name != "performance") {
        warnings.push(Warning::Governor { name });
    }
    if let Some(reason) = &clock.refused_counter {
        warnings.push(Warning::SystemClock {
            reason: reason.clone(),
        });
    }
    if (launches as usize) < verbena_measure::compare::LEAST_LAUNCHES {
        warnings.push(Warning::FewLaunches {
            launches: launches as usize,
        });
    }
    warnings
}

/// Describes the clock for the record.
pub fn clock(clock: &Clock) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("clock".to_owned(), clock.name().to_owned()),
        (
            "clock tick (ns)".to_owned(),
            format!("{:.6}", clock.nanos_per_tick),
        ),
        (
            "clock overhead (ns)".to_owned(),
            format!("{:.1}", clock.overhead_nanos),
        ),
        (
            "clock resolution (ns)".to_owned(),
            format!("{:.1}", clock.resolution_nanos),
        ),
    ])
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|t| !t.is_empty())
}

fn processor(key: &str) -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':')
        .map(|(_, value)| value.trim().to_owned())
}

fn is_virtual() -> bool {
    processor("flags").is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor"))
}

fn governor() -> Option<String> {
    read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
}

fn memory() -> Option<String> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemTotal"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(verbena_measure::unit::size(kilobytes * 1024.0))
}
