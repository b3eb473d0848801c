"""Diagnosis of a job's output, which may be of any length."""
