"""A Python overlay on a base: found, resolved, made, and put first."""
