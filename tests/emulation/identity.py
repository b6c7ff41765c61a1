"""The device that a program sees with `verbena run --as`: name, identifiers and limits of the emulated adapter, in verbs and
in sysfs, and programs that choose their ways by them."""

from __future__ import annotations

import re
import shutil

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, exchange, free_port
from harness.place import Place

SECONDS = 120
# System, device, vendor_part_id, hw_ver, limits.
DEVICES = (
    ("infinihost-pcix", "mthca0", 23108, 0xa1, {"max_qp": 64512, "max_cqe": 131071, "max_srq": 960, "max_qp_rd_atom": 4}),
    ("infinihost3-ddr", "mthca0", 25218, 0x20, {"max_qp": 64512, "max_mr": 131056, "max_pd": 32768, "max_qp_rd_atom": 4}),
    ("connectx-ddr", "mlx4_0", 25418, 0xa0, {"max_qp": 131008, "max_qp_wr": 16351, "max_mr": 131056, "max_qp_rd_atom": 16}),
    ("connectx3-fdr", "mlx4_0", 4099, 0x1, {"max_qp_wr": 16351, "max_sge": 32, "max_mr": 524032, "max_srq_wr": 16383}),
    ("connectx5-edr", "mlx5_0", 4119, 0x0, {"max_qp_wr": 32768, "max_sge": 30, "max_cqe": 4194303, "max_qp_rd_atom": 16}),
    ("connectx7-ndr", "mlx5_0", 4129, 0x0, {"max_sge": 30, "max_srq_wr": 32767}),
)
# Limits of the software adapter, which are below the emulated adapter's.
OWN = {"max_qp": 131072, "max_cq": 131072}


def cases() -> list[Case]:
    """Attributes, limits, other names, several devices, programs."""
    return [
        Case("devices have the adapter's name, identifiers and limits", "", devices),
        Case("limits of the adapter are kept", "", limits),
        Case("the software adapter's name is no device", "", other_name),
        Case("several devices", "", several),
        Case("other files of /dev and /sys", "", other_files),
        Case("perftest sends inline on the adapters that it knows", "", inline),
        Case("programs and libraries that know the vendor", "", libraries),
    ]


def emulated(system: str, *command: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command line that runs `command` as a system."""
    return [str(VERBENA), "run", "--as", system, *options, "--", *map(str, command)]


def devices(place: Place) -> Outcome:
    """ibv_devinfo and sysfs, for each driver."""
    for system, device, part, version, limits_of in DEVICES:
        directory = f"/sys/class/infiniband/{device}/device"
        script = f"ibv_devinfo -v -d {device}; ls /sys/class/infiniband; cat {directory}/vendor {directory}/device"
        ended = place.run(device, emulated(system, "sh", "-c", script), SECONDS)
        text = re.sub(r":\s+", ": ", ended.output)
        wanted = [f"hca_id: {device}\n", "vendor_id: 0x02c9", f"vendor_part_id: {part}\n", f"hw_ver: 0x{version:X}",
                  *(f"{name}: {value}\n" for name, value in limits_of.items()), f"\n{device}\n0x15b3\n0x{part:04x}"]
        if system.startswith("connectx5"):
            wanted += [f"{name}: {value}\n" for name, value in OWN.items()]
        missing = [one for one in wanted if one not in text]
        if not ended.succeeded or missing:
            return failed(f"{system}: {missing}", ended.evidence())
    return passed(f"{len(DEVICES)} systems")


def limits(place: Place) -> Outcome:
    """A queue pair has no more requests than the adapter's; a rule lowers a limit further."""
    ended = place.run("depth", emulated("connectx-qdr", "ibv_rc_pingpong", "-r", 16352), SECONDS)
    if ended.succeeded or "Couldn't create QP" not in ended.output:
        return failed("16352 requests", ended.evidence())
    done = pair(place, "connectx-qdr", "ibv_rc_pingpong", "-r", 16351, "-n", 100)
    if not done.server.succeeded or not done.client or not done.client.succeeded:
        return failed("16351 requests", done.evidence())
    script = "ibv_devinfo -v | grep -w max_sge"
    ended = place.run("rule", emulated("connectx5-edr", "sh", "-c", script, options=("--fault", "adapter: max_sge 7")), SECONDS)
    if not ended.succeeded or not re.search(r"max_sge:\s+7\b", ended.output):
        return failed("a rule", ended.evidence())
    return passed()


def other_name(place: Place) -> Outcome:
    """Neither verbs nor sysfs know the name without `--as`."""
    for command in ("ibv_devinfo -d verbena0", "cat /sys/class/infiniband/verbena0/node_type"):
        ended = place.run("name", emulated("connectx5-edr", "sh", "-c", command), SECONDS)
        if ended.succeeded:
            return failed(command, ended.evidence())
    ended = place.run("name", [str(VERBENA), "run", "--", "ibv_devinfo", "-d", "mlx5_0"], SECONDS)
    return failed("mlx5_0 without --as", ended.evidence()) if ended.succeeded else passed()


def several(place: Place) -> Outcome:
    """Each device has its number behind the name."""
    ended = place.run("two", emulated("connectx5-edr", "sh", "-c", "ibv_devices; ls /sys/class/infiniband", options=("--devices", "2")), SECONDS)
    if not ended.succeeded or ended.output.count("mlx5_0") != 2 or ended.output.count("mlx5_1") != 2:
        return failed("two devices", ended.evidence())
    return passed()


def other_files(place: Place) -> Outcome:
    """Programs that use other files there end, with a temporary directory below /dev, too, and are not in the report."""
    temporary = place.runtime / "temporary"
    temporary.mkdir()
    script = ("for i in 1 2 3; do cat /dev/null /sys/class/net/lo/ifindex; done; ls /sys/class/infiniband; "
              "ibv_devinfo -d mlx5_0; echo; echo reports $(ls $VERBENA_AS | grep -c lateness)")
    ended = place.run("files", emulated("connectx5-edr", "sh", "-c", script), SECONDS, TMPDIR=str(temporary))
    shutil.rmtree(temporary)
    if not ended.succeeded or not str(place.runtime).startswith("/dev/"):
        return failed(f"{ended.describe()}, {temporary}", ended.evidence())
    if "mlx5_0\n" not in ended.output or "reports 1\n" not in ended.output:
        return failed("not one report", ended.evidence())
    return passed()


def pair(place: Place, system: str, *command: object) -> Exchange:
    """A server and its client on a system."""
    place.run("table", emulated(system, "true"), SECONDS)
    number = free_port()
    words = [*command, "-p", number]
    return exchange(place, emulated(system, *words), emulated(system, *words, "localhost"), number, SECONDS)


def inline(place: Place) -> Outcome:
    """By the part number: 220 bytes on ConnectX, none on InfiniHost."""
    for system, device, expected in (("connectx-ddr", "mlx4_0", 220), ("connectx6-hdr", "mlx5_0", 220), ("infinihost3-ddr", "mthca0", 0)):
        done = pair(place, system, "ib_write_lat", "-d", device, "-F", "-s", 8, "-n", 200)
        if not done.server.succeeded or not done.client or not done.client.succeeded:
            return failed(f"ib_write_lat on {system}", done.evidence())
        if not re.search(rf"Max inline data : {expected}\[B\]", done.client.output):
            return failed(f"inline on {system}", done.evidence())
    return passed()


def libraries(place: Place) -> Outcome:
    """UCX, which has settings for the vendor's parts, and libmlx5, which does not take the device for its own."""
    ended = place.run("ucx", emulated("connectx5-edr", "ucx_info", "-d"), SECONDS)
    devices_of = re.findall(r"Transport: (\w+)\n#\s+Device: mlx5_0:1", ended.output)
    if not ended.succeeded or devices_of != ["rc_verbs", "ud_verbs"] or "ERROR" in ended.output:
        return failed(f"UCX: {devices_of}", ended.evidence())
    done = pair(place, "connectx5-edr", "ib_write_lat", "-d", "mlx5_0", "-F", "-c", "DC", "-n", 200)
    if done.client and done.client.succeeded:
        return failed("a transport of libmlx5", done.evidence())
    return passed()
