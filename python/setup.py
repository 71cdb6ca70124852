"""Builds the package. With the environment variable TUTTI_BUILD, a build folder of CMake, the wheel
carries the program and the library, and a command `tutti`; without it, the package finds those that
are installed."""
import os
import pathlib
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

BUILD = os.environ.get("TUTTI_BUILD")


class BuildWithProgram(build_py):
    def run(self):
        super().run()
        if not BUILD:
            return
        target = pathlib.Path(self.build_lib, "tutti", "bin")
        target.mkdir(parents=True, exist_ok=True)
        for name in ("tutti", "libtutti.so.0", "libtutti_cuda.so"):
            source = pathlib.Path(BUILD, name)
            if source.exists():
                shutil.copy(source, target / name)
            elif name != "libtutti_cuda.so":
                raise SystemExit(f"TUTTI_BUILD: {source} does not exist; build tutti first")


class ProgramDistribution(Distribution):
    def has_ext_modules(self):
        return bool(BUILD)


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if BUILD else (python, abi, platform)


setup(distclass=ProgramDistribution, scripts=["command/tutti"] if BUILD else [],
      cmdclass={"build_py": BuildWithProgram, "bdist_wheel": PlatformWheel})
