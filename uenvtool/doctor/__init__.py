"""Diagnosis of a shell, the ranks of a job, or a job's output."""
