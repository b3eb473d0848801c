"""Who is behind by NCCL's RAS, in answers of the RAS code of NCCL 2.30.7 to ranks that had no GPU."""

from __future__ import annotations

import pytest

from uenvtool.doctor.ras import AGAIN, behind
from uenvtool.knowledge.finding import load_findings

HEAD = """\
NCCL version 2.30.7 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.001s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (0000000000abcdef) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""
ONE_BEHIND = """\
  3 ranks have launched up to operation 60
  Rank 3 has launched up to operation 21 -- GPU 1 managed by process 31475 on node 10.0.0.2

"""
ONE_AHEAD = """\
  2 ranks have launched up to operation 49
  Rank 1 has launched up to operation 50 -- GPU 1 managed by process 32054 on node 10.0.0.1

"""
TWO_BEHIND = """\
  2 ranks have launched up to operation 60
  Rank 0 -- GPU 0 managed by process 3 on node 10.0.0.1
  Rank 1 -- GPU 1 managed by process 4 on node 10.0.0.1
  2 ranks have not launched any operations
  Rank 2 -- GPU 0 managed by process 5 on node 10.0.0.2
  Rank 3 -- GPU 1 managed by process 6 on node 10.0.0.2

"""


def found(first: str, second: str) -> list[tuple[str, set[int], set[str]]]:
    known = load_findings().findings["ras-behind"]
    answers = f"{HEAD}{first}{AGAIN}{HEAD}{second}"
    return [(each.detail, set(each.ranks), set(each.nodes)) for each in behind(answers, known)]


def test_a_rank_that_launches_no_more_is_behind() -> None:
    later = ONE_BEHIND.replace("60", "64")

    ((detail, ranks, nodes),) = found(ONE_BEHIND, later)

    assert detail == "AllReduce: rank 3 on 10.0.0.2 launched 21, 3 ranks launched 64"
    assert (ranks, nodes) == ({3}, {"10.0.0.2"})


def test_the_one_that_is_ahead_is_not_behind() -> None:
    ((detail, ranks, _),) = found(ONE_AHEAD, ONE_AHEAD)

    assert detail == "AllReduce: 2 ranks launched 49, rank 1 on 10.0.0.1 launched 50"
    assert not ranks


def test_ranks_that_have_launched_nothing_are_named() -> None:
    ((detail, ranks, _),) = found(TWO_BEHIND, TWO_BEHIND)

    assert detail == "AllReduce: rank 2-3 on 10.0.0.2 launched 0, rank 0-1 on 10.0.0.1 launched 60"
    assert ranks == {2, 3}


@pytest.mark.parametrize("later", [ONE_AHEAD.replace("49", "71").replace("50", "72"), ""])
def test_nobody_is_behind_in_a_job_that_goes_on(later: str) -> None:
    assert found(ONE_AHEAD, later) == []


def test_no_answer_is_nobody_behind() -> None:
    assert list(behind("", load_findings().findings["ras-behind"])) == []
