"""Test that packages from directories are built in each run, and that commands report a source that has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BACKEND, BUILD_SYSTEM, BaseHere, backend, project, unpack
from tests.support.samples import sampled
from tests.venv.conftest import record
from uenvtool.venv.sources import changed_files, recorded
from uenvtool.venv.uv import find_uv

OLD, NEW = "__version__ = '1'\n", "__version__ = '2'\n"


@pytest.fixture
def code(here: BaseHere, place: Path) -> Path:
    """Returns the module of a project in ./mypkg."""
    return project(place / "mypkg", "mypkg") / "src/mypkg/__init__.py"


def installed(folder: str) -> str:
    return next(Path(folder).glob("lib/python3*/site-packages/mypkg/__init__.py")).read_text()


def packed(image: str, place: Path) -> str:
    shutil.rmtree(place / "unpacked", ignore_errors=True)
    unpack(Path(image), place / "unpacked")
    return installed("unpacked")


@pytest.mark.parametrize(
    ("first", "second", "overlay"),
    sampled(
        [
            ("v ./mypkg --squash", "v ./mypkg --squash", "v"),
            ("v ./mypkg --squash", "v --squash", "v"),
            ("v ./mypkg --squash", "v --update --squash", "v"),
            ("v ./mypkg", "v", "v"),
            ("v ./mypkg", "v --update", "v"),
            ("v ./mypkg", "w ./mypkg --squash", "w"),
            ("v mypkg@./mypkg", "v mypkg@./mypkg", "v"),
            ("v -r requirements.txt", "v -r requirements.txt", "v"),
        ],
        keep=2,
    ),
)
def test_an_edited_package_is_built_again(
    code: Path, done: Cli, place: Path, first: str, second: str, overlay: str
) -> None:
    Path("requirements.txt").write_text("./mypkg\n")
    done("venv", *first.split())
    code.write_text(NEW)

    dry = done("venv", *second.split(), "--dry-run")
    answer = done("venv", *second.split())

    assert installed(overlay) == NEW
    if overlay == "v":
        assert "mypkg: 1 file changed, would be rebuilt" in dry.stderr
        assert "mypkg: 1 file changed, rebuilt" in answer.stderr
    if "--squash" in second:
        assert packed(f"{overlay}.squashfs", place) == NEW
    assert "changed, rebuilt" not in done("venv", *second.split()).stderr


def test_a_file_with_an_old_date_is_built_again(code: Path, done: Cli, place: Path) -> None:
    """setuptools copies only files that are newer than those in build/, unless a configuration says otherwise."""
    (place / "mypkg/backend.py").write_text(
        f"NAME, VERSION = 'mypkg', '1'\n{BACKEND}\nimport configparser, os, shutil\n"
        "def build_wheel(folder, settings=None, metadata=None):\n"
        "    config = configparser.ConfigParser()\n"
        "    config.read(os.environ['DIST_EXTRA_CONFIG'])\n"
        "    kept, new = SRC.parent / 'build.py', SRC / 'mypkg/__init__.py'\n"
        "    if config.getboolean('build_py', 'force') or new.stat().st_mtime > kept.stat().st_mtime:\n"
        "        shutil.copy2(new, kept)\n"
        "    return built(folder, {'mypkg/__init__.py': kept.read_text()})\n"
    )
    done("venv", "v", "./mypkg")
    code.write_text(NEW)
    os.utime(code, (0, 0))

    done("venv", "v", "./mypkg")

    assert installed("v") == NEW


def test_a_project_is_packed_again_after_an_edit(code: Path, done: Cli, place: Path) -> None:
    os.chdir("mypkg")
    Path("pyproject.toml").write_text(Path("pyproject.toml").read_text() + "[tool.uv]\n")
    subprocess.run([find_uv(), "lock", "--quiet", "--no-python-downloads"], check=True)
    done("venv", ".venv", "--squash")
    same = done("venv", ".venv", "--squash")
    code.write_text(NEW)

    answer = done("venv", ".venv", "--squash")

    assert "packed without changes: uv.lock has not changed" in same.stderr
    assert "mypkg: 1 file changed, rebuilt" in answer.stderr
    assert packed("venv.squashfs", place / "mypkg") == NEW


def test_new_dependencies_of_a_directory_are_installed(code: Path, done: Cli, wheels: Path, place: Path) -> None:
    """A dynamic dependency changes without pyproject.toml, also in a directory that only another package names."""
    from tests.support.overlays import wheel

    wheel(wheels, "later", "1.0")
    text = '[project]\nname = "mypkg"\ndynamic = ["version", "dependencies"]\n'
    (place / "mypkg/pyproject.toml").write_text(text + BUILD_SYSTEM)
    outer = f'[project]\nname = "outer"\nversion = "1"\ndependencies = ["mypkg @ file://{place}/mypkg"]\n'
    project(place / "outer", "outer", text=outer)
    for folder in ("v", "w"):
        done("venv", folder, "./mypkg" if folder == "v" else "./outer")
    requires = 'built(folder, {str(path.relative_to(SRC)): path.read_text() for path in SRC.rglob("*.py")}'
    source = backend("mypkg", "1").replace(requires, f'{requires}, "Requires-Dist: later\\n"')
    assert "later" in source
    (place / "mypkg/backend.py").write_text(source)

    for folder in ("v", "w"):
        done("venv", folder, "./mypkg" if folder == "v" else "./outer")
        assert "later" in {row["name"] for row in record(folder)["packages"]}


def test_show_and_job_report_an_old_package_and_its_commit(code: Path, done: Cli, place: Path) -> None:
    git = ["git", "-C", "mypkg", "-c", "user.name=u", "-c", "user.email=u@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    done("venv", "v", "./mypkg", "--squash")
    job = ["job", "--system", "bristen", "--account", "a01", "--venv"]
    clean = [done("show", "v.squashfs"), done(*job, "v.squashfs", "--", "python", "train.py")]
    Path("mypkg/notes.txt").write_text("not part of the package")
    Path("mypkg/train.py").write_text("")
    clean.append(done("show", "v"))
    code.write_text(NEW)

    changed = [done("show", "v.squashfs"), done("show", "v"), done(*job, "v.squashfs", "--", "python", "train.py")]
    done("venv", "v", "--squash")
    after = done("show", "v.squashfs")

    assert all("is older than" not in answer.stderr for answer in clean)
    assert f"source of mypkg: {place}/mypkg, commit {head}\n" in clean[0].stdout
    for answer, name in zip(changed, ("v.squashfs", "v", "v.squashfs"), strict=True):
        expected = f"mypkg in {name} is older than mypkg/src/mypkg/: pack it again with `uenvtool venv v --squash`"
        assert expected in " ".join(answer.stderr.split())
    assert f"commit {head} with uncommitted changes" in after.stdout
    assert "is older than" not in after.stderr
    shutil.rmtree("mypkg")
    assert "is older than" not in done("show", "v.squashfs").stderr
    shown = json.loads(done("show", "v.squashfs", "--json").stdout)["sources"]
    assert shown == [{"name": "mypkg", "directory": f"{place}/mypkg", "commit": f"{head}-dirty", "changed": []}]


def write(path: Path, text: str = "new\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def keep_date(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().replace("1", "2"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("layout", ["src/mypkg", "mypkg", "python/mypkg"])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda root, package: write(package / "__init__.py"), ["{package}/__init__.py"]),
        (lambda root, package: keep_date(package / "__init__.py"), ["{package}/__init__.py"]),
        (lambda root, package: os.utime(package / "__init__.py"), []),
        (lambda root, package: (package / "__init__.py").unlink(), None),
        (lambda root, package: write(package / "data/values.json"), ["{package}/data/values.json"]),
        (lambda root, package: write(package / "__pycache__/a.pyc"), []),
        (lambda root, package: write(root / "csrc/kernel.cu"), ["csrc/kernel.cu"]),
        (lambda root, package: write(root / "pyproject.toml"), ["pyproject.toml"]),
        (lambda root, package: write(root / "train.py"), []),
        (lambda root, package: write(root / "slurm-1.out"), []),
        (lambda root, package: write(root / "tests/test_it.py"), []),
        (lambda root, package: write(root / "v/pyvenv.cfg") or write(root / "v/src/x.cu"), []),
        (lambda root, package: os.mkfifo(package / "pipe"), ["{package}/pipe"]),
        (lambda root, package: os.symlink(root, package / "loop"), []),
    ],
)
def test_the_files_of_a_package_are_compared_by_content(
    tmp_path: Path, layout: str, change: Callable[[Path, Path], object], names: list[str] | None
) -> None:
    package = tmp_path / "project" / layout
    write(package / "__init__.py", OLD)
    write(tmp_path / "project/pyproject.toml", "old\n")
    sources = recorded({"mypkg": str(tmp_path / "project")})

    change(tmp_path / "project", package)

    changed = changed_files(sources).get("mypkg", ())
    if names is None:
        assert changed
    else:
        expected = [name.format(package=layout) for name in names]
        assert [os.path.relpath(name, tmp_path / "project") for name in changed] == expected


def test_a_project_without_packages_consists_of_its_modules(tmp_path: Path) -> None:
    write(tmp_path / "one.py", OLD)
    sources = recorded({"one": str(tmp_path)})
    write(tmp_path / "one.py", NEW)

    assert changed_files(sources) == {"one": (str(tmp_path / "one.py"),)}
