"""The work of `uenvtool venv`: overlays resolved, built, put in place, packed, told of; knows overlay and image."""
