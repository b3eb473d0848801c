"""Diagnosis of a job's output of any length."""
