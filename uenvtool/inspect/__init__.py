"""Questions about knowledge and environments: what there is, what is in it, what is wrong with it."""
