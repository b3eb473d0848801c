"""The build backend, hatchling's. It is called setup.py for the pip of Python 3.6, which takes no other."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  pip says that itself, after an error that is harder to read
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    sys.exit(
        f"uenvtool needs Python 3.10 to 3.14, and this is {here}: get one with `module load cray-python` or "
        "`uv python install 3.12`; `tools/install` of a clone looks for one"
    )

from hatchling.build import *  # noqa: F403
