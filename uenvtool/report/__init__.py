"""A stack as a page: what is in it, why, how large, and what is set for it."""
