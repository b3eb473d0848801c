"""Finds out what is there, without changing or running anything; what cannot be read is left out."""
