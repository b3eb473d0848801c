"""Overlays, which are virtual environments on a base: finding the base, resolving, installing and starting."""
