//! The recorder's source in C. Each MPI library needs its own build, because their ABIs differ; the
//! user's own `mpicc` compiles it.

/// The files by name.
pub const SOURCES: [(&str, &str); 17] = [
    ("calls.h", include_str!("../recorder/calls.h")),
    ("recorder.h", include_str!("../recorder/recorder.h")),
    ("verbena.h", include_str!("../recorder/verbena.h")),
    ("call.c", include_str!("../recorder/call.c")),
    ("collectives.c", include_str!("../recorder/collectives.c")),
    (
        "communicator_calls.c",
        include_str!("../recorder/communicator_calls.c"),
    ),
    (
        "communicators.c",
        include_str!("../recorder/communicators.c"),
    ),
    ("completion.c", include_str!("../recorder/completion.c")),
    ("names.c", include_str!("../recorder/names.c")),
    ("neighbors.c", include_str!("../recorder/neighbors.c")),
    ("one_sided.c", include_str!("../recorder/one_sided.c")),
    ("output.c", include_str!("../recorder/output.c")),
    (
        "point_to_point.c",
        include_str!("../recorder/point_to_point.c"),
    ),
    ("requests.c", include_str!("../recorder/requests.c")),
    ("pinning.c", include_str!("../recorder/pinning.c")),
    ("session.c", include_str!("../recorder/session.c")),
    ("stopwatch.c", include_str!("../recorder/stopwatch.c")),
];

/// Compiler flags, in addition to the files and the output path.
pub const FLAGS: [&str; 6] = [
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-w",
];

/// Environment variable with a comma-separated list of processors, to one of which each rank is
/// pinned.
pub const CPUS: &str = "VERBENA_SEATS";

/// Environment variable with the directory for the recording.
pub const DIRECTORY: &str = "VERBENA_RECORD";
