"""The one door through which files are written: atomic, locked, and only over what the tool wrote."""

from uenvtool.files.atomic import keep_copy, locked, replace, sync, write, write_all, write_error
from uenvtool.files.places import memory_folder, scratch_folder, working_folder, workplace
from uenvtool.files.trees import (
    copy_tree,
    fill,
    fill_from,
    fill_start,
    keep_aside,
    link,
    move,
    put_in_place,
    remove_tree,
    set_modes,
)

__all__ = [
    "copy_tree",
    "fill",
    "fill_from",
    "fill_start",
    "keep_aside",
    "keep_copy",
    "link",
    "locked",
    "memory_folder",
    "move",
    "put_in_place",
    "remove_tree",
    "replace",
    "scratch_folder",
    "set_modes",
    "sync",
    "working_folder",
    "workplace",
    "write",
    "write_all",
    "write_error",
]
