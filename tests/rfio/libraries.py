"""The C library and the Python filesystem: acceptance 5."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.build_tree import ROOT, TARGET, run
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .service import TOOLS, Service, noise

HEADER = ROOT / "crates" / "librfio" / "include"
LIBRARIES = TOOLS / "lib"
# The environment that `setup/python` makes, or whatever runs these tests.
PYTHON = next((path for path in [TARGET / "python/bin/python"] if path.exists()), Path(sys.executable))


def c_program(place: Place, fabric: str, library: str, source: str = "trfio") -> Outcome:
    """A C program with TRFIOFile's symbols, or another one, linked with either name of the library."""
    program = place.directory / source
    made = subprocess.run(
        [os.environ.get("CC", "cc"), "-Wall", "-Wextra", "-Werror", "-O1", f"-I{HEADER}",
         str(ROOT / f"tests/rfio/{source}.c"), "-o", program, f"-L{LIBRARIES}", f"-l{library}", "-lpthread",
         f"-Wl,-rpath,{LIBRARIES}"], capture_output=True, text=True, check=False)
    if made.returncode:
        return failed("does not compile and link", made.stderr)
    with Service(place, fabric) as service:
        original = service.export / "f"
        original.write_bytes(noise(20 << 20))
        plain = [str(program), f"rfio://127.0.0.1:{service.port}", str(original)]
        ended = place.run(source, plain if fabric == "tcp" else run(*plain), 60, service.path,
                          RFIO_FABRIC=service.fabric, **service.environment())
        ok = ended.succeeded and "all of it" in ended.output
        return passed() if ok else failed("the program failed", ended.evidence())


def symbols(place: Place) -> Outcome:
    """No function of the library runs commands, and nothing but RFIO's names is exported."""
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARIES / "librfio.so.2"],
                            capture_output=True, text=True, check=True).stdout
    names = {line.split()[2].split("@")[0] for line in listed.splitlines() if len(line.split()) == 3}
    foreign = {name for name in names if not name.startswith(("rfio", "C__", "Cthread", "RFIO_2"))}
    if foreign or "rfio_popen" in names:
        return failed(f"exports {sorted(foreign) or 'rfio_popen'}")
    return passed(f"{len(names)} symbols")


PANDAS = """
import sys, rfio_fsspec, fsspec, pandas
base = sys.argv[1]
frame = pandas.DataFrame({"a": range(10000), "b": [x / 7 for x in range(10000)]})
frame.to_csv(base + "/t.csv", index=False)
assert pandas.read_csv(base + "/t.csv").a.equals(frame.a)
frame.to_parquet(base + "/t.parquet")
assert pandas.read_parquet(base + "/t.parquet").equals(frame)
assert pandas.read_parquet(base + "/t.parquet", columns=["b"]).b.equals(frame.b)
import pyarrow.dataset
fs = fsspec.filesystem("rfio")
fs.makedirs(base + "/set")
for part in range(3):
    frame[part::3].to_parquet(base + f"/set/{part}.parquet", index=False)
read = pyarrow.dataset.dataset(fs._strip_protocol(base) + "/set", filesystem=fs).to_table(columns=["a"]).to_pandas()
assert sorted(read.a) == list(frame.a)
print("read it all", flush=True)
# Threads of a dataset may still be letting go of their files; one that asks for Python while it ends aborts the process. So it is
# with any file system written in Python (seen with fsspec's own `memory`, one time in thirty on a busy machine).
import os
os._exit(0)
"""

ZARR = """
import sys, rfio_fsspec, fsspec, numpy, zarr
base = sys.argv[1]
values = numpy.arange(600 * 500, dtype="i4").reshape(600, 500)
made = zarr.open_array(base + "/a.zarr", mode="w", shape=values.shape, chunks=(100, 100), dtype="i4")
made[:] = values
found = zarr.open_array(base + "/a.zarr", mode="r")
assert (found[:] == values).all() and (found[150:350:7, 90:410] == values[150:350:7, 90:410]).all()
fs = fsspec.filesystem("rfio")
chunks = [name for name in fs.find(base + "/a.zarr") if not name.rpartition("/")[2].startswith((".z", "zarr"))]
assert len(chunks) == 30, chunks
print("read it all")
"""

PLAIN = """
import sys, rfio_fsspec, fsspec
base = sys.argv[1]
fs = fsspec.filesystem("rfio")
data = bytes(range(256)) * 40000
with fsspec.open(base + "/d.bin", "wb") as file:
    file.write(data)
with fsspec.open(base + "/d.bin", "rb") as file:
    assert file.read() == data
    file.seek(1000); assert file.read(300) == data[1000:1300]
assert fs.cat_ranges([base + "/d.bin"] * 3, [0, 500, -10], [10, 700, None]) == [data[:10], data[500:700], data[-10:]]
fs.makedirs(base + "/x/y"); fs.mv(base + "/d.bin", base + "/x/y/e.bin")
assert fs.find(base) == [fs._strip_protocol(base) + "/x/y/e.bin"], fs.find(base)
fs.rm(base + "/x", recursive=True)
assert fs.ls(base) == []
big = bytes(range(256)) * (6 << 12)
fs.pipe_file(base + "/big", big)
assert fs.cat_ranges([base + "/big"] * 3, [5, 0, 100], [10, len(big), 200]) == [big[5:10], big, big[100:200]]
fs.copy(base + "/big", base + "/copy"); assert fs.cat_file(base + "/copy") == big
one, other = fs.open(base + "/w", "wb"), fs.open(base + "/w", "wb")
for part in range(3):
    one.write(b"1" * (6 << 20)); other.write(b"2" * (6 << 20))
one.close(); other.close()
assert set(fs.cat_file(base + "/w")) == {ord("2")}, "two writers mix"
import os
os.symlink("nowhere", sys.argv[2] + "/dangling")
os.symlink("big", sys.argv[2] + "/link")
listed = {entry["name"].rpartition("/")[2]: entry for entry in fs.ls(base)}
assert set(listed) == {"big", "copy", "w", "dangling", "link"}, listed
assert listed["link"]["type"] == "file" and listed["link"]["size"] == listed["big"]["size"] == len(big), listed
assert listed["dangling"]["type"] == "other" and listed["big"] == fs.info(base + "/big"), listed
assert fs.ls(base + "/big") == [fs.info(base + "/big")]
from urllib.request import urlopen
def requests():
    page = urlopen(sys.argv[3]).read().decode()
    return sum(float(line.split()[1]) for line in page.splitlines() if line.startswith("rfio_request_seconds_count"))
os.mkdir(sys.argv[2] + "/many")
for number in range(200):
    open(sys.argv[2] + f"/many/{number}", "wb").write(b"x" * number)
before = requests()
sizes = {int(entry["name"].rpartition("/")[2]): entry["size"] for entry in fs.ls(base + "/many")}
assert sizes == {number: number for number in range(200)}, sizes
assert requests() - before == 1, "one listing is one request"
fs.pipe_file(base + "/made/by/itself", b"x")
assert fs.cat_file(base + "/made/by/itself") == b"x"
try:
    fsspec.filesystem("rfio", auto_mkdir=False).pipe_file(base + "/never/made", b"x")
    raise AssertionError("a directory is made that nobody wanted")
except FileNotFoundError:
    assert not fs.exists(base + "/never")
try:
    fsspec.filesystem("rfio", user="somebody")
    raise AssertionError("an option is ignored")
except TypeError:
    pass
try:
    fs.info(base + "/nothing")
except FileNotFoundError:
    print("did it all")
"""


def python(place: Place, fabric: str, needs: str) -> Outcome:
    """The fsspec filesystem by itself, under pandas and PyArrow, and under zarr."""
    for module in dict.fromkeys(("fsspec", needs, *(("pyarrow",) if needs == "pandas" else ()))):
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            return skipped(f"needs the Python package {module}; `setup/python test` makes an environment with it")
    with Service(place, fabric) as service:
        script = place.directory / "script.py"
        script.write_text({"fsspec": PLAIN, "pandas": PANDAS, "zarr": ZARR}[needs])
        plain = [str(PYTHON), str(script), f"rfio://127.0.0.1:{service.port}", str(service.export),
                 f"http://127.0.0.1:{service.metrics_port}/metrics"]
        ended = place.run("python", run(*plain) if fabric == "verbs" else plain, 120,
                          RFIO_FABRIC=fabric, RFIO_LIBRARY=str(LIBRARIES / "librfio.so.2"),
                          PYTHONPATH=str(ROOT / "python"), **service.environment())
        ok = ended.succeeded and "it all" in ended.output
        return passed() if ok else failed("the script failed", ended.evidence())
