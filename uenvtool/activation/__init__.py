"""Activation: tuning and overlay set up in one shell, or written down for a runtime."""
