"""Benchmarks and evaluations, as run by `verbena bench` and `verbena evaluate`."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Union

from .command import Ended, PathLike, Words, joined, options, verbena
from .errors import CommandError
from .results import RESULTS, Results, load, temporary


def bench(*names: Union[str, Iterable[str]], on: Optional[Words] = None, quick: bool = False, label: Optional[str] = None,
          launches: Optional[int] = None, minutes: Optional[float] = None, sizes: Optional[Words] = None,
          pairs: Optional[Words] = None, processes: Optional[int] = None, transports: Optional[Words] = None,
          settings: Optional[Mapping[str, object]] = None, profiles: Optional[Words] = None, more: Iterable[str] = (),
          out: Optional[PathLike] = None) -> Results:
    """Runs benchmarks by name, or by prefix (`latency.`), and returns the results.

        verbena.bench("latency.write", sizes=[8, "4K"], on=["software", "model:connectx6-hdr"], quick=True)

    The parameters are the options of `verbena bench`; `settings` are those of `--set`, and `more` contains further options as
    words. Without `out` the results are in a temporary directory, which exists as long as the object. Prints nothing.

    Raises a CommandError if a command fails; its `results` are those up to the failure.
    """
    wanted = [name for each in names for name in ([each] if isinstance(each, str) else each)]
    given = _options(on, quick, label, launches, minutes, sizes, pairs, processes, transports, settings, profiles, more)
    if out is not None:
        return _measured(["bench", *given], wanted, Path(out))
    directory = Path(tempfile.mkdtemp(prefix="verbena-bench-"))
    try:
        return temporary(_measured(["bench", *given], wanted, directory), directory)
    except CommandError as error:
        if error.results is None:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            temporary(error.results, directory)
        raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def evaluate(*, on: Optional[Words] = None, quick: bool = False, label: Optional[str] = None, launches: Optional[int] = None,
             minutes: Optional[float] = None, sizes: Optional[Words] = None, pairs: Optional[Words] = None,
             processes: Optional[int] = None, transports: Optional[Words] = None, beside: Optional[Words] = None,
             with_: Optional[Words] = None, settings: Optional[Mapping[str, object]] = None, profiles: Optional[Words] = None,
             more: Iterable[str] = (), out: Optional[PathLike] = None) -> Results:
    """Runs all benchmarks, compares them with models, and writes one report, `report` of the results.

    The parameters are the options of `verbena evaluate`, as for `bench`; `with_` is `--with`. Without `out` the directory is
    out/evaluate-SECONDS, as on the command line.

    Raises a CommandError if the command fails; its `results` are those up to the failure.
    """
    given = _options(on, quick, label, launches, minutes, sizes, pairs, processes, transports, settings, profiles, more)
    given += options(**{"beside": joined(beside), "with": joined(with_)})
    return _measured(["evaluate", *given], [], Path("out", f"evaluate-{int(time.time())}") if out is None else Path(out))


def _options(on: Optional[Words], quick: bool, label: Optional[str], launches: Optional[int], minutes: Optional[float],
             sizes: Optional[Words], pairs: Optional[Words], processes: Optional[int], transports: Optional[Words],
             settings: Optional[Mapping[str, object]], profiles: Optional[Words], more: Iterable[str]) -> list[str]:
    """Returns the options that both commands have."""
    words: dict[str, Any] = {"on": on, "quick": quick, "label": label, "launches": launches, "minutes": minutes,
                             "sizes": joined(sizes), "pairs": joined(pairs), "processes": processes,
                             "transports": joined(transports), "set": settings, "profiles": profiles}
    return [*options(**words), *more]


def _measured(command: list[str], names: list[str], out: Path) -> Results:
    """Measures into a directory, and reads the results."""
    ended = verbena(*command, "--out", out, *(["--", *names] if names else []))
    if ended.returncode:
        raise CommandError(ended.command, ended.returncode, ended.stderr, _kept(ended, out))
    results = load(out)
    results.messages = ended.stderr
    return results


def _kept(ended: Ended, out: Path) -> Optional[Results]:
    """Returns the results of a failed command, but not earlier results in the directory, which may be the cause of the failure."""
    if ended.returncode not in (1, 124, 130, 143) or not any(out.glob(f"**/{RESULTS}")):
        return None
    return load(out)
