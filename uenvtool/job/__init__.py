"""Jobs: what is written for each runtime, and the check of batch scripts that others wrote."""
