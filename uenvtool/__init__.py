"""uenvtool: from nothing to a tuned PyTorch job on an HPC system."""

__version__ = "1.0.0rc1"
