"""Test one image with two environments and the compilers of one of them, with real programs.

GCC and LLVM take hours to build. Instead, packages of the same names install programs that start the system's
compilers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.real.test_image_build import loaded, own_spack
from tests.support import peers
from tests.support.image_builds import MARKS
from tests.support.needs import need

pytestmark = [*MARKS, pytest.mark.xdist_group("spack")]
NOT_OF_PYTHON = "py-pip, py-six, py-packaging, py-typing-extensions, py-markupsafe, py-jinja2, python-venv"
TOOLS = f"""\
extends: hello
description: A library by clang, and programs by GCC.
remove: [{NOT_OF_PYTHON}]
compiler: gcc@12.4.0
compilers: {{llvm: 14.0.6}}
groups:
  tools: {{specs: [zlib-ng %llvm, zstd +programs]}}
  python: {{specs: []}}
view: {{name: tools, add_compilers: true}}
"""
SCRIPTS = """\
extends: hello
description: A package of Python, and a library by GCC.
remove: [zstd, pigz, py-packaging, py-typing-extensions, py-markupsafe, py-jinja2]
compiler: gcc@12.4.0
view: {name: scripts, env: {SCRIPTS: "${view_root}/bin"}}
"""
SYSTEM = "extends: local\ndescription: This machine, with a place for images.\nmount: /user-environment\n"
COMPILER = '''\
from spack_repo.builtin.build_systems.compiler import CompilerPackage
from spack_repo.builtin.build_systems.generic import Package
from spack_repo.builtin.packages.{package}.package import {name} as Whole

from spack.package import *


class {name}(Package, CompilerPackage):
    """The system's, behind programs that another compiler builds."""

    has_code = False
    version("{version}")
    {variants}
    depends_on("c", type="build")

    compiler_languages = ["c", "cxx", "fortran"]
    c_names, cxx_names, fortran_names = Whole.c_names, Whole.cxx_names, Whole.fortran_names
    compiler_wrapper_link_paths = Whole.compiler_wrapper_link_paths
    _cc_path, _cxx_path, _fortran_path = Whole._cc_path, Whole._cxx_path, Whole._fortran_path

    @property
    def supported_languages(self):
        return {languages}

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        for name in (self.c_names + self.cxx_names + self.fortran_names)[: len(self.supported_languages)]:
            with open("start.c", "w") as stream:
                stream.write(
                    "#include <unistd.h>\\n"
                    f'int main(int n, char **words) {{{{ words[0] = "/usr/bin/{{name}}"; '
                    "return execv(words[0], words); }}\\n"
                )
            Executable(spack_cc)("start.c", "-o", join_path(prefix.bin, name))
'''
OF_GCC = """\
variant(
        "languages",
        default="c,c++,fortran",
        values=("ada", "c", "c++", "d", "fortran", "go", "jit", "lto", "objc", "obj-c++"),
        multi=True,
        description="Languages",
    )
    provides("c", "cxx", when="languages=c,c++")
    provides("fortran", when="languages=fortran")"""
OF_LLVM = """\
variant("clang", default=True, description="C and C++")
    variant("flang", default=False, description="Fortran")
    provides("c", "cxx", when="+clang")"""
GCC = COMPILER.format(package="gcc", name="Gcc", version="12.4.0", variants=OF_GCC, languages='["c", "cxx", "fortran"]')
LLVM = COMPILER.format(package="llvm", name="Llvm", version="14.0.6", variants=OF_LLVM, languages='["c", "cxx"]')
PROGRAM = '#include <stdio.h>\n#ifdef __clang__\n#define BY "clang"\n#else\n#define BY "GCC"\n#endif\n'
PROGRAM += "int main(void) { puts(BY); return 0; }\n"
COMPILES = "cd {place}; for by in gcc clang; do command -v $by; $by program.c -o by-$by; ./by-$by; done"
MOUNT = "/user-environment"


def test_each_view_of_one_image_has_its_environment_and_its_compilers_compile(
    cli: Cli, write: Write, place: Path
) -> None:
    need("gcc", "g++", "gfortran", "clang", "readelf")
    for recipe, text in (("tools", TOOLS), ("scripts", SCRIPTS)):
        write(f"recipes/{recipe}/recipe.yaml", text)
        write(f"recipes/{recipe}/packages/gcc/package.py", GCC)
        write(f"recipes/{recipe}/packages/llvm/package.py", LLVM)
    write("here.yaml", SYSTEM)
    write("program.c", PROGRAM)
    options = ("--spack", peers.SPACK.need(), "--repo", f"builtin={peers.PACKAGES.need()}")
    words = ("--system", "here.yaml", *options, "--mirror", peers.SOURCES.need(), "--store", place / "store")

    built = cli("image", "build", "tools", "scripts", *words, "-o", "both.squashfs", "--json")

    assert built.code == 0, built.stderr
    image = str(place / "both.squashfs")
    meta = json.loads(loaded(image, "tools", "cat", f"{MOUNT}/meta/env.json"))
    assert (set(meta["views"]), meta["default-view"]) == ({"tools", "scripts", "spack"}, "tools")

    compiled = loaded(image, "tools", "bash", "-c", COMPILES.format(place=place))
    assert compiled.splitlines() == [
        f"{MOUNT}/compilers/gcc-12.4.0/bin/gcc",
        "GCC",
        f"{MOUNT}/compilers/llvm-14.0.6/bin/clang",
        "clang",
    ]
    comment = "readelf -p .comment {root}/env/{view}/lib/libz.so"
    by = {view: loaded(image, view, "sh", "-c", comment.format(root=MOUNT, view=view)) for view in ("tools", "scripts")}
    assert ("clang version" in by["tools"], "clang version" in by["scripts"]) == (True, False)
    assert loaded(image, "tools", "pigz", "--version").strip() == "pigz 2.8"
    assert loaded(image, "scripts", "bash", "-c", "command -v clang pigz || true; echo $SCRIPTS").split() == [
        "/usr/bin/clang",
        f"{MOUNT}/env/scripts/bin",
    ]
    six = loaded(image, "scripts", "python", "-c", "import six; print(six.__file__)")
    assert six.startswith(f"{MOUNT}/env/scripts/lib")

    assert cli("image", "verify", image).code == 0
    own_spack_builds_on(image, place)
    again = cli("image", "build", "envs/tools/here-host", "envs/scripts/here-host", *words[2:], "-o", "again.squashfs")
    assert again.code == 0, again.stderr
    assert (place / "again.squashfs").read_bytes() == (place / "both.squashfs").read_bytes()


def own_spack_builds_on(image: str, place: Path) -> None:
    """Test that the user's own Spack finds the compilers of an image and builds no package that it contains."""
    run = own_spack(image, "spack", place)
    assert {"gcc@12.4.0", "llvm@14.0.6"} <= {word for word in run("compilers").split() if "@" in word}
    planned = run("spec", "--install-status", "zlib-ng@2.2.2 %llvm")
    assert planned.startswith("[^]"), planned  # Spack's mark of what an upstream has
