"""Run by `spack -e FOLDER python`: resolves that environment with a node's answers in place of this machine's.

Spack asks the machine that it runs on for its CPU and its operating system, and each compiler for the
C library that it links. Where a compiler does not answer, Spack leaves it out, and with it
compiler-wrapper and gcc-runtime: such a lock installs packages without RPATHs. So these questions are
answered here from the system file. Argument: a JSON file with `target`, `os`, `libc` (a spec) and
`libc_prefix`; without it this machine is the node and answers itself.
What is replaced are internals of Spack 1.1 and 1.2 (uenvtool/env/resolve.py knows which versions fit); if one is
missing, the script ends with a message and writes no lock.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import spack.bootstrap
import spack.environment

LOADER = "/lib/ld-linux.so"
"""What every compiler names as its dynamic loader; its file is never read, see `node_libc`."""


def replace(owner: Any, name: str, value: object) -> None:
    """Replace an internal of Spack's; end where this Spack has none of that name."""
    if not hasattr(owner, name):
        sys.exit(f"this Spack has no {getattr(owner, '__name__', owner)}.{name}")
    setattr(owner, name, value)


def answer_as_node(target: str, os: str, libc: str, libc_prefix: str) -> None:
    """Give the node's answers to what Spack asks the machine and the compilers."""
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
        sys.exit(f"this Spack sees {' '.join(seen)} in place of {target} {os}")
    forget_packages()


def forget_packages() -> None:
    """Have Spack read each package again: those that it loaded for its index have this machine's versions.

    Ends where a repository cannot be read, of which Spack only warns: what is in it would count as not there.
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


def load_solver() -> None:
    """Load clingo, or let Spack fetch it: for this machine, so before a node answers."""
    with spack.bootstrap.ensure_bootstrap_configuration():
        spack.bootstrap.ensure_clingo_importable_or_raise()


def main() -> None:
    """Resolve the active environment and write its lock; its view is left alone."""
    load_solver()
    if len(sys.argv) > 1:
        answer_as_node(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    environment = spack.environment.active_environment()
    with environment.write_transaction():
        specs = environment.concretize(force=True)
        environment.write(regenerate=False)
    sys.stdout.write(f"==> Concretized {len(specs)} specs\n")


if __name__ == "__main__":
    main()
