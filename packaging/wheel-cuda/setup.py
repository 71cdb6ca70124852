"""Builds the wheel tutti-cuda of script/wheel --cuda: the cuda engine, beside the program of the wheel
tutti of the same version, which looks for it there."""
import os
import pathlib

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

VERSION = os.environ["TUTTI_VERSION"]
ENGINE = pathlib.Path(os.environ["TUTTI_ENGINE"])


class BuildWithEngine(build_py):
    def run(self):
        target = pathlib.Path(self.build_lib, "tutti", "bin")
        target.mkdir(parents=True)
        self.copy_file(ENGINE, target / ENGINE.name)


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# There is no such module: without a name here setuptools does not call build_py.
setup(name="tutti-cuda", version=VERSION, description="The CUDA engine of tutti", license="BSD-3-Clause",
      python_requires=">=3.9", install_requires=[f"tutti=={VERSION}"], py_modules=["tutti_cuda"],
      distclass=BinaryDistribution, cmdclass={"build_py": BuildWithEngine, "bdist_wheel": PlatformWheel})
