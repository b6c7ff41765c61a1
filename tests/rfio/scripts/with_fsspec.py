"""The filesystem by itself."""

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
from urllib.request import urlopen
def moved():
    lines = urlopen(sys.argv[3]).read().decode().splitlines()
    carried = [line.split() for line in lines if line.startswith(("rfio_stream_", "rfio_fabric_")) and "_bytes_total " in line]
    assert len(carried) == 4, lines
    return sum(int(count) for _, count in carried)
before = moved()
assert before >= len(big)
fs.copy(base + "/big", base + "/copy")
assert moved() == before, "a copy on one server moves no data"
assert fs.cat_file(base + "/copy") == big and len(fs.ls(base)) == 2, fs.ls(base)
try:
    fs.copy(base + "/none", base + "/copy2")
    raise AssertionError("a missing file is no error")
except FileNotFoundError:
    assert len(fs.ls(base)) == 2, fs.ls(base)
one, other = fs.open(base + "/w", "wb"), fs.open(base + "/w", "wb")
for part in range(3):
    one.write(b"1" * (6 << 20)); other.write(b"2" * (6 << 20))
one.close(); other.close()
assert set(fs.cat_file(base + "/w")) == {ord("2")}, "two writers mix"
import os
os.mkdir(sys.argv[2] + "/ranges")
for number in range(40):
    open(sys.argv[2] + f"/ranges/{number}", "wb").write(big[number:number + 100_000])
asked = [(number * 7 % 40, number * 911 % 99_000, number * 131 % 5000) for number in range(300)]
got = fs.cat_ranges([f"{base}/ranges/{name}" for name, _, _ in asked], [start for _, start, _ in asked],
                    [start + length for _, start, length in asked])
assert got == [big[name:name + 100_000][start:start + length] for name, start, length in asked]
# Ranges that are longer than a request can say, if that is little.
from rfio_fsspec import _native
parts = _native.File(base + "/ranges/0", os.O_RDONLY).begin_ranges([(5, 4321), (98_500, 4500), (7, 0), (0, 1000)], most=1000)
assert parts.finish() == [big[5:4326], big[98_500:100_000], b"", big[:1000]], "long ranges are cut and joined"
missing = fs.cat_ranges([base + "/ranges/0", base + "/ranges/none", base + "/ranges/1"], 0, 10)
assert missing[0] == big[:10] and missing[2] == big[1:11] and isinstance(missing[1], FileNotFoundError), missing
try:
    fs.cat_ranges([base + "/ranges/0", base + "/ranges/none", base + "/ranges/1"], 0, 10, on_error="raise")
    raise AssertionError("a missing file is no error")
except FileNotFoundError:
    pass
fs.rm(base + "/ranges", recursive=True)
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
import random
chance = random.Random(1)
with fs.open(base + "/changed", "w+b") as ours, open(sys.argv[2] + "/model", "w+b") as model:
    for step in range(600):
        offset, length = chance.randrange(60_000), chance.choice((0, 1, 500, 20_000))
        kind = chance.choice(("write", "read", "truncate", "end", "on", "flush"))
        if kind == "write":
            data = chance.randbytes(length)
            assert ours.seek(offset) == model.seek(offset) and ours.write(data) == model.write(data)
        elif kind == "read":
            ours.seek(offset), model.seek(offset)
            assert ours.read(length) == model.read(length), step
        elif kind == "truncate":
            assert ours.truncate(offset) == model.truncate(offset)
        elif kind == "end":
            assert ours.seek(0, 2) == model.seek(0, 2) and ours.tell() == model.tell(), step
        elif kind == "on":
            assert ours.read(length) == model.read(length), step
            assert ours.write(b"on") == model.write(b"on") == 2
        else:
            ours.flush(), model.flush()
            assert open(sys.argv[2] + "/changed", "rb").read() == open(sys.argv[2] + "/model", "rb").read(), step
assert open(sys.argv[2] + "/changed", "rb").read() == open(sys.argv[2] + "/model", "rb").read()
with fs.open(base + "/changed", "rb+") as file:
    file.write(b"first")
with fs.open(base + "/changed", "a+b") as file:
    file.seek(0)
    assert file.read(5) == b"first" and file.write(b"last") == 4
assert fs.cat_file(base + "/changed")[-4:] == b"last"
with fs.open(base + "/changed", "a+b") as one, fs.open(base + "/changed", "a+b") as other:
    for file in (one, other, one):
        file.write(b"more")
        file.flush()
assert fs.cat_file(base + "/changed")[-16:] == b"lastmoremoremore"
for mode, error in (("x+b", FileExistsError), ("q+b", ValueError), ("wr+b", ValueError)):
    try:
        fs.open(base + "/changed", mode)
        raise AssertionError(f"{mode} is taken")
    except error:
        pass
try:
    fs.open(base + "/nowhere", "r+b")
    raise AssertionError("a missing file is opened")
except FileNotFoundError:
    pass
try:
    with fs.transaction:
        fs.open(base + "/changed", "w+b")
    raise AssertionError("a transaction accepts an operation that it cannot undo")
except ValueError:
    assert fs.cat_file(base + "/changed")[:5] == b"first"
fs.pipe_file(base + "/made/by/itself", b"x")
assert fs.cat_file(base + "/made/by/itself") == b"x"
try:
    fsspec.filesystem("rfio", auto_mkdir=False).pipe_file(base + "/never/made", b"x")
    raise AssertionError("an unrequested directory is made")
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
