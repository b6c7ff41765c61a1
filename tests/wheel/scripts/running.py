"""`verbena.run`: a program's output, the adapter's refusals and counters, and every way in which it can fail. Needs no
package."""

import os
import subprocess
import sys
import time
from pathlib import Path

import verbena
from refused import refused

# Writes to itself, and asks for a GID of a port that there is not, in a child.
PROGRAM, REFUSED = sys.argv[1], """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_query_gid.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int, ctypes.c_void_p]
device = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
raise SystemExit(7 if verbs.ibv_query_gid(device, 71, 0, ctypes.create_string_buffer(16)) else 0)
"""


listed = verbena.run("ibv_devices")
assert listed.returncode == 0 and "verbena0" in listed.output == listed.stdout and listed.refusals == [], listed
two = verbena.run(["ibv_devices"], devices=2)
assert "verbena1" in two.output, two
written = verbena.run(Path(PROGRAM), "writes_while_asleep", path="ring")
assert written.returncode == 0 and written.counters["write_operations"] > 0 and written.processes[0]["pid"] > 0, written.counters

asked = verbena.run("sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", REFUSED)
assert asked.returncode == 7 and len(asked.refusals) == 1 and "port is 71," in asked.refusals[0], asked
error = refused(lambda: verbena.run(sys.executable, "-c", REFUSED, check=True), "port is 71,", "exit code 7", code=7)
assert error.command[0] == sys.executable and error.results is None
mine = verbena.run(sys.executable, "-c", REFUSED, env={**os.environ, "VERBENA_LOG": "info"})
assert mine.refusals is None and "port is 71," in mine.stderr, mine

there = verbena.run("cat", input="été\n", cwd="/")
assert there.output == "été\n" and verbena.run("pwd", cwd=Path("/")).output == "/\n", there
assert verbena.run("sh", "-c", "read line; echo $?").output == "1\n", "a program without input waits for the terminal"
assert verbena.run("printf", r"\377").output == "\ufffd"
assert verbena.run("echo", 4, 0.5).output == "4 0.5\n"
assert verbena.run("sh", "-c", "kill -9 $$").returncode == 137

refused(lambda: verbena.run("verbena-no-such"), "cannot find the command", code=127)
refused(lambda: verbena.run("ibv_devinfo -v"), "verbena.run('ibv_devinfo', '-v')", code=127)
refused(lambda: verbena.run("/etc/passwd"), "cannot execute", code=126)
refused(lambda: verbena.run("true", path="none"), "possible values", code=2)
refused(lambda: verbena.run("true", devices=99), "from 1 to 32", code=2)
assert verbena.run("sh", "-c", "exit 127").returncode == 127

began = time.monotonic()
refused(lambda: verbena.run("sh", "-c", "sleep 99 & wait", timeout=0.5), kind=subprocess.TimeoutExpired)
assert time.monotonic() - began < 30, "a program that is out of time goes on"
print("all of it")
