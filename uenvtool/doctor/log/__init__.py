"""Reads the output of a job, of any length, for what it says of the run."""
