"""Tests of faults: killed runs, full disks, hostile servers, clocks, limits and sizes.

A default run tests a few cases of each kind. UENVTOOL_TEST_FAULTS sets the number of cases. docs/security.md lists the
results of large runs.
"""

import os

CASES = int(os.environ.get("UENVTOOL_TEST_FAULTS", "0"))
"""The number of cases of each kind, or 0 for the few cases of a default run."""
