"""Plans, renders, resolves and installs Spack environments, and renders recipes for Stackinator."""
