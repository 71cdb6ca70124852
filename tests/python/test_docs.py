"""The code of docs/python.md, trainer.md and of the README runs, and the notebook.

The cells of the notebook run here one after the other; with nbclient and ipykernel (CI does not
install them: 50 packages) they also run in a kernel.
"""
import contextlib
import functools
import io
import json
import os
import re
import shlex
import stat
import tempfile
import unittest
from unittest import mock

import numpy as np

from common import ROOT
import tutti

try:
    import pandas
    import xarray
except ImportError as missing:
    TABLES = f"{missing.name} is missing"
else:
    TABLES = ""
try:
    import ipykernel
    import nbclient
    import nbformat
except ImportError as missing:
    KERNEL = f"{missing.name} is missing"
else:
    KERNEL = ""
OTHERS = "\n## From other libraries\n"
# The PATH of before: an mpirun in TUTTI_MPIRUN without a folder is not this one again.
PROGRAMS = {"mpirun": f'PATH={shlex.quote(os.environ["PATH"])}; shift; '
                      'exec $(echo "$TUTTI_MPIRUN" | tr ";" " ") "$@"',
            "sbatch": "echo 4711"}


def blocks(page, others=False):
    """(first line, code) of the Python blocks of a page; others: those of its section OTHERS."""
    text = (ROOT / page).read_text()
    place = text.find(OTHERS)
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        if others == (0 <= place < found.start()):
            yield text.count("\n", 0, found.start()) + 2, found[1]


def run_blocks(page, names, wanted=lambda code: True):
    """Run the blocks in one namespace; what they print, and how many they are."""
    out, count = io.StringIO(), 0
    for line, code in blocks(page):
        if wanted(code):
            with contextlib.redirect_stdout(out):
                run_quietly(page, line, code, names)
            count += 1
    return out.getvalue(), count


def parts(page):
    """(first line, code) of the parts of blocks that begin with "# before" or "# after"."""
    for line, code in blocks(page, others=True):
        for found in re.finditer(r"^.+?(?=^# after|\Z)", code, re.M | re.S):
            yield line + code.count("\n", 0, found.start()), found[0]


def run_quietly(page, line, code, names):
    """Run a block; it prints on standard output alone."""
    with contextlib.redirect_stderr(io.StringIO()):
        exec(compile("\n" * (line - 1) + code, page, "exec"), names)


def cells(kind="code"):
    notebook = json.loads((ROOT / "examples/python/ensemble.ipynb").read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.mkdir("bin")
        for name, line in PROGRAMS.items():
            with open(f"bin/{name}", "w") as f:
                f.write(f"#!/bin/sh\n{line}\n")
            os.chmod(f"bin/{name}", stat.S_IRWXU)
        path = folder.name + "/bin" + os.pathsep + os.environ["PATH"]
        changed = mock.patch.dict(os.environ, {"PATH": path})
        changed.start()
        self.addCleanup(changed.stop)

    @unittest.skipIf(TABLES, TABLES)
    def test_manual(self):
        names = {}
        printed, count = run_blocks("docs/python.md", names)
        self.assertEqual(count, 14)
        for text in ("(4,) (5,)", "(2, 5) (10, 5)", "78 ", "did you mean 'epochs'?", "submitted",
                     "epistemic"):
            self.assertIn(text, printed)
        self.assertEqual(names["curves"]["train"].shape, (10, 20))

    def test_trainer(self):
        names = {}
        printed, count = run_blocks("docs/trainer.md", names)
        self.assertEqual(count, 4)
        loss, mean, _ = map(float, printed.splitlines()[0].split())
        self.assertLess(loss, 0.1)
        self.assertGreater(mean, 0.4)
        self.assertEqual(printed.splitlines()[1], "True")
        self.assertEqual(names["slope"].shape, (3, 4, 2))

    def test_migration(self):
        """Other libraries, where they are installed, and tutti predict the same function."""
        page, names, found = "docs/python.md", {}, [0, 0]
        os.environ.setdefault("KERAS_BACKEND", "torch")
        for line, code in parts(page):
            title = code.partition("\n")[0]
            optional = title.startswith(("# before", "# after, with"))
            found[optional] += 1
            with self.subTest(f"{page}:{line} {title}"), contextlib.redirect_stdout(io.StringIO()):
                names.pop("mean", None)
                try:
                    run_quietly(page, line, code, names)
                except ImportError as missing:
                    if not optional:
                        raise
                    self.skipTest(str(missing))
                if "X_new" in names and "mean" in code:
                    error = np.asarray(names["mean"]) - names["X_new"].prod(axis=1)
                    self.assertLess(np.sqrt((error ** 2).mean()), 0.15)
                if title.endswith("in Flax") and "flax" in names:
                    self.compare_with_flax(names)
        self.assertEqual(found, [7, 7])

    def compare_with_flax(self, names):
        a, net, jax = (names[name] for name in ("arrays", "net", "jax"))
        normalized = (names["X_new"] - a["x_mean"]) / a["x_scale"]
        outputs = jax.vmap(lambda w: net.apply(w, normalized))(names["weights"])
        mean = np.asarray(outputs).mean(axis=0) * a["y_scale"] + a["y_mean"]
        np.testing.assert_allclose(mean[:, 0], names["mean"], rtol=0, atol=1e-5)

    def test_readme(self):
        quick = functools.partial(tutti.Ensemble, epochs=2)
        for page in ("README.md", "python/README.md"):
            os.chdir(ROOT)
            names = {}
            with mock.patch.object(tutti, "Ensemble", quick):
                _, count = run_blocks(page, names, lambda code: "import tutti" in code)
            self.assertEqual(count, 1)
            self.assertEqual(names["p"].quantiles.shape, (2, 5))

    def test_notebook_cells(self):
        os.chdir(ROOT / "examples/python")
        names, out = {}, io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            for code in cells():
                exec(code, names)
        members, ensemble = re.search(r"heating_load members (\S+) ensemble (\S+)",
                                      out.getvalue()).groups()
        self.assertLess(float(ensemble), float(members))
        sure, unsure = re.findall(r"disagreement \[\s*(\S+)", out.getvalue())
        self.assertLess(float(sure.rstrip("]")), float(unsure.rstrip("]")))

    @unittest.skipIf(KERNEL, KERNEL)
    def test_notebook_in_a_kernel(self):
        path = str(ROOT / "examples/python/ensemble.ipynb")
        with mock.patch.dict(os.environ, {"PYTHONPATH": str(ROOT / "python")}):
            done = nbclient.NotebookClient(
                nbformat.read(path, 4), timeout=100,
                resources={"metadata": {"path": os.path.dirname(path)}}).execute()
        shown = "".join(str(output) for cell in done.cells if cell.cell_type == "code"
                        for output in cell.outputs)
        self.assertIn("heating_load members", shown)


if __name__ == "__main__":
    unittest.main()
