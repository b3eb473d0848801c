"""Says what is slow or wrong: in a shell, over the ranks of a job, in its log."""
