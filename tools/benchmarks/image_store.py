"""Creates a store like Spack's for benchmarks: packages with libraries, Python modules, records and a view."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

MOUNT = "/user-environment"
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
LIBRARIES = 20
"""The number of compiled libraries. Packages contain copies, which differ by bytes after the end of the library."""
EVERY_NTH_IS_PYTHON = 3


def make_store(folder: Path, *, packages: int, files: int) -> None:
    """Create the given number of packages in a directory, each with the given number of files. Needs gcc.

    The sizes and kinds of files are like those of a uenv: mostly text of a few KB, four libraries per package, bytecode
    next to each module, and a symbolic link in the view for each file.
    """
    folder.mkdir()
    chance = random.Random(packages)
    names = [f"package-{number}" for number in range(packages)]
    prefixes = {name: f"linux-zen3/{name}-1.{number}-{_hash(name)}" for number, name in enumerate(names)}
    texts, libraries = _texts(), _libraries(folder, list(prefixes.values()))
    installs: dict[str, object] = {}
    for number, (name, prefix) in enumerate(prefixes.items()):
        for part, content in _package(name, number, files, chance, texts, libraries):
            path = folder / prefix / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if not part.startswith(".spack/"):
                _linked(folder / "env/default" / part, f"{MOUNT}/{prefix}/{part}")
        spec = {"name": name, "version": f"1.{number}", "hash": _hash(name), "parameters": {"build_system": "generic"}}
        installs[_hash(name)] = {"spec": spec, "path": f"{MOUNT}/{prefix}", "installed": True, "ref_count": 1}
    for part, text in _described(installs).items():
        (folder / part).parent.mkdir(exist_ok=True)
        (folder / part).write_text(text)


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _texts() -> bytes:
    """Return the sources of the standard library, as text for files."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"".join(source.read_bytes() for source in sources)


def _libraries(folder: Path, prefixes: list[str]) -> list[bytes]:
    """Return libraries that depend on each other and search the prefixes of many packages, as in Spack."""
    work = folder / "work"
    work.mkdir()
    found = []
    for number in range(LIBRARIES):
        source, target = work / "code.c", work / f"lib{number}.so"
        source.write_text(f"static const char text[{1 << 16}] = {{1}};\nint f{number}(int i) {{ return text[i]; }}\n")
        needed = [f"-l{other}" for other in range(max(0, number - 3), number)]
        paths = [f"-Wl,-rpath,{MOUNT}/{prefix}/lib" for prefix in prefixes[:LIBRARIES]]
        words: list[str | Path] = [
            "gcc",
            "-shared",
            "-fPIC",
            source,
            "-o",
            target,
            f"-L{work}",
            "-Wl,--no-as-needed",
            *needed,
            *paths,
        ]
        subprocess.run(words, check=True)
        found.append(target.read_bytes())
        source.unlink()
    for number in range(LIBRARIES):
        (work / f"lib{number}.so").unlink()
    work.rmdir()
    return found


def _package(
    name: str, number: int, files: int, chance: random.Random, texts: bytes, libraries: list[bytes]
) -> Iterator[tuple[str, bytes]]:
    """Return the files of a package, by path below its prefix."""
    unique = f"# {name}\n".encode()

    def text() -> bytes:
        size = min(int(chance.lognormvariate(8, 1.2)), 1 << 18)
        start = chance.randrange(len(texts) - size)
        return unique + texts[start : start + size]

    yield ".spack/spec.json", json.dumps({"spec": {"nodes": [{"name": name, "hash": _hash(name)}]}}).encode()
    yield ".spack/install_manifest.json", text()
    yield ".spack/spack-build-out.txt.gz", chance.randbytes(2000)
    for copy in range(4):
        library = (number + copy) % LIBRARIES
        yield f"lib/lib{library}.so" if copy == 0 else f"lib/{name}/lib{library}.so", libraries[library] + unique
    left = files - 7
    if number % EVERY_NTH_IS_PYTHON:
        for each in range(left):
            yield f"{'include' if each % 3 else 'share'}/{name}/part-{each % 7}/file-{each}.h", text()
        return
    written = []
    for each in range((left - 2) // 2):
        part = f"{SITE}/{name.replace('-', '_')}/part{each % 7}"
        written += [f"{part}/module{each}.py", f"{part}/__pycache__/module{each}.cpython-313.pyc"]
        yield written[-2], text()
        yield written[-1], text()
    info = f"{SITE}/{name.replace('-', '_')}-1.{number}.dist-info"
    yield f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{number}\n".encode()
    record = "".join(f"{part.removeprefix(SITE + '/')},sha256={_hash(part)},1000\n" for part in written)
    yield f"{info}/RECORD", record.encode()


def _linked(link: Path, target: str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)


def _described(installs: dict[str, object]) -> dict[str, str]:
    """Write the database of the store, and the metadata of its image."""
    root = f"{MOUNT}/env/default"
    lists = {
        name: [{"op": "prepend", "value": [f"{root}/{part}"]}] for name, part in (("PATH", "lib"), ("CPATH", "include"))
    }
    env = {"version": 1, "type": "augment", "values": {"list": lists, "scalar": {}}}
    view = {"activate": "", "description": "all", "root": root, "env": env}
    uenv = {"name": "benchmark", "description": "made", "mount": MOUNT, "modules": None, "views": {"default": view}}
    database = {"database": {"version": "8", "installs": installs}}
    return {".spack-db/index.json": json.dumps(database), "meta/env.json": json.dumps(uenv)}
