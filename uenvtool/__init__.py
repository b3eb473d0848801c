"""uenvtool installs packages on a site's PyTorch, writes Slurm jobs, and diagnoses them."""

__version__ = "1.0.0rc1"
