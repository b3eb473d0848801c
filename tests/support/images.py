"""Real image builds: a small root directory with files of this machine, a separate builder, and components."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pip

from tests.support.needs import need, skip_without
from tests.support.overlays import install

PROGRAMS = (
    *("sh", "bash", "cat", "cp", "echo", "env", "find", "head", "id", "ln", "mkdir", "mv", "printf", "rm", "sha256sum"),
    *("tar", "gzip", "ldconfig", "make", "gcc", "as", "ld", "install", "ldd", "patch", "mktemp"),
)
"""The programs that build a small component."""
HEADERS = ("*.h", "bits", "gnu", "sys", "linux", "asm-generic", "x86_64-linux-gnu/*", "aarch64-linux-gnu/*")
STORAGE_BYTES = 8 << 30
DRIVERS = ("overlay", "vfs")
"""The storage drivers for layers. The second one copies the complete image for each layer, and works everywhere."""
TRIED = "FROM scratch\nCOPY Containerfile /\nCOPY Containerfile /again\n"


@dataclass(frozen=True)
class Built:
    """The exit code, output and image of a build."""

    code: int
    output: str
    image: str

    @property
    def ran(self) -> list[str]:
        """Return the programs that build steps started, which print `ran: NAME`."""
        return [line.removeprefix("ran: ") for line in self.output.splitlines() if line.startswith("ran: ")]


@dataclass
class Builder:
    """A buildah with its own storage."""

    folder: Path
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Skip the test if this machine cannot build images."""
        need("buildah")
        trial = self.folder / "trial"
        trial.mkdir(parents=True)
        (trial / "Containerfile").write_text(TRIED)
        for driver in DRIVERS:
            storage = [f"--root={self.folder}/{driver}", f"--runroot={self.folder}/run-{driver}"]
            self.words = ["buildah", *storage, f"--storage-driver={driver}"]
            if self.build(trial, "trial").code == 0:
                return
        skip_without("buildah that may build", "run outside a container, or as root")

    def build(self, folder: Path, tag: str, *, sources: Path | None = None, options: Sequence[str] = ()) -> Built:
        """Build the Containerfile of a directory with the cache of earlier builds."""
        mounted = [f"--volume={sources}:/sources:ro"] if sources else []
        command = [*self.words, "bud", "--isolation=chroot", "--layers", f"--tag={tag}", *mounted]
        ran = subprocess.run(
            [*command, *options, f"--file={folder}/Containerfile", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Built(ran.returncode, ran.stdout, tag)

    def settings(self, image: str) -> dict[str, Any]:
        """Return the configuration of an image as defined by the OCI image specification."""
        shown = subprocess.run(
            [*self.words, "inspect", "--type=image", image], capture_output=True, text=True, check=True
        ).stdout
        found: dict[str, Any] = json.loads(shown)["OCIv1"]["config"]
        return found

    def run(self, image: str, *command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a container of an image, through the entry point."""
        made = subprocess.run([*self.words, "from", image], capture_output=True, text=True, check=True).stdout.strip()
        entry = self.settings(image).get("Entrypoint") or []
        given = [f"--env={name}={value}" for name, value in (env or {}).items()]
        try:
            return subprocess.run(
                [*self.words, "run", "--isolation=chroot", *given, made, "--", *entry, *command],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            subprocess.run([*self.words, "rm", made], capture_output=True, check=True)

    def close(self) -> None:
        """Remove the storage, after unmounting the mounts that buildah left in it."""
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for point in sorted((path for path in mounted if path.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", point], check=False)
        shutil.rmtree(self.folder)


def storage(fallback: Path) -> Path:
    """Return a directory for a builder, in memory if there is enough space."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < STORAGE_BYTES:
        return fallback
    return Path(tempfile.mkdtemp(prefix="uenvtool-test-", dir=memory))


def base_image(builder: Builder) -> str:
    """Return an image with a compiler, a shell and a few programs of this machine, and their libraries."""
    root = _empty_root(builder.folder / "base")
    for path in [*map(_program, PROGRAMS), *_compiler(root)]:
        copied(path, root)
    return _image_of(root, builder, "localhost/uenvtool-base:1")


def python_image(builder: Builder, *wheels: Path, environment: Mapping[str, str]) -> str:
    """Return an image with this Python and its pip, and with installed packages as in a base."""
    root = _empty_root(builder.folder / "python")
    library = _python(Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib")), root)
    shutil.copytree(Path(pip.__file__).parent, library / "site-packages/pip")
    install(library / "site-packages", *wheels)
    return _image_of(root, builder, "localhost/uenvtool-python:1", environment)


def debian_image(builder: Builder, *wheels: Path) -> str:
    """Return an image with Debian's Python, with packages, and with the libraries that a mounted Python needs."""
    root = _empty_root(builder.folder / "debian")
    program = Path("/usr/bin/python3").resolve()
    if program == Path(sys.executable).resolve() or not Path(f"/usr/lib/{program.name}").is_dir():
        skip_without("Debian's Python in addition to the one that runs the tests", "apt-get install python3")
    _python(program, Path(f"/usr/lib/{program.name}"), root)
    for extension in Path(sysconfig.get_path("stdlib")).glob("lib-dynload/*.so"):
        for path in _libraries(extension):
            _one(path, root)
    compiler = Path(_printed_by_gcc("libc.so.6")).parent
    for name in ("libgcc_s.so.1", "libstdc++.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0", "libm.so.6"):
        _one(compiler / name, root)
    install(root / "usr/lib/python3/dist-packages", *wheels)
    return _image_of(root, builder, "localhost/uenvtool-debian:1")


def _python(program: Path, library: Path, root: Path) -> Path:
    """Copy a Python with its standard library, and return the path of the library in the root directory."""
    for path in map(_program, ("sh", "bash", "env", "ldconfig", "find")):
        copied(path, root)
    copied(program, root)
    (root / "usr/bin/python3").symlink_to(program)
    unused = shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__", "idlelib", "tkinter", "config-*")
    shutil.copytree(library, f"{root}{library}", symlinks=True, ignore=unused)
    for extension in library.glob("lib-dynload/*.so"):
        for path in _libraries(extension):
            _one(path, root)
    return Path(f"{root}{library}")


def _empty_root(folder: Path) -> Path:
    """Return a root directory with the usual directories."""
    root = folder / "root"
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "tmp", "etc/ld.so.conf.d", "var/tmp", "proc", "dev"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n/usr/lib\n/usr/local/lib\n")
    return root


def _image_of(root: Path, builder: Builder, name: str, environment: Mapping[str, str] | None = None) -> str:
    """Return an image that contains only the files of a root directory."""
    lines = [f"ENV {variable}={value}" for variable, value in (environment or {}).items()]
    text = [
        "FROM scratch",
        "COPY root /",
        'RUN ["ldconfig"]',
        "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin",
        *lines,
    ]
    (root.parent / "Containerfile").write_text("\n".join(text) + "\n")
    built = builder.build(root.parent, name)
    assert built.code == 0, built.output
    return built.image


def _program(name: str) -> Path:
    return Path(need(name))


def _compiler(root: Path) -> Iterable[Path]:
    """Copy the headers, and yield the other files that gcc needs."""
    printed = subprocess.run(["gcc", "-print-libgcc-file-name"], capture_output=True, text=True, check=True).stdout
    own = Path(printed.strip()).parent
    for name in (
        "cc1",
        "collect2",
        "liblto_plugin.so",
        "crtbeginS.o",
        "crtendS.o",
        "crtbegin.o",
        "crtend.o",
        "libgcc.a",
    ):
        yield own / name
    shutil.copytree(own / "include", f"{root}{own}/include", symlinks=True)
    for name in ("Scrt1.o", "crt1.o", "crti.o", "crtn.o", "libc.so", "libc_nonshared.a", "libgcc_s.so.1"):
        yield Path(_printed_by_gcc(name))
    gcc_s = own / "libgcc_s.so"
    if gcc_s.is_file():
        yield gcc_s
    for pattern in HEADERS:
        for path in Path("/usr/include").glob(pattern):
            if path.is_dir() and path.name in {"bits", "gnu", "sys", "linux", "asm", "asm-generic"}:
                shutil.copytree(path, f"{root}{path}", symlinks=True, dirs_exist_ok=True)
            elif path.is_file():
                _one(path, root)


def copied(path: Path, root: Path) -> None:
    """Copy a program or library with the libraries that it loads."""
    _one(path, root)
    for library in _libraries(path):
        _one(library, root)


def _libraries(path: Path) -> list[Path]:
    """Return the libraries that a program or library loads."""
    loaded = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return [Path(word) for word in loaded.split() if word.startswith("/") and Path(word).is_file()]


def _printed_by_gcc(name: str) -> str:
    """Return the path where gcc finds a file."""
    found = subprocess.run([need("gcc"), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _one(path: Path, root: Path) -> None:
    target = Path(f"{root}{path}")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def archive(folder: Path, name: str, files: Mapping[str, str]) -> str:
    """Write sources as an archive `NAME.tar.gz` with the directory NAME, and return its SHA-256."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for file, text in files.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size = len(text.encode())
            entry.mode = 0o755 if text.startswith("#!") else 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.tar.gz").write_bytes(data.getvalue())
    return hashlib.sha256(data.getvalue()).hexdigest()
