import os

from spack_repo.builtin.packages.py_triton.package import PyTriton as Builtin

from spack.package import *

# cmake/llvm-hash.txt of each version: triton is built with no other LLVM. From 3.3.0 on as conda-forge's recipe has it.
LLVM = {
    "3.2.0": "86b69c31642e98f8357df62c09d118ad1da4e16a",
    "3.3.0": "a66376b0dc3b2ea8a84fda26faca287980986f78",
    "3.3.1": "a66376b0dc3b2ea8a84fda26faca287980986f78",
    "3.4.0": "8957e64a20fc7f4277565c6cfe3e555c119783ce",
    "3.5.0": "7d5de3033187c8a3bb4d2e322f5462cdaf49808f",
    "3.5.1": "7d5de3033187c8a3bb4d2e322f5462cdaf49808f",
    "3.6.0": "f6ded0be897e2878612dd903f7e8bb85448269e5",
    "3.7.0": "ac5dc54d509169d387fcfd495d71853d81c46484",
    "3.7.1": "1f126a6dea50d185c0781743a667390037ae88bd",
}
GITHUB = "https://github.com/triton-lang/triton"
CUDA_TOOLS = ("ptxas", "cuobjdump", "nvdisasm")


class PyTriton(Builtin):
    """triton, built with nothing but what Spack fetched.

    Its setup.py downloads LLVM, a JSON library and parts of CUDA into HOME. Here LLVM is a source of
    the package, at the commit that triton names, and the rest comes from the environment.
    """

    # what the builtin package lacks, with the checksums of conda-forge's recipe: an archive of a commit, or a release
    version(
        "3.7.1",
        url=f"{GITHUB}/archive/f797708c0626e5f9840ca5b0a98790e2c7cb09ad.tar.gz",
        sha256="35acf558b194204a8a0d7104f989b37879627ea7a0017f1df36d309a39a17e4f",
    )
    version(
        "3.7.0",
        url=f"{GITHUB}/releases/download/v3.7.0/triton-3.7.0.tar.gz",
        sha256="980397efada8ed2de303a95ad918e7454df13d7df5941840646e8004d4bd0462",
    )
    version(
        "3.6.0",
        url=f"{GITHUB}/releases/download/v3.6.0/triton-3.6.0.tar.gz",
        sha256="2251e067e4229e4a379259292e284232369977cb3ba1fb2424457df80115ec0a",
    )
    # GitHub's archive of the tag; the checksum is the one in the published recipe of pytorch/v2.9.1
    version("3.5.1", sha256="03d7c41f6f2dc1dfa3445776c4a893dc34b1e0ece42b953f036c071ff6409b80")
    version(
        "3.5.0",
        url=f"{GITHUB}/releases/download/v3.5.0/triton-3.5.0.tar.gz",
        sha256="a812f387de09277623ccd58af477f2ae9fc6e028ccfadf4b13919af441b59928",
    )
    version(
        "3.3.0",
        url=f"{GITHUB}/archive/65c6b88165a169a659935443dafe887f24f1592a.tar.gz",
        sha256="76afc9fc97345b6b8d3f3b7dfee3fc34a90633e3b768512488a08c203aa092e4",
    )

    for _version, _commit in LLVM.items():
        resource(
            name="llvm-project",
            git="https://github.com/llvm/llvm-project.git",
            commit=_commit,
            placement="llvm-project",
            when=f"@{_version}",
        )

    depends_on("cuda", type=("build", "run"))
    depends_on("nlohmann-json", type="build")

    def setup_build_environment(self, env):
        super().setup_build_environment(env)
        env.set("TRITON_OFFLINE_BUILD", "1")
        env.set("TRITON_HOME", join_path(self.stage.path, "triton-home"))
        env.set("LLVM_SYSPATH", self.llvm)
        env.set("JSON_SYSPATH", self.spec["nlohmann-json"].prefix)
        env.set("PYBIND11_SYSPATH", self.spec["py-pybind11"].prefix)
        env.set("MAX_JOBS", str(make_jobs))

    @property
    def llvm(self):
        return join_path(self.stage.path, "triton-llvm")

    @run_before("install")
    def build_llvm(self):
        with open(join_path(self.stage.source_path, "cmake", "llvm-hash.txt")) as file:
            wanted = file.read().strip()
        if LLVM[str(self.version)] != wanted:
            raise InstallError(f"triton {self.version} is built with LLVM {wanted}: correct LLVM in this package")
        sources = join_path(self.stage.source_path, "llvm-project", "llvm")
        build = join_path(self.stage.path, "llvm-build")
        gpu_targets = {"aarch64": "AArch64", "x86_64": "X86"}
        which("cmake")(
            "-G",
            "Ninja",
            "-S",
            sources,
            "-B",
            build,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DLLVM_ENABLE_ASSERTIONS=ON",
            "-DLLVM_ENABLE_PROJECTS=mlir;llvm;lld",
            "-DLLVM_ENABLE_ZSTD=OFF",
            f"-DLLVM_TARGETS_TO_BUILD={gpu_targets[str(self.spec.target.family)]};NVPTX;AMDGPU",
            f"-DCMAKE_INSTALL_PREFIX={self.llvm}",
        )
        which("ninja")("-C", build, f"-j{make_jobs}", "install")

    @run_after("install")
    def link_cuda(self):
        """Put CUDA's programs and headers where triton looks for those that it downloads otherwise."""
        cuda = self.spec["cuda"].prefix
        backend = join_path(python_platlib, "triton", "backends", "nvidia")
        links = {join_path(backend, "bin", tool): cuda.bin.join(tool) for tool in CUDA_TOOLS}
        for header in os.listdir(cuda.include):
            links[join_path(backend, "include", header)] = cuda.include.join(header)
        for link, target in links.items():
            mkdirp(os.path.dirname(link))
            if not os.path.lexists(link):
                symlink(target, link)
