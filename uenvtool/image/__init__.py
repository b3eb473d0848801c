"""Packs an overlay into one squashfs image, checks it, shows it, unpacks it."""
