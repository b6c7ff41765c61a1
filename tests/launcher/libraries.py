"""One adapter, whichever name asks for it: libraries called libibverbs that come first in the search, and programs that
bring their own runtime."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Mapping, Sequence

from harness.build_tree import DEVICE, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

HERE = Path(__file__).resolve().parent / "programs"
SECONDS = 60
# The name that auditwheel(1) gives to a library in a wheel.
PRIVATE = "libibverbs-1f2e3d4c.so.1.14.44.0"
NODE = "IBVERBS_1.1 { global: ibv_*; local: *; };\n"
SYSTEMS = [Path(folder, "libibverbs.so.1") for folder in
           ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")]


def cases() -> list[Case]:
    """Each way in which another library takes precedence, and each runtime."""
    found = [Case(name, "", partial(finds, way)) for name, way in WAYS.items()]
    found += [Case(f"a program under {name}", "", partial(sanitized, flag))
              for name, flag in (("AddressSanitizer", "address"), ("ThreadSanitizer", "thread"),
                                 ("UndefinedBehaviorSanitizer", "undefined"))]
    return [*found,
            Case("a program under valgrind", "", valgrind),
            Case("AddressSanitizer with options of the user's", "", options_are_kept),
            Case("a tracer that the user preloads", "", traced),
            *(Case(f"a library out of reach by {way}", "", partial(out_of_reach, way)) for way in ("deepbind", "dlmopen")),
            Case("a program that is linked statically", "", static),
            Case("a plug-in finds what lies beside it", "", plugin)]


def compiled(place: Place, source: str, name: str, *flags: object) -> Path:
    """Compiles a source file; creates the folder of the name, if it has one."""
    made = place.directory / name
    made.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-Wall", "-o", made, HERE / source, *map(str, flags)], check=True, capture_output=True)
    return made


def foreign(place: Place, name: str) -> Path:
    """A library of another maker, with the version node of the names."""
    script = place.directory / "node.map"
    script.write_text(NODE)
    return compiled(place, "foreign.c", name, "-shared", "-fPIC", f"-Wl,-soname,{Path(name).name}",
                    f"-Wl,--version-script={script}")


def linked(place: Place, library: Path, *flags: object) -> list[object]:
    """The program, which finds a library of another maker by an RPATH of the old kind."""
    return [compiled(place, "devices.c", "devices", *flags, library, "-Wl,--disable-new-dtags",
                     f"-Wl,-rpath,{library.parent}")]


def wheel(place: Place) -> tuple[list[object], Mapping[str, str]]:
    return linked(place, foreign(place, f"wheel/{PRIVATE}")), {}


def old_rpath(place: Place) -> tuple[list[object], Mapping[str, str]]:
    return linked(place, foreign(place, "old/libibverbs.so.1")), {}


def in_front(place: Place) -> tuple[list[object], Mapping[str, str]]:
    library = foreign(place, "front/libibverbs.so.1")
    program = compiled(place, "devices.c", "devices", "-libverbs")
    return ["sh", "-c", f'LD_LIBRARY_PATH={library.parent}:$LD_LIBRARY_PATH exec "$0"', program], {}


def by_path(place: Place) -> tuple[list[object], Mapping[str, str]]:
    program = compiled(place, "devices.c", "devices", "-libverbs")
    return [program, "dlopen", foreign(place, "path/libibverbs.so.1")], {}


def by_private_name(place: Place) -> tuple[list[object], Mapping[str, str]]:
    program = compiled(place, "devices.c", "devices", "-libverbs")
    library = foreign(place, f"wheel/{PRIVATE}")
    return [program, "dlopen", library.name], {"LD_LIBRARY_PATH": str(library.parent)}


def of_the_system(place: Place) -> tuple[list[object], Mapping[str, str]]:
    program = compiled(place, "devices.c", "devices", "-libverbs")
    return [program, "dlopen", next(path for path in SYSTEMS if path.exists())], {}


WAYS = {
    "a wheel's own copy": wheel,
    "an RPATH of the old kind": old_rpath,
    "LD_LIBRARY_PATH put in front": in_front,
    "dlopen by an absolute path": by_path,
    "dlopen by a private name": by_private_name,
    "dlopen of the system's path": of_the_system,
}


def finds(way, place: Place) -> Outcome:
    """The program sees the adapter, and none of the other library's devices."""
    command, environment = way(place)
    return lists(place, command, environment)


def lists(place: Place, command: Sequence[object], environment: Mapping[str, str] = {}, words: str = "") -> Outcome:
    """The command lists the adapter, and prints the words."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    ended = place.run("run", ["env", *settings, *run(*command)], SECONDS)
    if ended.succeeded and f"device {DEVICE}" in ended.output and words in ended.output:
        return passed()
    return failed(f"{DEVICE} is not listed, or {words!r} not said", ended.evidence())


def sanitized(kind: str, place: Place) -> Outcome:
    """A program whose sanitizer is a shared library, as gcc makes it."""
    try:
        program = compiled(place, "devices.c", "devices", f"-fsanitize={kind}", "-g", "-libverbs")
    except subprocess.CalledProcessError:
        return skipped(f"no compiler with -fsanitize={kind}")
    return lists(place, [program])


def options_are_kept(place: Place) -> Outcome:
    """The user's options of a sanitizer are kept, with ours beside them."""
    program = compiled(place, "devices.c", "devices", "-fsanitize=address", "-g", "-libverbs")
    return lists(place, [program], {"ASAN_OPTIONS": "verbosity=1"}, "AddressSanitizer")


def valgrind(place: Place) -> Outcome:
    """No error is reported that the program does not have."""
    if subprocess.run(["sh", "-c", "command -v valgrind"], check=False, capture_output=True).returncode != 0:
        return skipped("valgrind is not installed")
    program = compiled(place, "devices.c", "devices", "-libverbs")
    return lists(place, ["valgrind", "-q", "--error-exitcode=9", program])


def traced(place: Place) -> Outcome:
    """Another preloaded object has the call first."""
    tracer = compiled(place, "tracer.c", "tracer.so", "-shared", "-fPIC")
    program = compiled(place, "devices.c", "devices", "-libverbs")
    return lists(place, [program], {"LD_PRELOAD": str(tracer)}, "traced")


def plugin(place: Place) -> Outcome:
    """The linker searches on behalf of the plug-in that calls dlopen, not of the preloaded library."""
    library = foreign(place, f"plugin/{PRIVATE}")
    compiled(place, "foreign.c", "plugin/libbeside-of-plugin.so", "-shared", "-fPIC")
    made = compiled(place, "plugin.c", "plugin/plugin.so", "-shared", "-fPIC", library, "-Wl,-rpath,$ORIGIN")
    program = compiled(place, "devices.c", "devices", "-libverbs", "-rdynamic")
    return lists(place, [program, "plugin", made])


def out_of_reach(way: str, place: Place) -> Outcome:
    """A library that the adapter cannot replace is named, once; and only then."""
    library = foreign(place, f"plugin/{PRIVATE}")
    compiled(place, "foreign.c", "plugin/libbeside-of-plugin.so", "-shared", "-fPIC")
    with_verbs = compiled(place, "plugin.c", "plugin/plugin.so", "-shared", "-fPIC", library, "-Wl,-rpath,$ORIGIN")
    without = place.directory / "plugin/libbeside-of-plugin.so"
    program = compiled(place, "out_of_reach.c", "out_of_reach")
    warning = f"verbena: {library.resolve()} was loaded by RTLD_DEEPBIND or dlmopen"
    for how, opened, times in ((way, with_verbs, 1), (way, without, 0), ("plain", with_verbs, 0)):
        ended = place.run("run", run(program, how, opened), SECONDS)
        if not ended.succeeded or ended.output.count(warning) != times or ended.output.count("did not reach") != times:
            return failed(f"{how} of {opened.name}: not named {times} times", ended.evidence())
    return passed()


def static(place: Place) -> Outcome:
    """The launcher says that it cannot reach it, and starts it."""
    source = place.directory / "empty.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("started"); return 0; }\n')
    for flag in ("-static", "-static-pie"):
        program = place.directory / f"program{flag}"
        subprocess.run(["cc", flag, "-o", program, source], check=True, capture_output=True)
        ended = place.run("run", run(program), SECONDS)
        if not ended.succeeded or f"verbena: {program} will not use the adapter: it is linked statically" not in ended.output:
            return failed(f"{flag}: no message", ended.evidence())
        if "started" not in ended.output:
            return failed(f"{flag}: not started", ended.evidence())
    return passed()
