"""Plans container images, and renders their Containerfiles, scripts and names with content hashes."""
