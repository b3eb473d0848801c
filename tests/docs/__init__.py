"""Tests of the documentation, which also run every code block of the README and docs/."""
