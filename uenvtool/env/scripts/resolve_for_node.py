"""Resolves an environment for a node on another machine. `spack -e DIR python` runs this script.

Spack detects the CPU and the operating system of the current machine, and runs each compiler to find its C library. If
a compiler does not run, Spack omits compiler-wrapper and gcc-runtime, and packages installed from such a lock have no
RPATHs. Therefore this script gives Spack the facts from the system file instead.

Argument: a JSON file with `target`, `os`, `libc` (a spec) and `libc_prefix` (the prefix of the C library). Without this
file, the script resolves for the current machine.

The script replaces internals of Spack 1.1 and 1.2. uenvtool/env/resolve.py checks the version. If an internal is
missing, the script exits with a message and writes no lock.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import spack.bootstrap
import spack.environment

LOADER = "/lib/ld-linux.so"
"""The dynamic loader that every compiler reports. Spack never reads this file, since `node_libc` names the library."""


def replace(owner: Any, name: str, value: object) -> None:
    """Replace an internal of Spack, or exit with a message if this Spack does not have it."""
    if not hasattr(owner, name):
        sys.exit(f"this Spack has no {getattr(owner, '__name__', owner)}.{name}")
    setattr(owner, name, value)


def answer_as_node(target: str, os: str, libc: str, libc_prefix: str) -> None:
    """Make Spack use the facts of the node instead of the facts that it detects on this machine."""
    import spack.archspec
    import spack.compilers.libraries
    import spack.operating_systems.linux_distro
    import spack.platforms
    import spack.spec
    import spack.util.libc
    import spack.vendor.archspec.cpu

    microarchitecture = spack.vendor.archspec.cpu.TARGETS[target]
    family = microarchitecture.family

    def set_name(self: Any) -> None:
        super(spack.operating_systems.linux_distro.LinuxDistro, self).__init__(os, "")

    def node_libc(*_: object) -> Any:
        spec = spack.spec.Spec(libc)
        spec.external_path = libc_prefix
        return spec

    def verbose_output(_: object) -> str:
        return f" collect2 -dynamic-linker {LOADER} -o a.out\n"

    replace(spack.vendor.archspec.cpu, "host", lambda: microarchitecture)
    replace(spack.archspec, "HOST_TARGET_FAMILY", family)
    replace(platform, "machine", lambda: family.name)  # 69 packages choose their sources by it
    replace(spack.operating_systems.linux_distro.LinuxDistro, "__init__", set_name)
    replace(spack.util.libc, "libc_from_current_python_process", node_libc)
    replace(spack.util.libc, "libc_from_dynamic_linker", node_libc)
    replace(spack.compilers.libraries.CompilerPropertyDetector, "compiler_verbose_output", verbose_output)
    spack.platforms.reset()
    seen = str(spack.platforms.host().default_target()), str(spack.platforms.host().default_operating_system())
    if seen != (target, os):
        sys.exit(f"this Spack sees {' '.join(seen)} instead of {target} {os}")
    forget_packages()


def forget_packages() -> None:
    """Make Spack read each package again, since the packages that it loaded for its index are for this machine.

    Exits with a message if Spack cannot read a repository. Spack would only warn, and treat the packages as missing.
    """
    import spack.config
    import spack.repo

    construct = spack.repo.RepoDescriptors.construct

    def construct_all(*arguments: Any, **options: Any) -> Any:
        path, broken = construct(*arguments, **options)
        if broken:
            sys.exit("a package repository could not be read: " + "; ".join(map(str, broken.values())))
        return path, broken

    spack.repo.PATH.disable()
    replace(spack.repo.RepoDescriptors, "construct", construct_all)
    for name in [name for name in sys.modules if name.startswith("spack_repo.")]:
        del sys.modules[name]
    replace(spack.repo, "PATH", spack.repo.create_and_enable(spack.config.CONFIG))


def main() -> None:
    """Resolve the active environment and write its lock, without regenerating its view."""
    with spack.bootstrap.ensure_bootstrap_configuration():  # clingo must run on this machine, so load it first
        spack.bootstrap.ensure_clingo_importable_or_raise()
    if len(sys.argv) > 1:
        answer_as_node(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    environment = spack.environment.active_environment()
    with environment.write_transaction():
        specs = environment.concretize(force=True)
        environment.write(regenerate=False)
    sys.stdout.write(f"==> Concretized {len(specs)} specs\n")


if __name__ == "__main__":
    main()
