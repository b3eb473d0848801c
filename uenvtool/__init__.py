"""uenvtool: from nothing to a tuned PyTorch job on an HPC system."""

__version__ = "0.1.0"
