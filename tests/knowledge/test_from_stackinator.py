"""Test the conversion of Stackinator recipes. Settings that cannot be expressed become comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli, Write
from tests.env.test_environment import planned
from uenvtool.env.compilers import plain
from uenvtool.env.manifest import render, render_manifest
from uenvtool.env.stackinator import LEFT_TO_STACKINATOR, render_recipe

SPACK_2 = "repo: https://s, commit: v1.1.1, packages: {repo: https://p, commit: releases/v2026.06}"
FILES = {
    "config.yaml": "{name: tools, store: /user-tools, version: 2, description: 'Ours: all', default-view: main, "
    f"spack: {{{SPACK_2}}}}}\n",
    "compilers.yaml": 'gcc: {version: "14"}\nnvhpc: {version: "25.7"}\nllvm: null\n',
    "environments.yaml": """\
env:
  compiler: [gcc, nvhpc]
  network:
    mpi: cray-mpich@8.1.32 +cuda %fortran=nvhpc
    specs: ['libfabric@2.3 +cuda']
  unify: True
  specs:
  # why fmt
  # is here: https://x
  - fmt@11
  - hdf5 +cxx   # beside
  - cmake
  - hdf5+mpi
  variants: [+mpi, cuda_arch=90]
  views:
    all: null
    main:
      link: run
      exclude: [gcc-runtime]
      uenv:
        add_compilers: no
        prefix_paths: {LD_LIBRARY_PATH: [lib, lib64]}
        env_vars:
          set: [HOME_OF_IT: $@mount@/x, FLAG: 'on', GONE: null, OF_SHELL: '${@USER@}/x']
          prepend_path: [PATH: $@mount@/one, PATH: $@view_path@/two]
""",
    "packages.yaml": """\
packages:
  all: {require: [~x11], prefer: [+openmp]}
  cuda: {require: ["@12:12.8"]}
  llvm: {require: llvm ~gold ~cuda, buildable: true}
  gl: {require: egl}
""",
    "modules.yaml": "modules: {prefix_inspections: {bin: [PATH]}, default: {tcl: {hash_length: 0}}}\n",
    "repo/packages/mine/package.py": "class Mine: ...\n",
    "extra/reframe.yaml": "main: {features: [mpi], cc: mpicc, views: [main]}\n",
    "extra/other.jl": "",
    "pre-install": "curl x\n",
    "post-install": "echo {{ env.mount }}\n",
}
OLD = {
    "config.yaml": "{name: old, modules: False, spack: {repo: https://s, commit: releases/v0.23}}\n",
    "compilers.yaml": "bootstrap: {spec: gcc@12}\ngcc: {specs: [gcc@13.2]}\nllvm: {specs: [nvhpc@24.11]}\n",
    "environments.yaml": """\
env:
  compiler: [{toolchain: gcc, spec: gcc}, {toolchain: llvm, spec: nvhpc}]
  mpi: {spec: cray-mpich@8.1.30%nvhpc, gpu: cuda}
  unify: when_possible
  specs: [libxc@5.2.3%nvhpc~cuda, 'hdf5 %gcc +mpi ^zlib%gcc+shared', hdf5~mpi]
  packages: [perl, git]
  views: {default: null}
two:
  compiler: [{toolchain: gcc, spec: gcc}]
  mpi: {spec: cray-mpich, gpu: Null}
  specs: [zstd]
""",
    "modules.yaml": "modules: {}\n",
    "repo/packages/py-x/package.py": "",
}


@pytest.fixture
def imported(write: Write, cli: Cli, place: Path) -> Any:
    """Import a recipe of Stackinator, given by its files; the text of ours."""

    def run(files: dict[str, str], name: str = "mine") -> str:
        for file, text in files.items():
            write(f"theirs/{file}", text)
        answer = cli("new", "recipe", "mine", "--from", "theirs")
        assert answer.code == 0, answer.stderr
        assert cli("validate", f"recipes/{name}").code == 0
        return (place / "recipes" / name / "recipe.yaml").read_text()

    return run


def test_all_that_a_recipe_can_say_is_said(imported: Any, place: Path) -> None:
    text = imported(FILES)

    own = yaml.safe_load(text)
    assert (own["description"], own["mount"]) == ("Ours: all", "/user-tools")
    assert own["spack"] == {"url": "https://s", "tag": "v1.1.1"}
    assert own["repos"] == {"builtin": {"url": "https://p", "branch": "releases/v2026.06"}}
    profiled = "build_type=Release +bootstrap +profiled +strip ~binutils languages=c,c++,fortran"
    assert own["compiler"] == f"gcc@14.3.0 {profiled}"
    assert own["compilers"] == {"nvhpc": {"version": "25.7", "variants": "~mpi~blas~lapack"}}
    assert own["mpi"] == {"cray-mpich": {"version": "8.1.32", "variants": "+cuda %fortran=nvhpc"}}
    assert own["groups"] == {
        "network": {"specs": ["libfabric@2.3 +cuda"]},
        "specs": {"specs": ["fmt@11", "hdf5 +cxx +mpi", "cmake"]},
    }
    assert own["variants"]["all"]["values"] == ["+mpi", "cuda_arch=90"]
    assert own["view"] == {
        "name": "main",
        "link": "run",
        "exclude": ["gcc-runtime"],
        "add_compilers": False,
        "prefix_paths": {"LD_LIBRARY_PATH": ["lib", "lib64"]},
        "prepend_path": {"PATH": ["${view_root}/two", "${mount}/one"]},
        "env": {"HOME_OF_IT": "${mount}/x", "FLAG": "on", "GONE": None},
    }
    assert own["views"] == {"all": {"link": "roots"}}
    assert own["require"] == {
        "cuda": {"version": "12:12.8"},
        "llvm": {"variants": "~gold ~cuda"},
        "gl": {"provider": "egl"},
    }
    files = {
        "reframe": "extra/reframe.yaml",
        "post_install": "post-install",
        "files": ["extra/other.jl", "pre-install"],
    }
    assert own["deployment"] == {"name": "tools", **files}
    assert "    # why fmt\n    # is here: https://x\n    - fmt@11\n" in text
    assert "  # beside; joined from two lines" in text
    assert {str(path.relative_to(place / "recipes/mine")) for path in (place / "recipes/mine").rglob("*.*")} == {
        "recipe.yaml",
        "modules.yaml",
        "extra/reframe.yaml",
        "extra/other.jl",
        "packages/mine/package.py",
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "remark"),
    [
        ("config.yaml", "store:", "cleanup: build, store:", 'cleanup: "build"'),
        ("config.yaml", "main", "modules", 'default-view: "modules"'),
        ("compilers.yaml", "llvm: null", 'llvm-amdgpu: {version: "6"}', 'llvm-amdgpu: {"version": "6"}'),
        ("environments.yaml", "  unify: True", "  unify: false", "unify: false: when_possible"),
        ("environments.yaml", "  unify: True", "  deprecated: true", "deprecated: true"),
        ("environments.yaml", "  unify: True", "  duplicates: {strategy: full}", 'duplicates: {"strategy": "full"}'),
        ("environments.yaml", "  unify: True", "  packages: [perl]", 'packages: ["perl"]'),
        ("environments.yaml", "[gcc, nvhpc]", "[intel-oneapi-compilers, gcc]", 'compiler: "intel-oneapi-compilers"'),
        (
            "environments.yaml",
            "mpi: cray-mpich@8.1.32 +cuda %fortran=nvhpc",
            "mpi: null",
            'specs: ["libfabric@2.3 +cuda"]',
        ),
        ("environments.yaml", "link: run", "projections: {all: x}", 'projections: {"all": "x"}'),
        ("environments.yaml", "prepend_path", "append_path", "append_path: "),
        ("environments.yaml", "", "", 'OF_SHELL: "${@USER@}/x"'),
        ("environments.yaml", "", "", "add_compilers: true; prefix_paths: {}; env_vars: {}"),
        ("packages.yaml", "", "", 'require: ["~x11"]'),
        ("packages.yaml", "", "", 'prefer: ["+openmp"]'),
        ("packages.yaml", "", "", "buildable: true"),
        ("packages.yaml", "llvm ~gold ~cuda", "[{any_of: [~gold]}]", 'require: [{"any_of": ["~gold"]}]'),
        ("extra/other.jl", "", "\0", "extra/other.jl: only text files of up to 10 MB"),
    ],
)
def test_settings_that_recipes_lack_become_comments(imported: Any, file: str, old: str, new: str, remark: str) -> None:
    text = imported({**FILES, file: FILES[file].replace(old, new) if old else FILES[file] + new})

    comments = " ".join(line.strip().lstrip("# ") for line in text.splitlines() if line.strip().startswith("#"))
    assert f"left out: {remark}" in comments


def test_the_files_next_to_a_recipe_and_its_name_are_exported_again(imported: Any) -> None:
    features = "main: {features: [mpi], extras: {a: b}, views: [main]}\nother: {activation: x}  # why\n"
    kept = {"extra/reframe.yaml": features, "helpers/bind": "#!/bin/bash\n", "scripts/a/b+c.py": "x"}
    imported({**FILES, **kept})

    ours = planned("mine", "clariden", "gh200")
    exported = render_recipe(ours, 2)

    assert render(ours)["extra/other.jl"] == FILES["extra/other.jl"]
    assert yaml.safe_load(exported["config.yaml"])["name"] == "tools"
    assert exported["extra/reframe.yaml"].endswith(features)
    names = ("helpers/bind", "scripts/a/b+c.py", "extra/other.jl", "pre-install", "post-install")
    assert {name: exported[name] for name in names} == {name: {**FILES, **kept}[name] for name in names}


COMMENTED = {
    "config.yaml": """\
# about the recipe
name: tools  # its name
version: 2
spack:
  # the Spack
  repo: https://s#fragment
  commit: v1.1.1
  packages:
    repo: https://p
    commit: v2026.06.0  # the packages
""",
    "compilers.yaml": 'gcc: {version: "14.2.0"}  # the compiler\n',
    "environments.yaml": """\
# about all environments
one:
  compiler: [gcc]
  # about the network
  network:
    mpi: cray-mpich@8.1.32  # the MPI
  specs:
  # above zstd
  - zstd
  - "lz4 cflags='# no comment'"
  # below the list
  # - hdf5
  views:
    # about the view
    default:
      uenv:
        env_vars:
          set:
          # above FLAG
          - FLAG: x
          - TEXT: "# no comment"  # next to TEXT
# about two
two:
  compiler: [gcc]
  specs: [pigz]  # next to pigz
""",
    "packages.yaml": """\
packages:
  # above cuda
  cuda:
    require: ["@12"]  # next to the version
""",
}
PLACES = [
    "spack:  # the Spack\n",
    "repos:  # the packages\n",
    "# the compiler\ncompiler: 'gcc@14.2.0 ",
    "  cray-mpich: {version: '8.1.32'}  # the MPI\n",
    "    # above zstd\n    - zstd\n",
    "# no comment'''\n    # below the list\n    # - hdf5\n",
    "  # about the view\n  name: default\n",
    "    FLAG: 'x'  # above FLAG\n    TEXT: '# no comment'  # next to TEXT\n",
    "  cuda: {version: '12'}  # above cuda; next to the version\n",
    "# config.yaml:1: about the recipe\n# config.yaml:2: its name\n",
    "# environments.yaml:1: about all environments\n# environments.yaml:4: about the network\n",
]


def test_each_comment_is_kept_at_the_converted_setting_or_with_its_place(imported: Any, place: Path) -> None:
    text = imported(COMMENTED, "mine-one")

    other = (place / "recipes/mine-two/recipe.yaml").read_text()
    assert [expected for expected in PLACES if expected not in text] == []
    assert ("pigz" in text, "about two" in text) == (False, False)
    assert "    - pigz  # next to pigz\n" in other
    assert "# environments.yaml:22: about two\n" in other


def test_a_recipe_without_a_default_view_stays_without_one(imported: Any) -> None:
    config = FILES["config.yaml"].replace("default-view: main, ", "")

    own = yaml.safe_load(imported({**FILES, "config.yaml": config}))

    assert (own["view"]["load"], own["view"]["name"]) == ("none", "all")
    ours = planned("mine", "clariden", "gh200")
    assert "default-view" not in yaml.safe_load(render_recipe(ours, 3)["config.yaml"])


def test_a_recipe_of_version_1_is_read_in_the_words_of_the_later_ones(imported: Any, place: Path) -> None:
    text = imported(OLD, "mine-env")

    own = yaml.safe_load(text)
    assert "left out: Spack releases/v0.23 of https://s: uenvtool needs a newer Spack" in text
    assert "left out: repo/packages/py-x: packages for Spack before 1.0 have another form" in text
    assert 'left out: bootstrap: {"spec": "gcc@12"}' in text
    assert own["compiler"] == "gcc@13.2.0 build_type=Release +bootstrap +strip languages=c,c++,fortran"
    assert own["compilers"]["nvhpc"]["version"] == "24.11"
    assert own["mpi"] == {"cray-mpich": {"version": "8.1.30", "variants": "+cuda %nvhpc"}}
    assert own["unify"] == "when_possible"
    assert own["groups"] == {
        "specs": {"specs": ["libxc@5.2.3 ~cuda %nvhpc", "hdf5 +mpi %gcc ^zlib +shared %gcc"]},
        "specs-2": {"specs": ["hdf5~mpi"]},
    }
    assert "modules" not in own  # it says that it makes none
    other = yaml.safe_load((place / "recipes/mine-two/recipe.yaml").read_text())
    assert (other["mpi"], other["groups"]) == ({"cray-mpich": {}}, {"specs": {"specs": ["zstd"]}})


def test_a_recipe_of_version_3_may_take_the_systems_gcc_and_several_repositories(imported: Any) -> None:
    repos = "{builtin: {repo: https://p}, own: {repo: https://o, path: r/own}}"
    files = {
        "config.yaml": f"{{name: t, version: 3, spack: {{repo: https://s, commit: develop, packages: {repos}}}}}\n",
        "compilers.yaml": "gcc: {version: system}\nllvm: {version: '21.1.4', spec: +clang +flang}\n",
        "environments.yaml": "env: {compiler: [gcc, llvm], specs: [zstd %llvm]}\n",
    }

    own = yaml.safe_load(imported(files))

    assert own["spack"] == {"url": "https://s", "branch": "develop"}
    assert own["repos"] == {"builtin": {"url": "https://p"}, "own": {"url": "https://o", "paths": ["r/own"]}}
    assert "compiler" not in own
    assert own["compilers"] == {"llvm": {"version": "21.1.4", "variants": "+clang +flang"}}


def test_a_converted_recipe_with_errors_is_written_and_its_errors_are_printed(write: Write, cli: Cli) -> None:
    for file, text in OLD.items():
        write(f"theirs/{file}", text.replace("specs: [zstd]", "specs: [nvhpc@25.1]"))

    answer = cli("new", "recipe", "mine", "--from", "theirs")

    assert answer.code == 2
    assert "recipes/mine-two/recipe.yaml:23:3: nvhpc is requested at 24.11, but recipes/mine-two/" in answer.stderr
    assert cli("validate", "recipes/mine-two").code == 2


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("packages.yaml", "cuda: {", "TEXT: {"),
        ("environments.yaml", "HOME_OF_IT", "TEXT"),
        ("environments.yaml", "LD_LIBRARY_PATH", "TEXT"),
        ("environments.yaml", "link: run", "link: TEXT"),
    ],
)
def test_what_would_be_a_line_of_its_own_is_text_of_one(
    write: Write, cli: Cli, place: Path, file: str, old: str, new: str
) -> None:
    hostile = new.replace("TEXT", r'"run\nmount: /evil\n#"')
    for name, text in FILES.items():
        write(f"theirs/{name}", text.replace(old, hostile) if name == file else text)

    answer = cli("new", "recipe", "mine", "--from", "theirs")

    assert answer.code == 2, answer.stderr
    assert yaml.safe_load((place / "recipes/mine/recipe.yaml").read_text())["mount"] == "/user-tools"


@pytest.mark.parametrize("recipe", ["pytorch-2.9", "pytorch-2.6"])
@pytest.mark.parametrize("version", [2, 3])
def test_what_we_write_for_stackinator_is_read_back_to_the_same_packages(
    imported: Any, recipe: str, version: int
) -> None:
    ours = planned(recipe, "clariden", "gh200")
    files = {name: text for name, text in render_recipe(ours, version).items() if name != "deployment.yaml"}

    imported(files)

    back = planned("mine", "clariden", "gh200")
    assert {root.package for root in ours.roots} - {root.package for root in back.roots} <= {
        "gcc",
        *LEFT_TO_STACKINATOR,
    }
    assert {root.package for root in back.roots} <= {root.package for root in ours.roots}
    names, expected = ([(one.name, plain(one.external)) for one in each.compilers] for each in (back, ours))
    assert names == expected
    view, was = (yaml.safe_load(render_manifest(one))["spack"] for one in (back, ours))
    assert view["view"] == was["view"]
    assert view["env_vars"] == was["env_vars"]


def test_a_stackinator_recipe_without_environments_is_an_error(write: Write, cli: Cli) -> None:
    for file, text in {**FILES, "environments.yaml": "{}\n"}.items():
        write(f"theirs/{file}", text)

    answer = cli("new", "recipe", "mine", "--from", "theirs")

    assert answer.code == 2
    assert "theirs/environments.yaml:1:1: the recipe has no environment" in answer.stderr
