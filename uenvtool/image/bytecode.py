"""Compiles the Python bytecode of directory trees reproducibly, with several interpreters in parallel."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, full_disk, scratch_folder
from uenvtool.image.pseudo import header_bytes
from uenvtool.image.tree import Bundle

WORKER = Path(__file__).parent / "scripts" / "bytecode.py"
MOST_WORKERS = 32
FEWEST_FILES = 200
"""The minimum number of modules per worker. For fewer modules, starting another Python takes longer than it saves."""
LONGEST_TAG = b"implementation-version-abi-and-more"
"""A text at least as long as the bytecode tag of any Python, such as `cpython-312`."""
Compiled = list[tuple[Path, dict[bytes, int]]]
"""The data file of each worker, with the name and length of the bytecode of its modules, in order."""


def compile_tree(python: Path, directory: Path, *, checked: bool, done: Collection[bytes] = ()) -> int:
    """Write the bytecode of every module below `directory` next to it. Return the number of compiled modules.

    python: an interpreter of the version that will import the modules. directory: an environment or a directory in one.
    checked: Python compares the bytecode with the time and size of the source at each import, as for its own bytecode.
    Otherwise the bytecode is `unchecked-hash` (PEP 552), and Python never compares it, which is for trees that nobody
    changes. done: modules that already have bytecode, relative to the environment. A file that does not compile is
    skipped, as in compileall. Raises ToolFailed if Python does not run or cannot write.
    """
    root = next((parent for parent in (directory, *directory.parents) if (parent / "pyvenv.cfg").is_file()), directory)
    with scratch_folder() as scratch:
        kind = "checked" if checked else "unchecked"
        modules = {name: size for name, size in sources(root, directory).items() if name not in done}
        compiled = _compile([python], root, modules, scratch, kind)
    return sum(1 for _, lengths in compiled for length in lengths.values() if length)


def gather(python: Sequence[str | Path], directory: Path, modules: Mapping[bytes, int], scratch: Path) -> list[Bundle]:
    """Compile the `unchecked-hash` bytecode of modules into bundles. Writes only to `scratch`.

    python: the command that starts Python. modules: paths relative to `directory`, with their sizes in bytes. The file
    of each bundle starts with unused bytes for the definitions of its contents. Raises ToolFailed if Python does not
    run.
    """
    start = header_bytes([cache_name(name, LONGEST_TAG) for name in modules])
    bundles = []
    for data, lengths in _compile(python, directory, modules, scratch, "unchecked", start=start):
        content, offset = _mapped(data), start
        contents = {}
        for name, length in lengths.items():
            if length:
                contents[name] = content[offset : offset + length]
                offset += length
        bundles.append(Bundle(data, start, contents))
    return bundles


def cache_name(name: bytes, tag: bytes) -> bytes:
    """Return the path of a module's bytecode (PEP 3147), relative to the same directory as the module's name."""
    directory, slash, base = name.rpartition(b"/")
    return b"%b%b__pycache__/%b%b.pyc" % (directory, slash, base[:-2], tag)


def workers() -> int:
    """Return the number of interpreters to start: one per CPU that this process may use, up to MOST_WORKERS."""
    return max(1, min(len(os.sched_getaffinity(0)), MOST_WORKERS))


def _mapped(path: Path) -> memoryview:
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return memoryview(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if size else b"")


def sources(root: Path, directory: Path) -> dict[bytes, int]:
    """Return the modules below `directory`, relative to `root`, with their sizes. Symlinked directories are skipped."""
    sizes = {}
    for parent, directories, names in os.walk(os.fsencode(directory)):
        directories[:] = [name for name in directories if name != b"__pycache__"]
        for path in (os.path.join(parent, name) for name in names if name.endswith(b".py")):
            sizes[os.path.relpath(path, os.fsencode(root))] = os.lstat(path).st_size if os.path.lexists(path) else 0
    return dict(sorted(sizes.items()))


def _compile(
    python: Sequence[str | Path],
    root: Path,
    modules: Mapping[bytes, int],
    scratch: Path,
    kind: str,
    *,
    start: int | None = None,
) -> Compiled:
    """Compile modules, with the large ones distributed evenly over the workers.

    start: the offset of the bytecode in each data file. None writes the bytecode next to its modules instead.
    """
    count = min(workers(), -(-len(modules) // FEWEST_FILES))
    by_size = sorted(modules, key=lambda name: (-modules[name], name))
    shares = [by_size[number::count] for number in range(count)]
    fill(scratch, {f"list-{number}": b"".join(name + b"\0" for name in share) for number, share in enumerate(shares)})

    def compiled(number: int) -> tuple[Path, dict[bytes, int]]:
        data = scratch / f"data-{number}"
        arguments: list[str | Path] = [WORKER, root, scratch / f"list-{number}", kind]
        arguments += [] if start is None else [data, str(start)]
        tag, *lengths = _output(python, root if start is None else scratch, *arguments).split()
        names = (cache_name(name, os.fsencode(tag)) for name in shares[number])
        return data, dict(zip(names, map(int, lengths), strict=True))

    with ThreadPoolExecutor(count or 1) as pool:
        return list(pool.map(compiled, range(count)))


def _output(python: Sequence[str | Path], place: Path, *arguments: str | Path) -> str:
    """Run Python without the user's PYTHON* variables and return its output. place: the directory that it writes to.

    The fixed hash seed makes the order of sets reproducible.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    completed = processes.run([*python, "-S", "-B", *arguments], env={**env, "PYTHONHASHSEED": "0"})
    if completed.code != 0:
        hint = "load the overlay's base, and run the command again"
        failed = ToolFailed(f"{python[-1]} cannot compile the bytecode: {completed.reason}", hint=hint)
        raise full_disk(place, completed.stderr) or failed
    return completed.stdout
