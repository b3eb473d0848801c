"""Faults that the world has: kills, full disks, hostile servers, clocks, limits, sizes.

A default run does a few cases of each, UENVTOOL_TEST_FAULTS=300 so many; docs/security.md has what such a run found.
"""

import os

CASES = int(os.environ.get("UENVTOOL_TEST_FAULTS", "0"))
"""How many cases of each class are wanted; 0: a few, which a default run has time for."""
