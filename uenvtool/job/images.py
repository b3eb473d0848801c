"""The image that a user names: a file, which is written as a path, or a name of a registry or a uenv."""

from __future__ import annotations

import os
import re

from uenvtool.job.plan import PATH_STARTS

_IMAGE_FILE = re.compile(r"(?P<file>[^:]+?(?P<end>\.sqsh|\.squashfs|\.sif|\.toml|\.tar\.gz|\.tgz)?)(?P<mount>:/[^:]*)?")
"""A file, with where a uenv is mounted behind it. end: what files of images end with, and no registry's name does."""


def file_of(image: str) -> str:
    """Return the file that an image's name is, without where it is mounted; empty for a name that is no path."""
    found = _IMAGE_FILE.fullmatch(image)
    return found["file"] if found and image.startswith(PATH_STARTS) else ""


def as_path(image: str, *, is_absolute: bool = False) -> str:
    """Return an image's name as a path, if it is one: a file that is here, or a name that ends as those of images do.

    is_absolute: the job runs in another folder than this. The Container Engine and the uenv client take a name for a
    path only if it starts with `/` or `.` (CSCS documentation, software/container-engine/edf.md; uenv's command line).
    """
    found = _IMAGE_FILE.fullmatch(image)
    if found is None:
        return image
    if image.startswith("~"):
        return os.path.expanduser(image)
    is_path = image.startswith(PATH_STARTS) or found["end"] or os.path.isfile(found["file"])
    if image.startswith(("/", "$")) or not is_path:
        return image
    if is_absolute:
        return os.path.abspath(image)
    return image if image.startswith(".") else f"./{image}"
