"""The work of `uenvtool venv`: an overlay resolved, built, put in place, packed and told of; knows overlay and image."""
