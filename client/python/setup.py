"""Adds the generated stubs and the version to what pyproject.toml says."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import stubs  # noqa: E402


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        stubs.generate(pathlib.Path(self.build_lib))


setup(
    version=stubs.version(),
    cmdclass={"build_py": BuildWithStubs},
)
