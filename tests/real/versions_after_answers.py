"""Prints the versions of cray-pals before and after another kind of node answers. Run by `spack -e DIRECTORY python`.

Arguments: the script that answers, and the node's target.
"""

import runpy
import sys

import spack.repo

script, target = sys.argv[1:]


def versions():
    return sorted(str(version) for version in spack.repo.PATH.get_pkg_class("cray-pals").versions)


before = versions()
answers = {"target": target, "os": "sles15", "libc": "glibc@=2.31", "libc_prefix": "/usr"}
runpy.run_path(script)["answer_as_node"](**answers)
print(before, versions())
