"""Wheel and source distribution, the installed tree, versions, names of the environment."""
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import typing
import unittest
import zipfile
from unittest import mock

import numpy as np

from common import ROOT, TUTTI, numbers
import tutti
from tutti.prediction import MOMENTS

try:
    import setuptools.build_meta
    import wheel.bdist_wheel
except ImportError as missing:
    setuptools, WHY = None, f"Debian package python3-{missing.name.split('.')[0]} is missing"
else:
    WHY = ""
USE = """
import numpy as np, tutti
print(tutti.find_program(), tutti.find_library())
x = np.linspace(0, 1, 20).reshape(10, 2)
print(tutti.Ensemble(members=2, epochs=2, quiet=True, threads=1).fit(x, x).predict(x).std.shape)
"""


def plain_environment(**more):
    """No TUTTI, and no tutti in PATH."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("TUTTI", "TUTTI_LIBRARY", "PYTHONPATH")}
    return {**kept, "PATH": "/usr/bin:/bin", **more}


class Places(unittest.TestCase):
    def test_version_is_that_of_the_program(self):
        said = subprocess.run([TUTTI, "--version"], capture_output=True, text=True).stdout
        self.assertIn(tutti.__version__, said.split("\n")[0])

    def test_order_of_places(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "tutti")
            os.symlink(TUTTI, other)
            with mock.patch.dict(os.environ, {"TUTTI": other, "PATH": folder}):
                self.assertEqual(tutti.find_program(TUTTI), os.path.abspath(TUTTI))
                self.assertEqual(tutti.find_program(), other)
                del os.environ["TUTTI"]
                self.assertEqual(tutti.find_program(), other)
            with mock.patch.dict(os.environ, {"TUTTI_LIBRARY": "/x/lib.so"}):
                self.assertEqual(tutti.find_library(), "/x/lib.so")
            shutil.copy(TUTTI, folder + "/alone")
            without = {k: v for k, v in os.environ.items() if k != "TUTTI_LIBRARY"}
            with mock.patch.dict(os.environ, without, clear=True):
                with self.assertRaisesRegex(FileNotFoundError, "libtutti.so is not near"):
                    tutti.find_library(folder + "/alone")
                with self.assertRaisesRegex(FileNotFoundError, "libtutti.so is not near"):
                    tutti.Ensemble(program=folder + "/alone", directory=folder + "/run").fit(
                        *numbers())
            self.assertFalse(os.path.exists(folder + "/run"))  # it was refused before training

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_older_library(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, body in (("old", 'const char *tutti_version(void) { return "0.0.7"; }'),
                               ("other", "int something;")):
                pathlib.Path(folder, name + ".c").write_text(body)
                subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/{name}.so",
                                f"{folder}/{name}.c"], check=True)
            said = (r"old\.so has version 0\.0\.7 and no function tutti_error; the Python package "
                    rf"tutti has version {tutti.__version__}: install")
            for name, message in (("old", said), ("other", r"other\.so is not libtutti")):
                with mock.patch.dict(os.environ, {"TUTTI_LIBRARY": f"{folder}/{name}.so"}):
                    with self.assertRaisesRegex(ImportError, message):
                        tutti.Model("model.h5")

    def test_types_of_what_callers_use(self):
        for kind in (tutti.Ensemble, tutti.EnsembleClassifier, tutti.EnsembleRegressor,
                     tutti.Model, tutti.Run, tutti.Trainer, tutti.TuttiSearch, tutti.Campaign):
            for name, function in inspect.getmembers(kind, inspect.isfunction):
                if function.__module__.startswith("tutti.") and not name.startswith("_"):
                    with self.subTest(kind=kind, name=name):
                        # Resolves every name, as type checkers do; a missing one is a NameError.
                        self.assertIn("return", typing.get_type_hints(function))
        arrays = typing.get_type_hints(tutti.Prediction)
        for name in MOMENTS:
            self.assertIs(arrays[name], np.ndarray)
            self.assertEqual(arrays[f"{name}_gradient"], typing.Optional[np.ndarray])
        for function in (tutti.Model.predict, tutti.Run.predict, tutti.Ensemble.distribution):
            self.assertIs(typing.get_type_hints(function)["return"], tutti.Prediction)

    def test_without_optional_packages(self):
        code = ("import sys\nfor name in ('pandas', 'xarray', 'sklearn', 'tqdm'):\n"
                "    sys.modules[name] = None\nsys.path.insert(0, sys.argv[1])\n" + USE)
        done = subprocess.run([sys.executable, "-B", "-c", code, str(ROOT / "python")],
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines()[-1:], ["(10, 2)"], done.stderr)


@unittest.skipUnless(setuptools, WHY)
class Distributions(unittest.TestCase):
    def build(self, folder, what, **environment):
        """Build in a copy of python/; the path of the file."""
        source = os.path.join(folder, "source")
        shutil.copytree(ROOT / "python", source,
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        code = f"import setuptools.build_meta as b; print(b.build_{what}({folder!r}))"
        done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True,
                              text=True, env=plain_environment(**environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return os.path.join(folder, done.stdout.splitlines()[-1])

    def test_wheel_with_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            file = self.build(folder, "wheel", TUTTI_BUILD=os.path.dirname(TUTTI))
            self.assertRegex(os.path.basename(file), rf"^tutti-{tutti.__version__}-py3-none-linux_")
            place = os.path.join(folder, "site")
            with zipfile.ZipFile(file) as z:
                z.extractall(place)
            os.chmod(place + "/tutti/bin/tutti", 0o755)  # pip keeps the mode, zipfile does not
            command = [f"{place}/tutti-{tutti.__version__}.data/scripts/tutti", "--version"]
            said = subprocess.run([sys.executable, *command], capture_output=True, text=True,
                                  env=plain_environment(PYTHONPATH=place)).stdout
            self.assertIn(f"tutti {tutti.__version__}", said)
            done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True,
                                  cwd=folder, env=plain_environment(PYTHONPATH=place))
            self.assertEqual(done.stdout.split(), [place + "/tutti/bin/tutti",
                                                   place + "/tutti/bin/libtutti.so.0",
                                                   "(10,", "2)"], done.stderr)

    def test_source_distribution(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(self.build(folder, "sdist")) as t:
                names = {pathlib.PurePath(*pathlib.PurePath(n).parts[1:]).as_posix()
                         for n in t.getnames()}
        package = ROOT / "python"
        expected = {p.relative_to(package).as_posix() for p in package.glob("tutti/**/*.py")}
        self.assertEqual(expected - names, set())
        self.assertLessEqual({"pyproject.toml", "setup.py", "README.md", "tutti/py.typed"}, names)


class Installed(unittest.TestCase):
    def test_package_that_pip_has_installed_from_a_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, f"site/tutti-{tutti.__version__}.dist-info")
            record.mkdir(parents=True)
            shutil.copytree(ROOT / "python/tutti", record.parent / "tutti")
            (record / "direct_url.json").write_text('{"url": "file://%s/a%%20tree/python"}' % folder)

            def use():
                return subprocess.run(
                    [sys.executable, "-B", "-c", USE], capture_output=True, text=True, cwd=folder,
                    env=plain_environment(PYTHONPATH=str(record.parent)))

            built = pathlib.Path(folder, "a tree/build-demo/tutti")
            self.assertIn(f"{folder}/build/tutti, ", use().stderr)
            self.assertIn(f", {built}: install it", use().stderr)
            built.parent.mkdir(parents=True)
            built.symlink_to(TUTTI)
            self.assertEqual(use().stdout.split()[:2], [folder + "/a", "tree/build-demo/tutti"])

    def test_package_of_the_installation(self):
        with tempfile.TemporaryDirectory() as prefix:
            place = pathlib.Path(prefix, "share/tutti/python")
            shutil.copytree(ROOT / "python", place)
            pathlib.Path(prefix, "bin").mkdir()
            os.symlink(TUTTI, prefix + "/bin/tutti")
            done = subprocess.run(
                [sys.executable, "-B", "-c", USE], capture_output=True, text=True, cwd=prefix,
                env=plain_environment(PYTHONPATH=str(place)))
            self.assertEqual(done.stdout.splitlines()[-1:], ["(10, 2)"], done.stderr)
            self.assertEqual(done.stdout.split()[0], prefix + "/bin/tutti")


if __name__ == "__main__":
    unittest.main()
