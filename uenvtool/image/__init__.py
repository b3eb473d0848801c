"""Builds, packs, reads and verifies squashfs images, with the metadata that makes them uenvs."""
