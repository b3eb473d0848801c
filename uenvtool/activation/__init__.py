"""Activation scripts that set tuning and overlay in a shell, the same settings as files, and their explanations."""
