"""Prints each preferred version that no package of the environment has. Run it with `spack -e DIRECTORY python`.

Argument: the CPU target of the nodes, because the versions of a package can depend on it.
"""

import platform
import sys

platform.machine = lambda: sys.argv[1]

import spack.config  # noqa: E402
import spack.repo  # noqa: E402
import spack.spec  # noqa: E402
from spack.version import ver  # noqa: E402

for name, settings in spack.config.CONFIG.get("packages").items():
    preferred = settings.get("version", []) if name != "all" else []
    if preferred and not spack.repo.PATH.exists(name):
        print(f"{name}: no such package")
        continue
    for version in preferred:
        known = [*spack.repo.PATH.get_pkg_class(name).versions]
        known += [spack.spec.Spec(external["spec"]).versions for external in settings.get("externals", [])]
        if not any(candidate.satisfies(ver(version)) for candidate in known):
            print(f"{name}: {version}")
