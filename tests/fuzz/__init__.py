"""Hostile and damaged input of every kind: an answer each time, never a crash; bounded by counts, with fixed seeds."""
