"""Symbolic links and recursive operations: nothing outside a tree is listed, copied or removed through a link."""

import os
import sys
import tempfile

import fsspec
import pyarrow.fs
import zarr

base, export = sys.argv[1:3]
fs = fsspec.filesystem("rfio")
root = fs._strip_protocol(base)


def make_tree() -> None:
    """A directory of data, and a tree whose links lead to it, above itself, and nowhere."""
    os.makedirs(f"{export}/data/deep", exist_ok=True)
    for name in ("kept", "deep/kept"):
        with open(f"{export}/data/{name}", "w", encoding="utf-8") as file:
            file.write("kept")
    os.makedirs(f"{export}/tree/sub")
    with open(f"{export}/tree/sub/own", "w", encoding="utf-8") as file:
        file.write("own")
    for text, name in (("../data", "out"), ("..", "up"), ("sub/own", "file"), ("nowhere", "dangling"), ("..", "sub/cycle")):
        os.symlink(text, f"{export}/tree/{name}")


def check_removed(how: str) -> None:
    """The tree is removed and the data remain."""
    assert not os.path.lexists(f"{export}/tree"), how
    assert sorted(os.listdir(f"{export}/data")) == ["deep", "kept"] and os.listdir(f"{export}/data/deep") == ["kept"], how


make_tree()
files = [f"{root}/tree/{name}" for name in ("dangling", "file", "sub/own")]
assert fs.find(f"{base}/tree") == files, fs.find(f"{base}/tree")
found = fs.glob(f"{base}/tree/**")
assert {name.removeprefix(f"{root}/tree").strip("/") for name in found} == {
    "", "dangling", "file", "out", "sub", "sub/cycle", "sub/own", "up"}, found
assert set(fs.glob(f"{base}/tree/*")) == {f"{root}/tree/{name}" for name in ("dangling", "file", "out", "sub", "up")}
assert [(path, sorted(directories)) for path, directories, _ in fs.walk(f"{base}/tree")] == [
    (f"{root}/tree", ["sub"]), (f"{root}/tree/sub", [])]
assert {entry["name"].rpartition("/")[2]: (entry["type"], entry.get("islink", False)) for entry in fs.ls(f"{base}/tree")} == {
    "dangling": ("other", True), "file": ("file", True), "out": ("link", True), "sub": ("directory", False), "up": ("link", True)}
assert fs.islink(f"{base}/tree/out") and not fs.islink(f"{base}/tree/sub") and not fs.islink(f"{base}/none")
# A named link is followed.
assert fs.isdir(f"{base}/tree/out") and fs.find(f"{base}/tree/out") == [f"{root}/tree/out/{name}" for name in ("deep/kept", "kept")]
os.unlink(f"{export}/tree/dangling")
assert fs.du(f"{base}/tree") == 6, fs.du(f"{base}/tree", total=False)
with tempfile.TemporaryDirectory() as here:
    fs.get(f"{base}/tree", f"{here}/got", recursive=True)
    got = sorted(os.path.relpath(os.path.join(path, name), here) for path, _, names in os.walk(here) for name in names)
    assert got == ["got/file", "got/sub/own"], got
    assert sorted(os.listdir(f"{here}/got")) == ["file", "sub"]
fs.copy(f"{base}/tree", f"{base}/copied", recursive=True)
assert fs.find(f"{base}/copied", withdirs=True) == [f"{root}/copied{name}" for name in ("", "/file", "/sub", "/sub/own")]
fs.rm(f"{base}/copied", recursive=True)

fs.rm(f"{base}/tree", recursive=True)
check_removed("rm")
make_tree()
fs.rm([f"{base}/tree/*", f"{base}/tree"], recursive=True)
check_removed("rm of a pattern and a list")
make_tree()
fs.rm(f"{base}/tree/out", recursive=True)
assert not os.path.lexists(f"{export}/tree/out")
fs.rm(f"{base}/tree/up", recursive=True, maxdepth=5)
pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs)).delete_dir(f"{root}/tree")
check_removed("pyarrow's delete_dir")
make_tree()
zarr.create_group(f"{base}/tree", overwrite=True)
assert os.path.exists(f"{export}/tree/zarr.json") and not os.path.lexists(f"{export}/tree/out")
fs.rm(f"{base}/tree", recursive=True)
check_removed("zarr's create_group")
fs.rm(f"{base}/data", recursive=True)

# Links move as links.
os.mkdir(f"{export}/there")
os.symlink("there", f"{export}/link")
fs.mv(f"{base}/link", f"{base}/moved")
assert os.readlink(f"{export}/moved") == "there" and not os.path.lexists(f"{export}/link")
fs.symlink("there", f"{base}/made")
assert os.readlink(f"{export}/made") == "there"
print("did it all")
