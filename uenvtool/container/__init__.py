"""Images of containers: the plan of a recipe, its Containerfile, and the names that carry its hash."""
