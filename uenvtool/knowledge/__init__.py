"""The knowledge (recipes, systems) as checked values with the positions they came from."""
