"""The files of a job: each a template in its own language, filled with a plan; pure."""
