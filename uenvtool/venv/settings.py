"""Where packages come from: the variables and configuration files of pip and uv.

pip's settings become uv's options; uv reads its own by itself. The order is pip's: system, user,
the environment's own pip.conf, PIP_CONFIG_FILE, PIP_* variables, later ones winning
(https://pip.pypa.io/en/stable/topics/configuration/).
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from uenvtool.core.errors import BadInput, Position

_SECTIONS = ("global", "install")
_LISTS = {"extra-index-url", "find-links", "constraint", "requirement", "trusted-host", "no-binary", "only-binary"}
_NOT_FOR_UV = (
    "UV_SYSTEM_PYTHON",
    "UV_PYTHON",
    "UV_CONSTRAINT",  # read here, with what the base has in mind
    "UV_OVERRIDE",
    "UV_NO_BUILD_ISOLATION",  # recorded with the overlay, and given as an option
    "UV_NO_BUILD_ISOLATION_PACKAGE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_REQUIRE_HASHES",  # checked here, with what the base has in mind
    "UV_TARGET",
    "UV_PREFIX",
    "UV_BREAK_SYSTEM_PACKAGES",
)
_FALSE = {"", "0", "false", "no", "off", "n", "f"}


ALL = ":all:"
"""Stands for all packages, as pip's --no-binary has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What uv gets.

    arguments: for resolving and installing. constraints, overrides, files: paths or URLs. built_on_base:
    packages whose sources are built with the packages that are there (--no-build-isolation), or ALL.
    require_hashes: each package needs a hash.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    require_hashes: bool = False
    has_cache: bool = False


def read_settings(environ: Mapping[str, str], prefix: str = "") -> Settings:
    """The settings of this user here. prefix: the base's, whose pip.conf counts for its users.

    Raises BadInput with the place if a configuration file cannot be read.
    """
    pip: dict[str, list[str]] = {}
    for path in _config_files(environ, prefix):
        for name, value in _read_config(path):
            pip[name] = _values(name, value)
    for name, value in environ.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE":
            key = name[4:].lower().replace("_", "-")
            pip[key] = _values(key, value)
    env = {name: value for name, value in environ.items() if name not in _NOT_FOR_UV}
    env.update(_environment(pip, environ))
    return Settings(
        arguments=tuple(_arguments(pip, environ)),
        environment=env,
        constraints=(*pip.get("constraint", ()), *environ.get("UV_CONSTRAINT", "").split()),
        overrides=tuple(environ.get("UV_OVERRIDE", "").split()),
        files=tuple(pip.get("requirement", ())),
        built_on_base=tuple(_built_on_base(pip, environ)),
        require_hashes=_on(pip, "require-hashes") or environ.get("UV_REQUIRE_HASHES", "").lower() not in _FALSE,
        has_cache=bool(environ.get("UV_CACHE_DIR")),
    )


def with_options(settings: Settings, options: Mapping[str, Sequence[str]]) -> Settings:
    """Settings with the options of requirement files too; an index that they name goes before the user's, as in pip."""
    words = list(settings.arguments)
    if "index-url" in options and "--default-index" in words:
        at = words.index("--default-index")
        del words[at : at + 2]
    of_files = {name: list(values) for name, values in options.items()}
    return replace(settings, arguments=(*words, *_arguments(of_files, {})))


def _config_files(environ: Mapping[str, str], prefix: str) -> Iterator[Path]:
    """pip's configuration files in the order in which pip reads them; those that exist."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    home = environ.get("HOME", "")
    config_dirs = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    candidates = [Path(folder, "pip", "pip.conf") for folder in config_dirs.split(os.pathsep) if folder]
    candidates.append(Path("/etc/pip.conf"))
    if home:
        candidates.append(Path(home, ".pip", "pip.conf"))
        candidates.append(Path(environ.get("XDG_CONFIG_HOME") or Path(home, ".config"), "pip", "pip.conf"))
    if prefix:
        candidates.append(Path(prefix, "pip.conf"))
    if named:
        candidates.append(Path(named))
    # Path.is_file raises if a folder on the way may not be read
    yield from (path for path in candidates if os.path.isfile(path))


def _read_config(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(str(path)), "it is a file of pip's") from error
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or (getattr(error, "errors", None) or [(1, "")])[0][0]
        raise BadInput(
            "not a pip configuration file", Position(str(path), line), "[global], then NAME = VALUE"
        ) from error
    for section in _SECTIONS:
        if parser.has_section(section):
            for name, value in parser.items(section):
                yield name.lower().replace("_", "-"), value


def _values(name: str, value: str) -> list[str]:
    """A setting's values: words if pip takes several."""
    return value.split() if name in _LISTS else [value.strip()]


def _on(pip: Mapping[str, list[str]], name: str) -> bool:
    return bool(pip.get(name)) and pip[name][0].lower() not in _FALSE


def _arguments(pip: Mapping[str, list[str]], environ: Mapping[str, str]) -> Iterator[str]:
    """pip's settings as options of uv; what is set for uv itself goes before."""
    if pip.get("index-url", [""])[0] and not set(environ) & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        yield from ("--default-index", pip["index-url"][0])
    extra = [*pip.get("extra-index-url", ()), *environ.get("UV_EXTRA_INDEX_URL", "").split()]
    for url in extra:
        yield from ("--extra-index-url", url)
    if pip.get("extra-index-url") and "UV_INDEX_STRATEGY" not in environ:
        yield from ("--index-strategy", "unsafe-best-match")  # pip takes the best of all indexes
    for place in [*pip.get("find-links", ()), *filter(None, environ.get("UV_FIND_LINKS", "").split(","))]:
        yield from ("--find-links", os.path.expanduser(place))
    for host in pip.get("trusted-host", ()):
        yield from ("--allow-insecure-host", host)
    for kind in ("no-binary", "only-binary"):
        for name in ",".join(pip.get(kind, ())).split(","):
            if name.strip():
                yield from (f"--{kind}", name.strip())
    if _on(pip, "no-index"):
        yield "--no-index"
    if _on(pip, "pre"):
        yield from ("--prerelease", "allow")


def _built_on_base(pip: Mapping[str, list[str]], environ: Mapping[str, str]) -> Iterator[str]:
    """What the settings of pip and uv build without isolation; it is recorded, unlike the others."""
    if _on(pip, "no-build-isolation") or environ.get("UV_NO_BUILD_ISOLATION", "").lower() not in _FALSE:
        yield ALL
    yield from environ.get("UV_NO_BUILD_ISOLATION_PACKAGE", "").replace(",", " ").split()


def _environment(pip: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that uv takes from variables: certificates, a proxy, patience."""
    found = {}
    for name, variable in (("cert", "SSL_CERT_FILE"), ("client-cert", "SSL_CLIENT_CERT"), ("proxy", "ALL_PROXY")):
        if pip.get(name, [""])[0] and variable not in environ:
            found[variable] = os.path.expanduser(pip[name][0])
    seconds = pip.get("timeout", pip.get("default-timeout", [""]))[0]
    if seconds.isdigit() and "UV_HTTP_TIMEOUT" not in environ:
        found["UV_HTTP_TIMEOUT"] = seconds
    return found
