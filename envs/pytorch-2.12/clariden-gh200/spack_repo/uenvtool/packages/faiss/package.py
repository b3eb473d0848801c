from spack_repo.builtin.build_systems.python import PythonPipBuilder
from spack_repo.builtin.packages.faiss import package as builtin

from spack.package import *


class Faiss(builtin.Faiss):
    """faiss whose Python part is installed: the builtin package takes the interpreter for its own module."""


class CMakeBuilder(builtin.CMakeBuilder):
    def cmake_args(self):
        args = super().cmake_args()
        if self.spec.satisfies("%gcc@14:"):  # an error there, what SWIG's C code does
            args.append(self.define("CMAKE_C_FLAGS", "-Wno-incompatible-pointer-types"))
        return args

    def install(self, pkg, spec, prefix):
        super(builtin.CMakeBuilder, self).install(pkg, spec, prefix)
        if spec.satisfies("+python"):
            pip = spec["python"].command
            pip.add_default_arg("-m", "pip")
            with working_dir(join_path(self.build_directory, "faiss", "python")):
                pip(*PythonPipBuilder.std_args(pkg), f"--prefix={prefix}", ".")
