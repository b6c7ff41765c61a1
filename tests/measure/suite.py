"""The benchmark suite on the software adapter: every benchmark, jobs of MPI launchers, wrong input, lost processes, and
the report as a browser shows it."""

from __future__ import annotations

import signal
from functools import partial

from harness import tiers
from harness.case import Case
from harness.requirement import Tool

from . import (budgets, command_line, comparing, ends, exports, figures, foreign, hostile, interrupts, jobs, models, pages, terminal,
               wrong_input)

# By night also cases with long waits.
WHOLE = tiers.by_night()
TITLE = "verbena bench, evaluate, report, compare, sweep and calibrate"
REQUIRES = [Tool("ib_write_bw", "perftest"), Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpirun.mpich", "mpich"),
            Tool("chromium", "chromium"), Tool("unshare", "util-linux"),
            Tool("ucx_perftest", "ucx-utils"), Tool("NPopenmpi", "netpipe-openmpi"),
            *([Tool("qperf", "qperf")] if WHOLE else [])]


def cases() -> list[Case]:
    """One a benchmark, then the others."""
    found = [Case(name, "bench --quick", partial(figures.one_benchmark, name)) for name in figures.benchmarks()]
    found += [
        Case("job of Open MPI", "", partial(jobs.mpi, jobs.BY_OPEN_MPI)),
        Case("job of Open MPI", "bound to cores", partial(jobs.mpi, [*jobs.BY_OPEN_MPI, "--bind-to", "core:overload-allowed"])),
        Case("job of MPICH", "", partial(jobs.mpi, ["mpirun.mpich"])),
        Case("a job among strangers", "Open MPI", jobs.strangers),
        # The suite waits for a hung process.
        *([Case("a hung process costs a job its own piece", "Open MPI", jobs.hung),
           Case("process 0 of a job hangs", "Open MPI", jobs.hung_first)] if WHOLE else []),
        Case("a job too small for patterns", "Open MPI", jobs.too_small),
        Case("a job begins no launch that would end too late", "Open MPI", jobs.timely),
        Case("figures that once were wrong", "", figures.once_wrong),
        Case("a killed process ends the run", "", ends.killed),
        Case("a process killed at any moment", "", ends.killed_at_any_moment),
        Case("a hung process costs its own result", "", ends.hung),
        Case("an interrupt keeps what is measured", "", ends.interrupted),
        *(Case("an interrupt keeps what an evaluation has", number.name, partial(interrupts.evaluation, number))
          for number in (signal.SIGINT, signal.SIGTERM)),
        Case("an interrupt before the first point", "evaluate", interrupts.nothing_yet),
        Case("an interrupt ends helpers", "file service", interrupts.service),
        Case("an interrupt ends helpers", "Open MPI", partial(interrupts.library, "mpirun.openmpi", "openmpi")),
        Case("an interrupt ends helpers", "MPICH", partial(interrupts.library, "mpirun.mpich", "mpich")),
        Case("a second interrupt ends all at once", "file service", interrupts.twice),
        Case("an interrupt of computations", "reproduce", interrupts.models),
        Case("an interrupt of computations", "sweep", interrupts.study),
        Case("a time limit names what is missing", "bench", budgets.benchmarks),
        Case("a time limit names what is missing", "bench, several models", budgets.several_models),
        Case("a time limit names what is missing", "replay", budgets.replays),
        Case("a time limit names what is missing", "sweep", budgets.studies),
        Case("a time limit that cannot take effect", "", budgets.refused),
        Case("an interrupt names what is missing", "bench", budgets.interrupted),
        Case("a bar on a terminal, nothing in a pipe", "", command_line.bar),
        Case("lines fit a terminal", "80, 120 columns", terminal.fits),
        Case("lines fit a terminal", "COLUMNS", terminal.width_by_variable),
        Case("a run ends with its summary", "80, 120 columns", terminal.summary),
        Case("a run ends with its summary", "compare, replay, reproduce", terminal.ends),
        Case("colour on a terminal only", "", terminal.coloured),
        Case("progress in one line", "reproduce", terminal.progress),
        Case("answers as JSON", "list, bench", command_line.as_json),
        Case("a label, and what was measured", "", command_line.labelled),
        Case("completions and manual", "", command_line.documented),
        Case("a full standard output costs no file", "", ends.full_output),
        Case("results of any magnitude", "", hostile.magnitudes),
        Case("results with names that mean harm", "", hostile.names),
        Case("results of thousands of series", "", hostile.many),
        Case("results cut anywhere", "", hostile.broken),
        Case("results on a full disk", "", hostile.full_disk),
        Case("a report on a full disk", "", hostile.report_stays),
        Case("equal runs compare as equal", "", comparing.compared),
        Case("three outcomes of a comparison", "a model, a table", comparing.three_outcomes),
        Case("perftest's figures are imported as printed", "", partial(foreign.imported, foreign.VARIANTS)),
        *([Case("perftest's figures are imported as printed", "36 variants", partial(foreign.imported, foreign.NIGHTLY))] if WHOLE else []),
        Case("other tools' figures are imported as printed", "ucx_perftest, NetPIPE",
             partial(foreign.others, foreign.UCX + (foreign.UCX_NIGHTLY if WHOLE else []))),
        *([Case("other tools' figures are imported as printed", "qperf", foreign.of_qperf)] if WHOLE else []),
        Case("bandwidths of two meanings", "an older run, perftest", comparing.another_meaning),
        Case("a history tells when", "", comparing.history),
        Case("figures held against an adapter's", "perftest", exports.expected),
        Case("figures for other programs", "CSV, JSON, Markdown, OpenMetrics", exports.exported),
        Case("the report in a browser", "", pages.browser),
        *(Case("a model gives the same bytes", f"any number of threads{words}", partial(models.model_repeats, target))
          for words, target in (("", "model:infinihost3-ddr"), (", by messages", "model:infinihost3-ddr:message"))),
        Case("figure 2 of connectx_multicore", "on models", models.model_figure),
        Case("thousands of ranks, or a clear refusal", "on models", models.many_ranks),
        Case("an operation explained", "on models", models.model_explained),
        Case("a schedule replayed", "on models", models.model_replays),
        Case("models beside a measurement", "evaluate --quick", models.model_beside),
        Case("the published figures", "reproduce, in a browser", models.reproduced),
        Case("a paper's figures give the same bytes", "any number of threads", models.paper_repeats),
        Case("a parameter study", "restart, Slurm array", models.studied),
        Case("a calibration finds what was planted", "on models", models.calibrated),
        Case("a fit to the software adapter finds what was planted", "on models", models.software_fit),
        *([Case("the software adapter, measured and predicted", "fit", models.loop_of_the_adapter)] if WHOLE else []),
    ]
    for row, arguments, words in wrong_input.WRONG:
        found.append(Case(row, "wrong input", partial(wrong_input.wrong, arguments, words)))
    return found
