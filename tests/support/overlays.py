"""Shared code of overlay tests: creates wheels and bases of every layout, and inspects overlays."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.needs import skip_without
from uenvtool.core.files import Replacement, publish
from uenvtool.image.pack import Packed
from uenvtool.venv.image import MOUNT, packed

LAYOUTS = ("pythonpath", "pythonuserbase", "python-venv", "container", "conda", "module")


def wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str | bytes] | None = None,
    scripts: Mapping[str, str] | None = None,
    extras: Sequence[str] = (),
    tag: str = "py3-none-any",
    record: str | None = None,
) -> Path:
    """Write a wheel with a module of the same name that contains its version. record: its RECORD, if not correct."""
    module = name.replace("-", "_")
    contents: dict[str, str | bytes] = {f"{module}/__init__.py": f"__version__ = {version!r}\n"}
    contents.update(files or {})
    info = f"{module}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires] + [f"Provides-Extra: {each}" for each in extras]
    contents[f"{info}/METADATA"] = "\n".join(lines) + "\n"
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        contents[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "".join(
            f"{each} = {target}\n" for each, target in scripts.items()
        )
    rows = []
    for each, content in contents.items():
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{each},sha256={digest},{len(data)}")
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]) if record is None else record
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in contents.items():
            archive.writestr(zipfile.ZipInfo(each, (1980, 1, 1, 0, 0, 0)), content)
    return path


BUILD_SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import pathlib, zipfile
SRC = pathlib.Path(__file__).parent / "src"
STEM = NAME.replace("-", "_") + "-" + VERSION
def built(folder, files, requires=""):
    texts = {
        "METADATA": f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n{requires}",
        "WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(pathlib.Path(folder) / f"{STEM}-py3-none-any.whl", "w") as archive:
        for name, text in [*files.items(), *((f"{STEM}.dist-info/{name}", text) for name, text in texts.items())]:
            archive.writestr(name, text)
    return f"{STEM}-py3-none-any.whl"
def build_wheel(folder, settings=None, metadata=None):
    return built(folder, {str(path.relative_to(SRC)): path.read_text() for path in SRC.rglob("*.py")})
def build_editable(folder, settings=None, metadata=None):
    return built(folder, {f"{NAME}.pth": f"{SRC}\\n"})
"""
EXTENSION = """
import {importing}
def build_wheel(folder, settings=None, metadata=None):
    text = f"built_with = {{getattr({first}, '__version__', None)!r}}\\n"
    return built(folder, {{NAME.replace("-", "_") + ".py": text}}, "Requires-Dist: torch\\n")
"""


def backend(name: str, version: str) -> str:
    """Return a build backend that packs the files of src/, or names src/ in a .pth file."""
    return f"NAME, VERSION = {name!r}, {version!r}\n{BACKEND}"


def project(folder: Path, name: str, version: str = "1", text: str = "") -> Path:
    """Write a project with a module that contains its version. text: its tables, or empty for a default."""
    text = text or f'[project]\nname = "{name}"\nversion = "{version}"\nrequires-python = ">=3.10"\n'
    (folder / "src" / name).mkdir(parents=True)
    (folder / "src" / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (folder / "pyproject.toml").write_text(text + BUILD_SYSTEM)
    (folder / "backend.py").write_text(backend(name, version))
    return folder


def extension_source(folder: Path, name: str, version: str, importing: str = "torch") -> Path:
    """Write the source of a torch extension, whose build imports torch or other modules ("torch, other")."""
    module = name.replace("-", "_")
    texts = {
        "pyproject.toml": BUILD_SYSTEM,
        "backend.py": backend(name, version) + EXTENSION.format(importing=importing, first=importing.partition(",")[0]),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in texts.items():
            member = tarfile.TarInfo(f"{module}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def install(site: Path, *wheels: Path) -> None:
    """Unpack wheels into a package directory, as in a base but without commands."""
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)


@dataclass
class BaseHere:
    """A base on disk: its variables when it is loaded, its Python and minor version, and its package directory."""

    root: Path
    version: str
    python: Path
    site: Path
    environment: dict[str, str] = field(default_factory=dict)


def base(folder: Path, layout: str, real: Path, version: str) -> BaseHere:
    """Create an empty base of a layout that links to the interpreter `real`."""
    if layout in ("conda", "module"):
        return _of_conda(folder / "miniforge3" / "envs" / "train", layout, real, version)
    root = folder / "user-environment" / "env" / "default"
    site = root / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    (root / "bin").mkdir()
    for name in ("python", "python3", f"python{version}"):
        (root / "bin" / name).symlink_to(real)
    env = {"PATH": f"{root}/bin:/usr/bin:/bin"}
    if layout == "container":
        env.update(APPTAINER_CONTAINER="/images/pytorch.sif", PYTHONPATH=str(site))
    else:
        mount = folder / "user-environment"
        env.update(UENV_VIEW=f"{mount}:stack:default", UENV_MOUNT_LIST=f"/images/stack.squashfs:{mount}")
    if layout == "pythonpath":
        env["PYTHONPATH"] = str(site)
    if layout == "pythonuserbase":
        env["PYTHONUSERBASE"] = str(root)
    if layout == "python-venv":
        (root / "pyvenv.cfg").write_text(
            f"home = {real.parent}\ninclude-system-site-packages = true\nversion = {version}\n"
        )
    return BaseHere(root, version, root / "bin" / "python3", site, env)


def _of_conda(root: Path, layout: str, real: Path, version: str) -> BaseHere:
    """Create a conda environment with its own Python, which is activated or on PATH through a module."""
    library = real.resolve().parents[1] / "lib" / f"python{version}"
    if (library.parent / "python3" / "dist-packages").is_dir():
        skip_without("a Python that reads site-packages, unlike Debian's", f"`pyenv install {version}`")
    site = root / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    for entry in library.iterdir():
        if entry.name not in ("site-packages", "__pycache__"):
            (site.parent / entry.name).symlink_to(entry)
    (root / "bin").mkdir()
    shutil.copy2(real.resolve(), root / "bin" / f"python{version}")
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to(f"python{version}")
    (root / "conda-meta").mkdir()
    record = {"name": "pytorch", "version": "2.6.0", "build": "cuda126_py312_h1_300", "build_number": 300}
    (root / "conda-meta" / "pytorch-2.6.0-cuda126_py312_h1_300.json").write_text(json.dumps(record))
    shown = {"CONDA_PREFIX": str(root)} if layout == "conda" else {"LOADEDMODULES": "craype:pytorch/2.6.0"}
    return BaseHere(root, version, root / "bin" / "python3", site, {"PATH": f"{root}/bin:/usr/bin:/bin", **shown})


def clean_environment(**more: str) -> dict[str, str]:
    """Return the variables without those of the Python and base that run the tests."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UENV", "VIRTUAL_ENV"))}
    return {**env, **more}


def run(
    words: Sequence[str | Path], env: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in words], env=dict(env), cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def seen(words: Sequence[str | Path], env: Mapping[str, str], cwd: Path | None = None) -> dict[str, str]:
    """Run a program and return the JSON in its last line of output."""
    completed = run(words, env, cwd)
    assert completed.returncode == 0, completed.stderr
    found: dict[str, str] = json.loads(completed.stdout.splitlines()[-1])
    return found


def inside(folder: str | Path) -> set[str]:
    """Return the distributions in an overlay, without those of its base."""
    site = next(Path(folder).glob("lib/python3*/site-packages"))
    return {path.name.split("-")[0] for path in site.glob("*.dist-info")}


def unpack(image: Path, folder: Path) -> None:
    """Unpack an image into a new directory."""
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", folder, image], check=True, stdout=subprocess.DEVNULL)


def pack_overlay(folder: Path, target: Path, *, mount: str = MOUNT, epoch: int | None = None) -> Packed:
    """Pack an environment and publish the image, as `uenvtool venv --squash` does."""
    with packed(folder, target, mount=mount, epoch=epoch, on_note=print) as image:
        publish([Replacement(new=image.path, target=target.absolute())])
        return replace(image, path=target.absolute())
