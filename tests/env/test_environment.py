"""Test the content of spack.yaml, and that it depends only on the inputs."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, SMALL, Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.env.directory import inputs_of
from uenvtool.env.environment import Environment
from uenvtool.env.install import InstallOptions, configuration
from uenvtool.env.installable import pins_of, read_installable
from uenvtool.env.manifest import render, render_manifest
from uenvtool.env.plan import plan_environment
from uenvtool.env.resolve import config_section
from uenvtool.env.stackinator import render_recipe
from uenvtool.env.table import compared
from uenvtool.image.build import install_options
from uenvtool.image.request import ImageRequest
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.lock import Lock, Package
from uenvtool.knowledge.secrets import NOT_WRITTEN
from uenvtool.knowledge.system import load_system

PINS = """\
require: {zstd: {variants: 'cuda_arch=${cuda_arch}'}}
python: {version: =3.12.13, variants: 'cflags=-m${cuda_arch}'}
"""
HELLO = str(ROOT / "envs" / "hello" / "clariden-gh200")


def planned(recipe: str, system: str, uarch: str) -> Environment:
    return plan_environment(load_recipe(recipe), load_system(system), uarch)


def data(environment: Environment) -> Any:
    return yaml.load(render_manifest(environment), yaml.CSafeLoader)["spack"]


COMPILERS = """\
compiler: gcc@13.3.0
compilers:
  llvm: {version: 19.1.7, variants: +clang ~gold}
  nvhpc: {version: 25.1, when: gpu == nvidia}
groups:"""


def test_further_compilers_are_built_by_the_gcc_that_is_built_first(write: Write) -> None:
    text = SMALL.replace("groups:", COMPILERS, 1).replace("view: {", "view: {add_compilers: true, ")
    write("recipes/mine/recipe.yaml", text)

    files = render(planned("mine", "clariden", "gh200"))

    assert [name for name in files if name.startswith("compiler/")] == [
        "compiler/spack.yaml",
        "compiler/llvm/spack.yaml",
        "compiler/nvhpc/spack.yaml",
    ]
    main, llvm = (yaml.safe_load(files[name])["spack"] for name in ("spack.yaml", "compiler/llvm/spack.yaml"))
    packages, built = main["packages"], "/user-environment/compilers"
    assert packages["c"]["require"] == [{"any_of": ["gcc@13.3.0", "llvm@19.1.7", "nvhpc@25.1"]}]
    assert packages["fortran"]["require"] == [{"any_of": ["gcc@13.3.0", "nvhpc@25.1"]}]  # this llvm has none
    assert packages["llvm:"]["externals"][0]["extra_attributes"]["compilers"] == {
        "c": f"{built}/llvm-19.1.7/bin/clang",
        "cxx": f"{built}/llvm-19.1.7/bin/clang++",
    }
    assert main["concretizer"]["duplicates"] == {"max_dupes": {"c": 3, "cxx": 3, "fortran": 2}}
    assert packages["llvm:"]["externals"][0]["spec"].startswith("llvm@19.1.7 +clang ~gold ")
    nvc = f"{built}/nvhpc-25.1/Linux_aarch64/25.1/compilers/bin"
    assert packages["nvhpc:"]["externals"][0]["extra_attributes"]["compilers"]["c"] == f"{nvc}/nvc"
    assert llvm["packages"]["c"]["require"] == ["gcc@13.3.0"]
    assert llvm["packages"]["gcc:"]["externals"][0]["prefix"] == f"{built}/gcc-13.3.0"
    assert main["env_vars"]["prepend_path"]["PATH"] == f"{built}/gcc-13.3.0/bin:{built}/llvm-19.1.7/bin:{nvc}"


def test_without_a_compiler_of_its_own_a_recipe_leaves_the_choice_where_no_spec_names_one(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL.replace("groups:", "compilers: {llvm: 19.1.7}\ngroups:", 1))

    files = render(planned("mine", "clariden", "gh200"))

    assert "c" not in yaml.safe_load(files["spack.yaml"])["spack"]["packages"]
    assert yaml.safe_load(files["compiler/llvm/spack.yaml"])["spack"]["packages"]["c"]["require"] == ["gcc@12.3.0"]


def test_a_recipe_in_its_usual_place_is_made_again_by_its_name_and_another_by_its_path(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("elsewhere/mine.yaml", SMALL)

    usual, other = (
        render(planned(name, "clariden", "gh200"))["spack.yaml"] for name in ("mine", "elsewhere/mine.yaml")
    )

    assert "regenerate: uenvtool build mine --system clariden\n" in usual
    assert "regenerate: uenvtool build elsewhere/mine.yaml --system clariden\n" in other


SEVERAL = """\
extends: hello
unify: when_possible
groups:
  tools: {specs: ["zstd@1.5.6 +programs"]}
  libraries: {specs: ["zstd@1.5.5 ~programs"]}
require: {zstd: null}
view: {link: all, exclude: [zstd, "pigz@2.8"]}
views:
  programs: {link: roots, select: [zstd +programs], reason: for those who compress by hand}
"""


def test_a_group_has_a_name_that_spack_reads_to_its_end_and_a_provided_package_no_architecture(write: Write) -> None:
    pins = "require: {blas: {provider: openblas}, openblas: {variants: threads=openmp}}\n"
    write("recipes/mine/recipe.yaml", SMALL.replace("all:", "my-tools:", 1) + pins)

    main = data(planned("mine", "clariden", "gh200"))

    assert main["specs"] == [{"matrix": [["$my_tools"], ["$arch"]]}]
    assert any("my_tools" in definition for definition in main["definitions"])
    assert main["packages"]["blas"]["require"] == ["openblas"]
    assert main["packages"]["openblas"]["require"] == ["threads=openmp", "os=sles15 target=neoverse_v2"]


@pytest.mark.parametrize(
    ("compilers", "duplicates", "fortran"),
    [
        ("compiler: llvm@19.1.7 +clang +flang", {}, "llvm@19.1.7 +clang +flang"),
        ("compiler: gcc@13.3.0\ncompilers: {llvm: 19.1.7}", {"max_dupes": {"c": 2, "cxx": 2}}, "gcc@13.3.0"),
    ],
)
def test_a_compiler_has_fortran_if_flang_is_in_it(
    write: Write, compilers: str, duplicates: dict[str, Any], fortran: str
) -> None:
    write("recipes/mine/recipe.yaml", SMALL.replace("groups:", f"{compilers}\ngroups:", 1))

    main = data(planned("mine", "clariden", "gh200"))

    assert main["concretizer"].get("duplicates", {}) == duplicates
    assert main["packages"]["fortran"]["require"] == [fortran]
    flang = main["packages"]["llvm:"]["externals"][0]["extra_attributes"]["compilers"].get("fortran", "")
    assert flang.endswith("/bin/flang") is fortran.startswith("llvm")


def test_variants_of_a_compiler_are_for_the_one_that_is_built_and_not_for_the_systems_own(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL.replace("groups:", "compiler: gcc@12.3.0 +bootstrap\ngroups:", 1))

    assert data(planned("mine", "clariden", "gh200"))["packages"]["c"]["require"] == ["gcc@12.3.0"]


def test_a_recipe_has_a_mount_point_folders_and_branches_of_its_own(write: Write) -> None:
    paths = "view: {add_compilers: true, prepend_path: {PATH: ['${mount}/first', '${view_root}/then'], L: [/opt/lib]}, "
    text = SMALL.replace("groups:", "mount: /user-tools\ncompiler: gcc@13.3.0\ngroups:", 1).replace("view: {", paths)
    write("recipes/mine/recipe.yaml", text.replace("tag: v2026.06.0", "branch: releases/v2026.06"))

    environment = planned("mine", "clariden", "gh200")
    spack, exported = data(environment), yaml.safe_load(render_recipe(environment, 2)["environments.yaml"])["mine"]

    assert spack["config"]["install_tree"]["root"] == "/user-tools"
    assert spack["view"]["default"]["root"] == "/user-tools/env/default"
    assert spack["repos"]["builtin"]["branch"] == "releases/v2026.06"
    assert pins_of(spack) == environment.pins
    own, gcc = "/user-tools/first:/user-tools/env/default/then", "/user-tools/compilers/gcc-13.3.0/bin"
    assert spack["env_vars"]["prepend_path"] == {"PATH": f"{own}:{gcc}", "L": "/opt/lib"}
    assert exported["views"]["default"]["uenv"]["env_vars"]["prepend_path"] == [
        {"PATH": "/user-tools/env/default/then"},  # the last one comes first
        {"PATH": "/user-tools/first"},
        {"L": "/opt/lib"},
    ]


def test_views_select_and_exclude_as_spack_itself_reads_it(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SEVERAL)
    write("systems/here.yaml", "extends: clariden\n")

    spack = data(planned("mine", "here", "gh200"))

    assert spack["concretizer"]["unify"] == "when_possible"
    assert spack["view"] == {
        "default": {"root": "/user-environment/env/default", "link": "all", "exclude": ["zstd", "pigz@2.8"]},
        "programs": {"root": "/user-environment/env/programs", "link": "roots", "select": ["zstd +programs"]},
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("unify: when_possible\n", "", "zstd is already a root spec at"),
        ("require: {zstd: null}", "require: {zstd: =1.5.6}", "zstd is requested at"),
        ("  programs: {link", "  spack: {link", "'spack' is already used"),
        ("  programs: {link", "  default: {link", "'default' is already used"),
        ("unify: when_possible", "unify: false", "False is not one of True, when_possible"),
    ],
)
def test_what_views_cannot_tell_apart_is_refused(write: Write, old: str, new: str, message: str) -> None:
    write("recipes/mine/recipe.yaml", SEVERAL.replace(old, new))

    with pytest.raises(BadInput) as raised:
        load_recipe("mine")

    assert message in str(raised.value)


@pytest.mark.parametrize("kind", ["enable: [lmod]", "roots: {lmod: /m}", "tcl: {hash_length: 0}"])
def test_the_configuration_of_modules_is_passed_on_and_no_version_depends_on_it(write: Write, kind: str) -> None:
    text = f"modules:  # ours\n  default: {{{kind}, lmod: {{core_compilers: [gcc]}}}}\n"
    write("recipes/mine/modules.yaml", text)
    write("recipes/mine/recipe.yaml", "extends: hello\ndescription: Mine.\n")
    before = inputs_of(render(planned("mine", "clariden", "gh200")))
    write("recipes/mine/recipe.yaml", "extends: hello\ndescription: Mine.\nmodules: modules.yaml\n")

    files = render(planned("mine", "clariden", "gh200"))

    assert files["modules.yaml"] == text
    assert inputs_of(files) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modules: {default: {enable: [dotkit]}}\n", "the file must enable one kind of module files"),
        ("modules: {default: {roots: {lmod: /l, tcl: /t}}}\n", "the file must enable one kind of module files"),
        ("modules: {default: {enable: [lmod, tcl]}}\n", "the file must enable one kind of module files"),
        ("modules: [\n", "not valid YAML"),
        (None, "file not found: 'modules.yaml'"),
    ],
)
def test_a_configuration_of_modules_that_makes_none_is_refused(write: Write, text: str | None, message: str) -> None:
    if text is not None:
        write("recipes/mine/modules.yaml", text)
    write("recipes/mine/recipe.yaml", "extends: hello\ndescription: Mine.\nmodules: modules.yaml\n")

    with pytest.raises(BadInput, match=message):
        load_recipe("mine")


def test_the_same_inputs_give_the_same_bytes_from_any_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = render(planned("pytorch-2.9", "bristen", "a100"))
    monkeypatch.chdir("/")
    monkeypatch.setenv("USER", "somebody")

    assert render(planned("pytorch-2.9", "bristen", "a100")) == here
    assert not [text for text in here.values() if str(ROOT) in text or str(place) in text]
    assert data(planned("pytorch-2.9", "clariden", "gh200")) == data(planned("pytorch-2.9", "santis", "gh200"))


def test_hostile_text_in_a_recipe_is_data(write: Write) -> None:
    hostile = 'it\'s "$(touch x)" `id` # no\\n: {a: [b]}'
    write("recipes/mine/recipe.yaml", SMALL)
    write("recipes/hostile/recipe.yaml", "extends: mine\nview: {env: {V: " + yaml.safe_dump(hostile)[:-1] + "}}\n")

    env = data(planned("hostile", "clariden", "gh200"))["env_vars"]

    assert env["set"]["V"] == hostile


SITE = """\
description: A cluster.
site: somewhere
fabric: infiniband
mpi: openmpi
nodes:
  a100: {target: zen3, os: rhel9, gpu: {vendor: nvidia, model: A100, arch: 80, count: 4}}
  h100: {target: zen4, os: rhel9, gpu: {vendor: nvidia, model: H100, arch: 90, count: 4}}
mount: /opt/software
"""


def packages(recipe: str, system: str, uarch: str) -> Any:
    return data(planned(recipe, system, uarch))["packages"]


def test_the_version_of_mpi_is_the_systems_and_the_recipe_may_bound_it(write: Write) -> None:
    write("systems/mine.yaml", SITE.replace("mpi: openmpi", "mpi: {package: openmpi, versions: [5.0.9, 4.1.7]}"))
    write("recipes/any/recipe.yaml", SMALL + "mpi: true\n")
    write("recipes/old/recipe.yaml", SMALL + "mpi: {openmpi: 4.1}\n")
    write("recipes/new/recipe.yaml", SMALL + "mpi: {openmpi: '6:'}\n")

    assert packages("any", "mine", "a100")["mpi"]["require"] == ["openmpi@=5.0.9"]
    assert packages("old", "mine", "a100")["mpi"]["require"] == ["openmpi@=4.1.7"]
    with pytest.raises(BadInput, match=r"systems/mine.yaml:4:1: new needs openmpi@6:, but mine has 5.0.9, 4.1.7"):
        planned("new", "mine", "a100")


def test_a_system_with_its_own_mpi_needs_no_change_of_a_recipe(write: Write) -> None:
    own = "mpi: {package: mpich, versions: [4.3.0]}\npackages:\n  mpich:\n    buildable: false\n    externals:\n"
    own += "    - {spec: mpich@4.3.0 netmod=ofi, prefix: /opt/mpich}\n"
    glibc = "  glibc: {buildable: false, externals: [{spec: glibc@2.34, prefix: /usr}]}\n"
    gcc = "  gcc: {externals: [{spec: gcc@13.3.0, prefix: /opt/gcc, compilers: {c: /opt/gcc/bin/gcc}}]}\n"
    write("systems/mine.yaml", SITE.replace("mpi: openmpi\n", own + glibc + gcc).replace("infiniband", "slingshot"))

    found = packages("pytorch-2.6", "mine", "a100")

    assert found["mpi"]["require"] == ["mpich@=4.3.0"]
    assert not [name for name in found if name.startswith("cray-")]


def test_packages_of_a_system_take_conditions_and_facts(write: Write) -> None:
    text = """packages:
  libfabric:
    require: ["fabrics=verbs", "cuda_arch=${cuda_arch}"]
    externals:
    - {spec: "libfabric@2.0 +cuda cuda_arch=${cuda_arch}", prefix: /opt/fabric}
    - {spec: libfabric@1.9, prefix: /opt/old, when: uarch == a100}
"""
    write("systems/mine.yaml", SITE + text)
    write("recipes/mine/recipe.yaml", SMALL + PINS)

    a100, h100 = packages("mine", "mine", "a100"), packages("mine", "mine", "h100")

    assert [external["prefix"] for external in a100["libfabric"]["externals"]] == ["/opt/fabric", "/opt/old"]
    assert h100["libfabric"]["externals"][0]["spec"].startswith("libfabric@2.0 +cuda cuda_arch=90 ")
    assert "cuda_arch=90" in h100["libfabric"]["require"]
    assert a100["zstd"]["require"][0] == "cuda_arch=80"
    assert "cflags=-m80" in " ".join(a100["python"]["require"])


PREFERRED = SMALL + "published: {table: published.yaml, prefer: true}\n"
TABLE = """\
source: somewhere, 2025
other:
- {name: zstd, version: 1.5.6}
- {name: ucx, version: 1.15.0}
- {name: gawk, version: 4.2.1, when: site == CSCS}
- {name: gcc-runtime, version: 13.3.0}
"""


def test_published_versions_are_preferred_if_the_environment_can_reach_them_and_nobody_says_otherwise(
    write: Write,
) -> None:
    write("systems/mine.yaml", SITE + "packages: {ucx: {externals: [{spec: ucx@1.14, prefix: /usr}]}}\n")
    write("systems/own.yaml", SITE + "packages: {zstd: {prefer: [1.5.7, 1.5.5]}}\n")
    write("recipes/mine/recipe.yaml", PREFERRED)
    write("recipes/mine/published.yaml", TABLE)
    write("recipes/child/recipe.yaml", "extends: mine\npublished: {prefer: false}\n")

    found = packages("mine", "mine", "a100")

    assert found["zstd"]["version"] == ["=1.5.6"]
    assert "version" not in found["ucx"]
    assert not {"gawk", "gcc-runtime"} & set(found)
    assert "zstd" not in packages("child", "mine", "a100")
    assert packages("mine", "own", "a100")["zstd"]["version"] == ["1.5.7", "1.5.5"]


@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
def test_infinibands_transports_are_in_ucx_and_open_mpi_uses_it(write: Write, recipe: str, fabric: str) -> None:
    text = SITE.replace("infiniband", fabric) + "packages:\n"
    text += "  glibc: {buildable: false, externals: [{spec: glibc@2.34, prefix: /usr}]}\n"
    text += "  gcc: {externals: [{spec: gcc@11.4.1, prefix: /usr, compilers: {c: /usr/bin/gcc}}]}\n"
    write("systems/mine.yaml", text)

    environment = planned(recipe, "mine", "a100")

    roots = {root.package: root.text for root in environment.roots}
    assert "+dc +ib_hw_tm +mlx5_dv +rc +rdmacm +ud +verbs" in data(environment)["packages"]["ucx"]["require"]
    assert "rdma-core" in roots
    assert "fabrics=ucx" in data(environment)["packages"]["openmpi"]["require"]
    assert "+ucx" in roots.get("nvshmem", "+ucx")
    assert ("nvshmem" in roots) == (recipe == "pytorch-2.9")


def test_building_with_a_version_that_was_taken_back_warns(cli: Cli) -> None:
    answer = cli("build", "pytorch-2.6", "--system", "clariden", "--no-concretize")

    assert answer.code == 0, answer.stderr
    assert "py-zarr@3.0.1 was yanked by its developers: deletes data" in " ".join(answer.stderr.split())


@pytest.mark.parametrize("source", ["hello", HELLO])
def test_an_image_searches_it_there(write: Write, place: Path, source: str) -> None:
    write("checkout/site/spack_repo/alps/repo.yaml", "repo: {namespace: alps}\n")

    request = ImageRequest(sources=(source,), system="clariden", repo=("alps=checkout",))

    assert install_options(request).repos == {"alps": place / "checkout/site/spack_repo/alps"}


def test_resolving_and_installing_share_the_index_of_spacks_packages(tmp_path: Path) -> None:
    for_node = config_section(planned("hello", "clariden", "gh200"), tmp_path)["misc_cache"]
    on_node = configuration(read_installable(Path(HELLO)), InstallOptions())["config"]

    assert str(for_node).endswith("/cache-aarch64-v2026.06.0")
    assert str(for_node).replace("aarch64", platform.machine()) == on_node["misc_cache"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("system", "uarch", "package", "ours", "said"),
    [
        ("olivia", "gh200", "cray-mpich", (), "published only for mpi == cray-mpich, but olivia has mpi openmpi"),
        ("rcp", "a100", "aws-ofi-nccl", (), "published only for fabric == slingshot, but rcp has fabric roce"),
        ("bristen", "a100", "cray-pals", ("cray-pals",), "bristen: the newest version that the site has for x86_64"),
        ("olivia", "gh200", "libcxi", (), "only the libfabric that is built from source at CSCS needs them"),
        ("clariden", "gh200", "libiconv", (), "the nodes' C library provides it"),
        ("clariden", "gh200", "libcxi", (), ""),
        ("olivia", "gh200", "libcxi", ("libcxi",), ""),
    ],
)
def test_a_difference_from_the_published_table_has_the_reason_that_holds_on_the_system(
    system: str, uarch: str, package: str, ours: tuple[str, ...], said: str
) -> None:
    packages = (Package(name=name, version="1", hash=name, target="", os="", external="") for name in ours)
    found = compared(planned("pytorch-2.9", system, uarch), Lock((), tuple(packages), "1.1.0"))

    assert {match.row.package: match.reason for match in found}.get(package, "") == said


@pytest.mark.parametrize("form", ["spack", "stackinator"])
def test_no_file_of_an_environment_contains_a_login_of_a_url(form: str, cli: Cli, write: Write, place: Path) -> None:
    text = SMALL.replace("https://", "https://joe:Zq7xK9mP2v@")
    write("recipes/mine/recipe.yaml", f"{text}compiler: gcc@13.3.0\n")

    answer = cli("build", "mine", "-s", "clariden", "--no-concretize", "--format", form, "-o", "out")

    assert answer.code == 0, answer.stderr
    assert NOT_WRITTEN in answer.stderr
    texts = [answer.stdout, answer.stderr, *(path.read_text() for path in (place / "out").rglob("*") if path.is_file())]
    assert [text for text in texts if "Zq7xK9mP2v" in text or "joe" in text] == []
    assert any("https://github.com/spack/spack-packages.git" in text for text in texts)
