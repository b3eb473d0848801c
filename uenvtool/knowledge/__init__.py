"""The knowledge files (recipes, systems, tuning and others) as checked values with their positions."""
