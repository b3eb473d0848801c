from spack_repo.builtin.packages.py_flash_attn.package import PyFlashAttn as Builtin

from spack.package import *


class PyFlashAttn(Builtin):
    """flash-attn from its own source: its setup.py looks for a binary on GitHub otherwise."""

    def setup_build_environment(self, env):
        super().setup_build_environment(env)
        env.set("FLASH_ATTENTION_FORCE_BUILD", "TRUE")
