"""Writes jobs for each runtime, and opens a shell or runs a command next to a rank of a running job."""
