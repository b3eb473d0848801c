"""Reads where packages come from: the variables and configuration files of pip and uv.

pip's settings become uv's options; uv reads its own by itself, and pip's not at all. The order is pip's: system, user,
the environment's own pip.conf, PIP_CONFIG_FILE, PIP_* variables, later ones winning
(https://pip.pypa.io/en/stable/topics/configuration/). pip itself is not asked: a uenv may have none.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position

_LISTS = {"extra-index-url", "find-links", "constraint", "requirement", "trusted-host", "no-binary", "only-binary"}
_NOT_FOR_UV = {
    *("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT_ENVIRONMENT"),
    *("UV_PROJECT", "UV_WORKING_DIR"),  # a folder of this tool's own is the project
    *("UV_CONSTRAINT", "UV_REQUIRE_HASHES"),  # read here, with what the base has in mind
    *("UV_OVERRIDE", "UV_NO_BUILD_ISOLATION", "UV_NO_BUILD_ISOLATION_PACKAGE"),  # given as options
}
_VARIABLES = {
    "cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT",
}  # fmt: skip
_FALSE = {"", "0", "false", "no", "off", "n", "f"}
ALL = ":all:"
"""Stands for all packages, as pip's --no-binary has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What uv gets.

    arguments: for resolving and installing. constraints, overrides, files: paths or URLs. built_on_base:
    packages whose sources are built with the packages that are there (--no-build-isolation), or ALL.
    require_hashes: each package needs a hash. project: uv's settings of the project that the user named, as TOML has
    them. notes: what is not taken.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    require_hashes: bool = False
    has_cache: bool = False
    project: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_settings(environ: Mapping[str, str], prefix: str = "") -> Settings:
    """Read the settings of this user here. prefix: the base's, whose pip.conf counts for its users.

    Raises BadInput with the place if a configuration file cannot be read.
    """
    pip = _pip_settings(environ, prefix)
    places = [os.path.expanduser(place) for place in pip.get("find-links", ())]
    missing = [place for place in places if "://" not in place and not os.path.exists(place)]
    pip["find-links"] = [place for place in places if place not in missing]
    env = {name: value for name, value in environ.items() if name not in _NOT_FOR_UV}
    for name, variable in _VARIABLES.items():
        value = pip.get(name, pip.get(f"default-{name}", [""]))[0]
        if value and variable not in environ and (name != "timeout" or value.isdigit()):
            env[variable] = os.path.expanduser(value)
    built = [ALL] if _is_on(pip, "no-build-isolation") or _is_true(environ, "UV_NO_BUILD_ISOLATION") else []
    return Settings(
        arguments=tuple(_arguments(pip, environ)),
        environment=env,
        constraints=(*pip.get("constraint", ()), *environ.get("UV_CONSTRAINT", "").split()),
        overrides=tuple(environ.get("UV_OVERRIDE", "").split()),
        files=tuple(pip.get("requirement", ())),
        built_on_base=(*built, *environ.get("UV_NO_BUILD_ISOLATION_PACKAGE", "").replace(",", " ").split()),
        require_hashes=_is_on(pip, "require-hashes") or _is_true(environ, "UV_REQUIRE_HASHES"),
        has_cache=bool(environ.get("UV_CACHE_DIR")),
        notes=tuple(f"find-links {place}: it is not there, and is left out" for place in dict.fromkeys(missing)),
    )


def users_settings(environ: Mapping[str, str], folder: Path) -> Path:
    """Return the file with uv's settings of this user or machine; an empty one in `folder` if there is none."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    for path in (Path(home, "uv/uv.toml"), Path("/etc/uv/uv.toml")):
        if path.is_file():
            return path
    files.fill(folder, {"uv.toml": ""})
    return folder / "uv.toml"


_STRATEGY = ("--index-strategy", "unsafe-best-match")
"""pip takes the best of all indexes."""


def with_options(settings: Settings, options: Mapping[str, Sequence[str]]) -> Settings:
    """Add the options of requirement files; an index that they name goes before the user's, as in pip."""
    words = list(settings.arguments)
    if "index-url" in options and "--default-index" in words:
        at = words.index("--default-index")
        del words[at : at + 2]
    added = list(_arguments(options, {}))
    if _STRATEGY[0] in words and _STRATEGY[0] in added:  # uv takes it once
        added = [word for word in added if word not in _STRATEGY]
    return replace(settings, arguments=(*words, *added))


def _pip_settings(environ: Mapping[str, str], prefix: str) -> dict[str, list[str]]:
    """Read what pip is told, by the long names of its options; words where it takes several."""
    parser = configparser.RawConfigParser()
    parser.optionxform = lambda name: name.lower().replace("_", "-")  # type: ignore[assignment]
    named, home = environ.get("PIP_CONFIG_FILE"), environ.get("HOME", "")
    folders = [
        os.path.join(folder, "pip") for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    ]
    folders += ["/etc", *([os.path.join(home, ".pip")] if home else [])]
    folders += [os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip")] if home else []
    paths = [os.path.join(folder, "pip.conf") for folder in (*folders, *filter(None, [prefix]))]
    for path in [] if named == os.devnull else filter(os.path.isfile, [*paths, *filter(None, [named])]):
        _read_config(parser, Path(path))
    of_files = {
        name: value for section in ("global", "install") if section in parser for name, value in parser.items(section)
    }
    variables = {name[4:]: value for name, value in environ.items() if name.startswith("PIP_")}
    found = {name.lower().replace("_", "-"): value for name, value in (*of_files.items(), *variables.items())}
    return {name: value.split() if name in _LISTS else [value.strip()] for name, value in found.items()}


def _read_config(parser: configparser.RawConfigParser, path: Path) -> None:
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(str(path)), "it is a file of pip's") from error
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or (getattr(error, "errors", None) or [(1, "")])[0][0]
        hint = "[global], then NAME = VALUE"
        raise BadInput("not a pip configuration file", Position(str(path), line), hint) from error


def _is_on(pip: Mapping[str, Sequence[str]], name: str) -> bool:
    return bool(pip.get(name)) and pip[name][0].lower() not in _FALSE


def _is_true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() not in _FALSE


def _arguments(pip: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> Iterator[str]:
    """Give pip's settings as options of uv; what is set for uv itself goes before."""
    if pip.get("index-url", [""])[0] and not set(environ) & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        yield from ("--default-index", pip["index-url"][0])
    for url in [*pip.get("extra-index-url", ()), *environ.get("UV_EXTRA_INDEX_URL", "").split()]:
        yield from ("--extra-index-url", url)
    if pip.get("extra-index-url") and "UV_INDEX_STRATEGY" not in environ:
        yield from _STRATEGY
    for place in [*pip.get("find-links", ()), *filter(None, environ.get("UV_FIND_LINKS", "").split(","))]:
        yield from ("--find-links", os.path.expanduser(place))
    for host in pip.get("trusted-host", ()):
        yield from ("--allow-insecure-host", host)
    for kind in ("no-binary", "only-binary"):
        for name in filter(None, map(str.strip, ",".join(pip.get(kind, ())).split(","))):
            yield from (f"--{kind}", name)
    if _is_on(pip, "no-index"):
        yield "--no-index"
    if _is_on(pip, "pre"):
        yield from ("--prerelease", "allow")
