from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Dynolog(CMakePackage):
    """A daemon that reads the counters of CPUs and GPUs and starts PyTorch's profiler on request."""

    homepage = "https://github.com/facebookincubator/dynolog"
    git = "https://github.com/facebookincubator/dynolog.git"
    submodules = True

    license("MIT")

    version("0.5.0", commit="7e967d1862bc405257f7bf3428ab2f74b33f5c2a")

    variant("prometheus", default=True, description="Give the counters to Prometheus")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust", type="build")
    depends_on("prometheus-cpp", when="+prometheus")

    def patch(self):
        # the program uses the library's Prometheus headers, too
        filter_file(
            "dynolog_lib PRIVATE prometheus-cpp::pull",
            "dynolog_lib PUBLIC prometheus-cpp::pull",
            "dynolog/src/CMakeLists.txt",
            string=True,
        )

    def cmake_args(self):
        return [self.define_from_variant("USE_PROMETHEUS", "prometheus")]

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with working_dir(self.build_directory):
            install("dynolog/src/dynolog", prefix.bin)
            install("release/dyno", prefix.bin)
