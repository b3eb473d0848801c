"""Spack: the environment it reads, the lock it writes, the program itself, Stackinator's form."""
