//! Recognises unsupported trace formats, to name the remedy.

use std::fs;
use std::path::Path;

const RETRACE: &str = "trace the program with Score-P or with SimGrid's smpirun -trace-ti";

/// An unsupported format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    /// The format, with its article.
    pub name: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

const DUMPI: Unsupported = Unsupported {
    name: "the text of a DUMPI trace",
    remedy: "import the binary files from which dumpi2ascii printed it",
};
const CHAKRA: Unsupported = Unsupported {
    name: "a trace of PyTorch for Chakra",
    remedy: "convert it with Chakra's tools (chakra_trace_link, chakra_converter PyTorch) to \
             NAME.RANK.et files",
};
const MSCCL: Unsupported = Unsupported {
    name: "an algorithm of MSCCL",
    remedy: "replay it without import: verbena replay FILE --bytes SIZE --on model:PROFILE",
};
const PAJE: Unsupported = Unsupported {
    name: "a Paje trace",
    remedy: "if SimGrid wrote it, run smpirun with -trace-ti instead of -trace",
};
const PROFILE: Unsupported = Unsupported {
    name: "a profile, which has no order of calls",
    remedy: "trace the program: SCOREP_ENABLE_TRACING=true",
};
const TAU: Unsupported = Unsupported {
    name: "a TAU trace",
    remedy: "convert it with tau2otf2, or trace with TAU_TRACE_FORMAT=otf2",
};
const EXTRAE: Unsupported = Unsupported {
    name: "a Paraver trace of Extrae",
    remedy: RETRACE,
};

const DARSHAN: Unsupported = Unsupported {
    name: "a Darshan log, which has a program's file accesses but not its messages",
    remedy: RETRACE,
};

/// Returns the format of a file by its name and beginning, or of a directory by its files' names;
/// `None` if it is unknown.
pub fn recognise(path: &Path, head: &[u8]) -> Option<Unsupported> {
    if path.is_dir() {
        let entries = fs::read_dir(path).ok()?.flatten().take(1000);
        return entries.filter_map(|entry| by_name(&entry.path())).next();
    }
    by_name(path).or_else(|| by_content(&String::from_utf8_lossy(head)))
}

fn by_name(path: &Path) -> Option<Unsupported> {
    let name = path.file_name()?.to_str()?;
    let (_, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    match extension {
        "cubex" => Some(PROFILE),
        "prv" | "pcf" => Some(EXTRAE),
        "darshan" => Some(DARSHAN),
        "edf" | "trc" => Some(TAU),
        _ => None,
    }
}

fn by_content(head: &str) -> Option<Unsupported> {
    let has = |text: &str| head.contains(text);
    if has(" entering at walltime ") {
        Some(DUMPI)
    } else if has("<algo") {
        Some(MSCCL)
    } else if has("%EventDef") {
        Some(PAJE)
    } else if head.starts_with("#Paraver") {
        Some(EXTRAE)
    } else if head.trim_start().starts_with('{') && has("\"schema\"") && has("hakra") {
        Some(CHAKRA)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_name_or_content() {
        for (name, head, format) in [
            (
                "text",
                "MPI_Init entering at walltime 1.5, cputime 0.1",
                Some(DUMPI),
            ),
            (
                "trace.json",
                "{\"schema\": \"1.1.1-chakra.0.0.4\", ",
                Some(CHAKRA),
            ),
            (
                "ring.xml",
                "<algo name=\"ring\" nchannels=\"1\">",
                Some(MSCCL),
            ),
            (
                "smpi.trace",
                "%EventDef PajeDefineContainerType 0",
                Some(PAJE),
            ),
            ("profile.cubex", "", Some(PROFILE)),
            ("tautrace.0.0.0.trc", "", Some(TAU)),
            ("app.prv", "#Paraver (01/01/26 at 12:00):", Some(EXTRAE)),
            ("app_id1_1-1-1.darshan", "3.10", Some(DARSHAN)),
            ("noise.bin", "\0\u{1}", None),
        ] {
            assert_eq!(
                recognise(Path::new(name), head.as_bytes()),
                format,
                "{name}"
            );
        }
    }
}
