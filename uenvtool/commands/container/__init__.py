"""Images of containers: their files written and compared, their names."""
