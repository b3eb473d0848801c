"""Every code block of the README and of docs/ is run as it stands."""
