"""Translates pip's settings for indexes, certificates and constraints, which uv does not read, into uv's settings.

A site configures its index in a pip.conf, which is in /etc, in an image or in the home directory. As in pip, the order
is system, user, the environment's pip.conf, PIP_CONFIG_FILE and PIP_* variables, and later ones win
(https://pip.pypa.io/en/stable/topics/configuration/). pip itself is not run, because a uenv may not have it. uv reads
its own settings (`~/.config/uv`, UV_*), which take precedence over pip's. URLs, which can contain a password, become
variables, because all users of a machine can read the arguments of a program.
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

INDEX = "UV_DEFAULT_INDEX"
_URLS = {
    "index-url": (INDEX, " ", {INDEX, "UV_INDEX_URL"}),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " ", {"UV_EXTRA_INDEX_URL"}),
    "find-links": ("UV_FIND_LINKS", ",", {"UV_FIND_LINKS"}),
}
"""pip's settings of URLs, each with uv's variable, the separator of its values, and all of uv's variables for it."""
_BEST_OF_ALL = ("--index-strategy", "unsafe-best-match")
"""pip installs the best version of all indexes. By default, uv uses the first index that has the package."""
_OPTIONS = {
    "trusted-host": ("--allow-insecure-host", {"UV_INSECURE_HOST"}),
    "no-binary": ("--no-binary", {"UV_NO_BINARY_PACKAGE"}),
    "only-binary": ("--only-binary", set[str]()),
}
"""pip's other settings, each with uv's option and uv's variables for the same setting."""
_VARIABLES = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY"}
_SWITCHES = {"no-index": ("--no-index",), "pre": ("--prerelease", "allow")}
_NOT_FOR_UV = {
    *("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT_ENVIRONMENT"),
    *("UV_PROJECT", "UV_WORKING_DIR"),  # the project is a directory of uenvtool
    *("UV_CONSTRAINT", "UV_REQUIRE_HASHES"),  # read here, because the base's packages matter
    *("UV_NO_BUILD_ISOLATION", "UV_NO_BUILD_ISOLATION_PACKAGE"),  # recorded, and passed as options
}
_FALSE = {"", "0", "false", "no", "off", "n", "f"}
LINK_MODES = ("copy", "clone", "hardlink")
"""uv's supported link modes for installing from its cache; the first one is the default if UV_LINK_MODE is not set.
With hard links, editing a file in the overlay would also change the cache. Symlinks would point outside an image."""
ALL = ":all:"
"""The name that means all packages, as in pip's --no-binary."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UvSettings:
    """The settings with which uv runs.

    arguments: uv's options for resolving and installing. urls: uv's variables for pip's indexes. constraints: paths or
    URLs of constraint files. built_on_base: the packages that are built from source with the base's packages
    (--no-build-isolation), or ALL. require_hashes: whether each package needs a hash. has_cache: whether uv can use the
    user's cache. link_mode: one of LINK_MODES. project: uv's settings in the user's project, as read from TOML. notes:
    notes about ignored settings.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    require_hashes: bool = False
    has_cache: bool = False
    link_mode: str = LINK_MODES[0]
    project: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_settings(environ: Mapping[str, str], prefix: str = "") -> UvSettings:
    """Return the settings of the current user. prefix: the prefix of the base, whose pip.conf applies to its users.

    Raises BadInput with the position if a pip.conf cannot be read.
    """
    pip = _pip_settings(environ, prefix)
    paths = [os.path.expanduser(path) for path in pip.get("find-links", "").split()]
    missing = [path for path in dict.fromkeys(paths) if "://" not in path and not os.path.exists(path)]
    pip["find-links"] = " ".join(path for path in paths if path not in missing)
    env = {name: value for name, value in environ.items() if name not in _NOT_FOR_UV}
    for name, variable in _VARIABLES.items():
        if pip.get(name) and variable not in environ:
            env[variable] = os.path.expanduser(pip[name])
    if pip.get("keyring-provider") in ("import", "subprocess"):  # uv only supports the program `keyring`
        env.setdefault("UV_KEYRING_PROVIDER", "subprocess")
    built = [ALL] if is_on(environ, "UV_NO_BUILD_ISOLATION") or is_on(pip, "no-build-isolation") else []
    return UvSettings(
        arguments=tuple(_arguments(pip, environ)),
        environment=env,
        urls=dict(_urls(pip, environ)),
        constraints=(*pip.get("constraint", "").split(), *environ.get("UV_CONSTRAINT", "").split()),
        built_on_base=(*built, *environ.get("UV_NO_BUILD_ISOLATION_PACKAGE", "").replace(",", " ").split()),
        require_hashes=is_on(pip, "require-hashes") or is_on(environ, "UV_REQUIRE_HASHES"),
        has_cache=_has_cache(environ),
        link_mode=mode if (mode := environ.get("UV_LINK_MODE", "")) in LINK_MODES else LINK_MODES[0],
        notes=tuple(f"find-links {path} does not exist and is ignored" for path in missing),
    )


def _has_cache(environ: Mapping[str, str]) -> bool:
    if environ.get("UV_CACHE_DIR"):
        return True
    cache_home = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
    cache = Path(cache_home, "uv")
    nearest = next((directory for directory in (cache, *cache.parents) if directory.exists()), cache)
    return cache.is_absolute() and files.is_writable(nearest)


def with_options(settings: UvSettings, options: Mapping[str, Sequence[str]]) -> UvSettings:
    """Return the settings with the options from requirements files that uv and pip read differently.

    As in pip, an index in a file takes precedence over the user's, and the best version of all indexes is installed.
    """
    arguments, urls = list(settings.arguments), dict(settings.urls)
    if "--index-url" in options:
        urls.pop(INDEX, None)
    has_strategy = _BEST_OF_ALL[0] in arguments or "UV_INDEX_STRATEGY" in settings.environment
    if "--extra-index-url" in options and not has_strategy:
        arguments += _BEST_OF_ALL
    if "--pre" in options and "--prerelease" not in arguments:
        arguments += _SWITCHES["pre"]
    for host in options.get("--trusted-host", ()):
        arguments += ("--allow-insecure-host", host)
    return replace(settings, arguments=tuple(arguments), urls=urls)


def users_settings(environ: Mapping[str, str], directory: Path) -> Path:
    """Return this user's or machine's uv configuration file, or else an empty file in `directory`."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    for path in (Path(home, "uv/uv.toml"), Path("/etc/uv/uv.toml")):
        if path.is_file():
            return path
    files.fill(directory, {"uv.toml": ""})
    return directory / "uv.toml"


class _PipConfig(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr.lower().replace("_", "-")


def _pip_settings(environ: Mapping[str, str], prefix: str) -> dict[str, str]:
    parser = _PipConfig()
    home = environ.get("HOME", "")
    system_directories = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    directories = [
        *(os.path.join(directory, "pip") for directory in system_directories),
        "/etc",
        os.path.join(home, ".pip"),
        os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip"),
        prefix,
    ]
    config_file = environ.get("PIP_CONFIG_FILE", "")
    paths = [os.path.join(directory, "pip.conf") for directory in directories if directory.startswith("/")]
    paths.append(config_file)
    for path in [] if config_file == os.devnull else filter(os.path.isfile, paths):
        _read_config(parser, Path(path))
    sections = (section for section in ("global", "install") if parser.has_section(section))
    pairs = [pair for section in sections for pair in parser.items(section)]
    pairs += [(name[4:], value) for name, value in environ.items() if name.startswith("PIP_")]
    return {name.lower().replace("_", "-"): value.strip() for name, value in pairs}


def _read_config(parser: configparser.RawConfigParser, path: Path) -> None:
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read pip's configuration: {error}"
        raise BadInput(message, Position(str(path)), "check the file's permissions and encoding") from error
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or (getattr(error, "errors", None) or [(1, "")])[0][0]
        hint = "write NAME = VALUE lines below [global]"
        raise BadInput("not a valid pip configuration file", Position(str(path), line), hint) from error


def is_on(settings: Mapping[str, str], name: str) -> bool:
    """Return whether a boolean setting of pip or uv is on, as pip and uv read it."""
    return settings.get(name, "").lower() not in _FALSE


def _urls(pip: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, (variable, separator, variables) in _URLS.items():
        if pip.get(name) and not variables & environ.keys():
            yield variable, separator.join(pip[name].split())


def _arguments(pip: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    for name, (option, variables) in _OPTIONS.items():
        if not variables & environ.keys():
            text = pip.get(name, "")
            for value in (text.replace(",", " ") if name.endswith("binary") else text).split():
                yield from (option, value)
    if pip.get("extra-index-url") and "UV_INDEX_STRATEGY" not in environ:
        yield from _BEST_OF_ALL
    for name, switch in _SWITCHES.items():
        if is_on(pip, name):
            yield from switch
