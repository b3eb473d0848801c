"""The one door through which files are written: atomic, locked, and only over what the tool wrote."""

from uenvtool.core.files.atomic import locked, set_shared_mode, sync, write, write_all, write_error
from uenvtool.core.files.fetching import fetched
from uenvtool.core.files.generated import (
    TOLERATED,
    content_inside,
    digest,
    left_over,
    read_record,
    refuse_foreign,
    write_generated,
)
from uenvtool.core.files.places import memory_folder, scratch_folder, working_folder, workplace
from uenvtool.core.files.reading import is_stream, last_lines, opened, read_bytes, read_named
from uenvtool.core.files.together import Replacement, publish
from uenvtool.core.files.trees import (
    claim,
    copy_tree,
    fill,
    fill_from,
    fill_start,
    link,
    make_folder,
    move,
    private_folder,
    remove_empty_folder,
    remove_file,
    remove_tree,
    set_mode,
    take_over,
)

__all__ = [
    "TOLERATED",
    "Replacement",
    "claim",
    "content_inside",
    "copy_tree",
    "digest",
    "fetched",
    "fill",
    "fill_from",
    "fill_start",
    "is_stream",
    "last_lines",
    "left_over",
    "link",
    "locked",
    "make_folder",
    "memory_folder",
    "move",
    "opened",
    "private_folder",
    "publish",
    "read_bytes",
    "read_named",
    "read_record",
    "refuse_foreign",
    "remove_empty_folder",
    "remove_file",
    "remove_tree",
    "scratch_folder",
    "set_mode",
    "set_shared_mode",
    "sync",
    "take_over",
    "working_folder",
    "workplace",
    "write",
    "write_all",
    "write_error",
    "write_generated",
]
