"""Tests of a system, with a verdict, and comparisons of two runs."""
