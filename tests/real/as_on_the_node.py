"""Run by `spack -e FOLDER python`: concretizes that environment as if this machine were a node of another kind.

Arguments: target, operating system, C library's version, environment folder. What is pretended: the
CPU, the operating system, and what the compiler and its dynamic loader say when they are asked for
the C library. Written for the internals of Spack v1.1.
"""

import re
import sys
from pathlib import Path

import spack.compilers.libraries
import spack.environment
import spack.operating_systems.linux_distro
import spack.platforms
import spack.platforms.linux
import spack.spec
import spack.util.libc
import spack.vendor.archspec.cpu

target, system, libc, folder = sys.argv[1:5]
uarch = spack.vendor.archspec.cpu.TARGETS[target]
name, version = re.fullmatch(r"([a-z]+)([0-9.]+)", system).groups()
loader = Path(folder).parent / "loader"
loader.write_text(f'#!/bin/sh\necho "ld.so (GNU libc) stable release version {libc}."\n')
loader.chmod(0o755)


def distribution(self):
    super(spack.operating_systems.linux_distro.LinuxDistro, self).__init__(name, version)


def from_loader(*_):
    spec = spack.spec.Spec(f"glibc@={libc}")
    spec.external_path = "/usr"
    return spec


spack.vendor.archspec.cpu.host = lambda: uarch
spack.operating_systems.linux_distro.LinuxDistro.__init__ = distribution
spack.util.libc.libc_from_current_python_process = from_loader
spack.util.libc.libc_from_dynamic_linker = from_loader
detector = spack.compilers.libraries.CompilerPropertyDetector
detector.compiler_verbose_output = lambda self: f" collect2 -dynamic-linker {loader} -o a.out\n"

host = spack.platforms.linux.Linux()
spack.platforms.host = lambda: host
found = str(host.default_target()), str(host.default_operating_system())
if found != (target, system):
    sys.exit(f"Spack sees {found}")
environment = spack.environment.active_environment()
environment.concretize(force=True)
environment.write(regenerate=False)
