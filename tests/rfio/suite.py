"""The file service: copies, resuming, faults, and attempts to break in, over TCP and by RDMA on the software
adapter."""

from __future__ import annotations

from functools import partial
from typing import Iterator

from harness import tiers
from harness.case import Case

from . import (across, addresses, administration, attacks, byte_names, certificates, choices, copies, distance,
               encrypted, exhaustion, fabric_attacks, faults, forks, freshness, hostile, installed, kinds, libraries,
               messages, mirrored, operations, order, power_cuts, promises, python_package, reading_on, reconnecting, replaced,
               resuming, rights, scan, site_day, storage, tickets, tokens, traps, versions)
from .service import FABRICS, PATHS

TITLE = "remote files over TCP and RDMA"
REQUIRES: list = []
# By night the attacks come from another host, too.
WHOLE = tiers.by_night()


def cases() -> Iterator[Case]:
    """Every test with every transport."""
    for fabric in FABRICS:
        for name, size in copies.SIZES.items():
            yield Case(f"both ways, {name} bytes", fabric, partial(both_ways, fabric=fabric, size=size))
        for name, function in {
                "pipes": copies.pipes, "trees": copies.trees, "names and exit codes": copies.names,
                "summary": copies.summary, "a damaged part": resuming.a_damaged_part,
                "disk full": faults.disk_full, "slow readers": faults.slow_readers,
                "server restarted": faults.server_restarted, "two writers": faults.two_writers,
                "restarts during copies of a file": reconnecting.files, "restarts during copies of a tree": reconnecting.trees}.items():
            yield Case(name, fabric, partial(function, fabric=fabric))
        for how in ("truncated", "replaced"):
            yield Case(f"{how} while read", fabric,
                       partial(faults.changed_while_read, fabric=fabric, how=how))
        for direction in ("download", "upload"):
            for victim in ("tool", "daemon"):
                yield Case(f"{direction} with the {victim} killed, continued", fabric,
                           partial(resuming.ended_and_continued, fabric=fabric,
                                   direction=direction, victim=victim))
        for library in ("rfio", "shift"):
            yield Case(f"C program with lib{library}", fabric,
                       partial(libraries.c_program, fabric=fabric, library=library))
        yield Case("C program beyond the classic interface", fabric,
                   partial(libraries.c_program, fabric=fabric, library="rfio", source="beyond"))
        yield Case("C program with requests under way", fabric,
                   partial(libraries.c_program, fabric=fabric, library="rfio", source="requests"))
        yield Case("C calls against a mirror", fabric, partial(mirrored.reads_and_writes, fabric=fabric))
        yield Case("C program with many files", fabric, partial(libraries.many_files, fabric=fabric))
        for needs in ("fsspec", "pandas", "zarr", "uproot", "h5py", "dask"):
            yield Case(f"Python: {needs}", fabric, partial(python_package.under, fabric=fabric, needs=needs))
        for name, needs in python_package.PROMISES.items():
            if name in python_package.SUITES and fabric != "tcp":
                continue
            yield Case(f"Python: {name.replace('_', ' ')}", fabric,
                       partial(python_package.promise, fabric=fabric, name=name, needs=needs))
        yield Case("Python: the compiled module", fabric, partial(python_package.module, fabric=fabric))
        yield Case("Python: server restarted", fabric, partial(python_package.restarted, fabric=fabric))
        yield Case("Python: server restarted again and again", fabric, partial(python_package.interrupted, fabric=fabric))
        yield Case("Python: coroutines", fabric, partial(python_package.asynchronous, fabric=fabric))
        yield Case("READAHEAD and STREAM over restarts", fabric, partial(reading_on.over_restarts, fabric=fabric))
        yield Case("writes through a mapping", fabric, partial(freshness.mapped_writes, fabric=fabric))
        yield Case("growing files", fabric, partial(freshness.growing_files, fabric=fabric))
        yield Case("cold files by io_uring and by threads", fabric, partial(storage.both_ways, fabric=fabric))
        yield Case("a long scan", fabric, partial(scan.hot_files_stay, fabric=fabric))
        yield Case("readers after a fork", fabric, partial(forks.readers_after_a_fork, fabric=fabric))
        yield Case("the path is said", fabric, partial(promises.said_path, fabric=fabric))
    for direction in ("download", "upload"):
        for kind in ("file", "tree"):
            yield Case(f"power cut after a {kind} with --sync", direction,
                       partial(promises.power_cut, direction=direction, kind=kind))
        for name, function in {
                "what is there stays": choices.existing_files_stay, "a rate": choices.a_rate, "rules, against rsync": choices.rules,
                "torn small files": promises.torn_small_files, "kept attributes": promises.kept_attributes,
                "continued trees": promises.continued_trees,
                "begun trees": resuming.begun_trees, "special files": kinds.special_files,
                "bits and times of every kind": kinds.bits_and_times}.items():
            yield Case(name, direction, partial(function, direction=direction))
        for fault in power_cuts.FAULTS:
            for fabric in FABRICS:
                yield Case(f"misfortune and a power cut: {fault}", f"{direction}, {fabric}",
                           partial(power_cuts.survived, fabric=fabric, direction=direction, fault=fault))
    yield Case("times of whole seconds", "copy", freshness.whole_second_times)
    yield Case("READAHEAD and STREAM at 40 ms", "library", distance.read_options)
    for direction in ("download", "upload"):
        yield Case("a tree at 40 ms", f"copy, {direction}", partial(distance.trees, direction=direction))
        yield Case("a tree over connections that are cut", f"copy, {direction}",
                   partial(distance.trees, direction=direction, is_cut=True))
        yield Case("files over connections that carry little", f"copy, {direction}", partial(distance.short_lives, direction=direction))
    yield Case("READAHEAD that does not go on", "library", reading_on.in_vain)
    yield Case("order of replies", "protocol", order.of_replies)
    yield Case("requests taken back", "protocol", order.of_cancels)
    yield Case("secrets reloaded", "server", faults.reloaded)
    yield Case("between services", "copy", promises.between_services)
    yield Case("a lost server", "copy", promises.lost_server)
    for name, function in {
            "mistakes": messages.mistakes, "credentials": messages.credentials, "no RDMA device": messages.no_device}.items():
        yield Case(name, "messages", function)
    yield Case("a wrong secret is one failure", "copy", reconnecting.one_failure)
    yield Case("what is not tried again", "copy", reconnecting.in_vain)
    yield Case("a directory into itself", "copy", kinds.into_itself)
    yield Case("names that are not UTF-8", "copy", byte_names.everywhere)
    yield Case("names that are not UTF-8", "server", byte_names.exported)
    yield Case("links that become directories", "trap", traps.links_that_become_directories)
    yield Case("names listed twice", "trap", traps.names_listed_twice)
    # The same daemon and adapter or not, silence is silence; with the adapter there is more to lose.
    yield Case("10,000 half-open connections", "verbs", partial(faults.half_open, fabric="verbs"))
    for path in PATHS:
        yield Case("both ways, 1 MiB + 1 bytes", path, partial(both_ways, fabric=path, size=copies.SIZES["1 MiB + 1"]))
        yield Case("trees", path, partial(copies.trees, fabric=path))
        yield Case("C program with librfio", path, partial(libraries.c_program, fabric=path, library="rfio"))
    yield Case("exported symbols", "library", libraries.symbols)
    yield Case("make install", "library", installed.everything)
    yield Case("Python: types", "library", python_package.types)
    for name, function in {
            "asserted identity": attacks.asserted_identity,
            "nothing before the proof": attacks.nothing_before_the_proof,
            "commands": attacks.commands, "outside the root": attacks.outside_the_root,
            "sizes and counts": attacks.sizes, "stolen handles": attacks.stolen_handles,
            "tampering": attacks.tampering, "supplementary groups": attacks.groups,
            "a process per connection": attacks.no_process_per_connection,
            "silence": attacks.silence, "TLS": encrypted.tls, "read-only strangers": attacks.read_only,
            "tokens": fabric_attacks.tokens, "bad keys": fabric_attacks.bad_keys,
            "the server's memory": fabric_attacks.server_memory,
            "a late server": fabric_attacks.late_server}.items():
        yield Case(name, "attack", function)
    for name, function in {
            "replies that nobody takes": exhaustion.unread_replies,
            "waiting writes": exhaustion.waiting_writes, "unfinished writes": exhaustion.unfinished_writes, "open files": exhaustion.open_files,
            "long bodies and names": exhaustion.long_bodies, "swapped links": exhaustion.swapped_links,
            "half a handshake": exhaustion.half_a_handshake,
            "checksums of nothing": exhaustion.checksums_of_nothing,
            "bodies that do not come": exhaustion.missing_bodies, "idle strangers": exhaustion.idle_clients,
            "a vanished writer": exhaustion.vanished_writer, "idle scrapers": exhaustion.idle_scrapers,
            "FIFOs": exhaustion.fifos_and_devices}.items():
        yield Case(name, "resource exhaustion", function)
    for name, function in hostile.CASES.items():
        yield Case(name, "hostile server", function)
    if WHOLE:
        for kind in ("attack", "resource exhaustion"):
            yield Case(f"{kind} from another host", "two hosts", partial(across.attacks, kind=kind))
    for name, function in addresses.CASES.items():
        yield Case(f"limits by address: {name}", "server", function)
    for name, function in certificates.CASES.items():
        yield Case(f"certificates: {name}", "server", function)
    for name, function in replaced.CASES.items():
        yield Case(f"an export: {name}", "server", function)
    for name, function in rights.CASES.items():
        yield Case(f"rights: {name}", "server", function)
    for name, function in administration.CASES.items():
        yield Case(f"administration: {name}", "server", function)
    for name, function in tickets.CASES.items():
        yield Case(name, "ticket", function)
    for fabric in FABRICS:
        yield Case("accounting", fabric, partial(operations.accounting, fabric=fabric))
    for name, function in operations.CASES.items():
        yield Case(name, "operations", function)
    yield Case("a day of a site", "operations", site_day.whole)
    for (name, column), function in versions.CASES.items():
        yield Case(name, column, function)
    for name, function in tokens.CASES.items():
        yield Case(f"tokens: {name}", "server", function)


def both_ways(place, fabric, size):
    """The arguments in the order that `Case` leaves free."""
    return copies.both_ways(place, fabric, size)
