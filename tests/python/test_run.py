"""Runs: resume, interrupt, ranks, batch jobs, results as arrays, progress."""
import contextlib
import io
import os
import pathlib
import re
import signal
import stat
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import h5py
import numpy as np

from common import SMALL, TUTTI, numbers
import tutti
from tutti import progress as progress_module

try:
    import tqdm
except ImportError:
    tqdm = None
REAL_BAR = progress_module._bar
MPIRUN = os.environ["TUTTI_MPIRUN"].replace(";", " ").split()[:-1]  # without -n
SBATCH = """#!/bin/sh
echo "$PWD $*" >"$SBATCH_LOG"
command -v tutti >>"$SBATCH_LOG"
echo '4711;cluster'
"""


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "run")

    def test_results_are_those_of_the_file(self):
        x, y = numbers(targets=2)
        tutti.Ensemble(**SMALL, directory=self.folder).fit(x, y)
        run = tutti.open_run(self.folder)
        self.assertEqual((run.status()["state"], run.done()), ("done", True))
        curves, results, members = run.learning_curves(), run.results(), run.members()
        with h5py.File(run.path("results.h5")) as f:
            for name in ("train", "validation"):
                np.testing.assert_array_equal(curves[name], f[f"loss_{name}"][()])
        self.assertEqual(curves["train"].shape, (3, 3))
        self.assertEqual(list(results["column_label"]), ["y0", "y1"])
        self.assertEqual(members["test_rmse"].shape, (3, 2))
        self.assertEqual(members["epochs_done"].tolist(), [3, 3, 3])
        self.assertNotIn("ensemble_rmse", members)
        self.assertEqual(run.predict(x).mean.shape, (60, 2))

    def test_tables_in_files(self):
        """train and tune do what the program does; a model of texts predicts classes by name."""
        x, _ = numbers()
        table = pathlib.Path(self.folder).with_suffix(".csv")
        rows = [",".join([*map(repr, row.tolist()), "wet" if row[0] > 0 else "dry"]) for row in x]
        table.write_text("\n".join(["a,b,c,k", *rows]) + "\n")
        run = tutti.train(table, "k", members=2, epochs=3, directory=self.folder, quiet=True)
        self.assertEqual(list(run.results()["column_label"])[:2], ["k=dry", "k=wet"])
        rows, file = (run.predict(of, members=True, gradient=True) for of in (x, table))
        self.assertEqual((rows.keys(), rows.columns), (file.keys(), file.columns))
        for name in rows:  # the library has derivatives in single precision
            np.testing.assert_allclose(rows[name], file[name], rtol=0, err_msg=name,
                                       atol=1e-6 if name.endswith("_gradient") else 0)
        with self.assertRaisesRegex(tutti.InputError, "there is no column 'q'"):
            tutti.train(table, ["q"], directory=self.folder + "q", quiet=True)
        found = tutti.tune(table, ["k"], budget=2, folds=2, directory=self.folder + "t", quiet=True,
                           overrides=["train.epochs=13"])
        self.assertEqual(found.results()["trial_score"].shape[0], 2)

    def interrupt(self, fitted, x, y):
        """Fit, and press Ctrl-C after the first epochs: a run that is stopped earlier may have no checkpoint."""
        def interrupt_when_training():
            path = pathlib.Path(self.folder, "status.json")
            while not path.exists() or not re.search(r'"epoch": [1-9]', path.read_text()):
                time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        thread = threading.Thread(target=interrupt_when_training)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            fitted.fit(x, y)
        thread.join()
        self.assertEqual(tutti.open_run(self.folder).status()["state"], "stopped")

    def test_interrupt_writes_a_checkpoint_and_resume_continues(self):
        x, y = numbers(rows=200)
        long = {**SMALL, "epochs": 10000, "batch_size": 8, "hidden": [16]}
        stopped = tutti.Ensemble(**long, directory=self.folder)
        self.interrupt(stopped, x, y)
        done = stopped.fit(x, y, resume=True).run_
        self.assertGreater(done.status()["resumed"], 0)
        self.assertTrue(np.isfinite(done.learning_curves()["train"]).all())

    def test_interrupt_under_mpirun(self):
        """Ctrl-C stops all ranks with a checkpoint; other ranks continue to the same bits."""
        x, y = numbers(rows=100)
        long = {**SMALL, "epochs": 10000, "batch_size": 8}
        stopped = tutti.Ensemble(**long, directory=self.folder, ranks=2, launcher=MPIRUN)
        self.interrupt(stopped, x, y)
        self.assertFalse(os.path.exists(stopped.run_.path("model.h5")))
        done = tutti.Ensemble(**long, directory=self.folder).fit(x, y, resume=True)
        self.assertGreater(done.run_.status()["resumed"], 0)
        whole = tutti.Ensemble(**long).fit(x, y)
        np.testing.assert_array_equal(done.predict(x).mean, whole.predict(x).mean)

    def test_resume_needs_a_checkpoint_of_this_run(self):
        x, y = numbers()
        with self.assertRaises(tutti.InputError) as caught:
            tutti.Ensemble(**SMALL, directory=self.folder).fit(x, y, resume=True)
        self.assertEqual(caught.exception.code, 66)
        first = tutti.Ensemble(**SMALL, directory=self.folder).fit(x, y)
        with self.assertRaisesRegex(tutti.InputError, "belongs to another run.*resume=False"):
            first.fit(x, y + 1)
        first.fit(x, y + 1, resume=False)

    def test_ranks_do_not_change_bits(self):
        x, y = numbers()
        one = tutti.Ensemble(**SMALL).fit(x, y).predict(x).mean
        two = tutti.Ensemble(**SMALL, ranks=2, launcher=MPIRUN).fit(x, y)
        with h5py.File(two.run_.path("model.h5")) as f:
            self.assertEqual(f["provenance"].attrs["ranks"], 2)
        np.testing.assert_array_equal(two.predict(x).mean, one)
        with self.assertRaises(tutti.InputError) as caught:
            tutti.Ensemble(**SMALL, ranks=2, launcher=MPIRUN, dropout=2).fit(x, y)
        self.assertEqual(caught.exception.code, 78)
        self.assertEqual(str(caught.exception),
                         "dropout: 2 is out of range: 0 to 0.99\n1 error; nothing was run")
        with self.assertRaisesRegex(ValueError, "ranks=0 is not"):
            tutti.Ensemble(**SMALL, ranks=0).fit(x, y)

    def test_sample_weight_and_split(self):
        x, y = numbers()
        split = np.r_[np.zeros(40), np.ones(10), np.full(10, 2)]
        fitted = tutti.Ensemble(**SMALL).fit(x, y, np.linspace(1, 2, 60), split=split)
        results = fitted.run_.results()
        np.testing.assert_allclose(results["y_true"][:, 0], y[50:], rtol=1e-6)
        self.assertIn('weights: "sample_weight"', fitted.run_.config())
        with self.assertRaisesRegex(ValueError, r"sample_weight has the shape \(59,\)"):
            fitted.fit(x, y, np.ones(59))


class BatchJobs(unittest.TestCase):
    def test_submit_and_come_back(self):
        x, y = numbers()
        with tempfile.TemporaryDirectory() as folder:
            sbatch = pathlib.Path(folder, "sbatch")
            sbatch.write_text(SBATCH)
            sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)
            log, run = pathlib.Path(folder, "log"), os.path.join(folder, "run")
            changed = {"PATH": folder + os.pathsep + os.environ["PATH"], "SBATCH_LOG": str(log)}
            with mock.patch.dict(os.environ, changed):
                tutti.Ensemble(**SMALL, directory=run).fit(
                    x, y, submit={"nodes": 2, "time": "1:00:00", "account": "abc"})
            words = log.read_text().splitlines()
            self.assertEqual(words[0], f"{os.path.realpath(run)} --parsable --account=abc "
                                       "job.sbatch")
            self.assertEqual(words[1], TUTTI)
            script = pathlib.Path(run, "job.sbatch").read_text()
            self.assertIn("#SBATCH --nodes=2\n", script)
            self.assertIn("#SBATCH --time=1:00:00", script)
            self.assertIn("job='job.yaml'", script)
            later = tutti.open_run(run)
            self.assertEqual(later.status(), {"state": "submitted", "job": "4711"})
            with self.assertRaisesRegex(TimeoutError, "submitted after 0"):
                later.wait(timeout=0.01, poll=0.1)
            tutti.Ensemble(**SMALL, directory=run).fit(x, y)  # what the batch job does
            self.assertEqual(later.wait(timeout=5).predict(x).mean.shape, (60,))
            with self.assertRaisesRegex(ValueError, "needs a directory"):
                tutti.Ensemble(**SMALL).fit(x, y, submit=True)


class Progress(unittest.TestCase):
    setUp = Runs.setUp
    LINES = ("tutti: 3 members in 1 ensemble", "tutti: epoch 2/9, loss 1 2 3, 9 steps/s",
             "tutti: epoch 9/9, loss 1 1 1, 9 steps/s", "tutti: warning: shown as a warning",
             "tutti: error: shown as an exception")

    def show(self, live, quiet=False, bar=None):
        out = io.StringIO()
        out.isatty = lambda: live
        with contextlib.redirect_stderr(out), mock.patch.object(
                progress_module, "_bar", lambda total: bar):
            with progress_module.Progress(quiet) as progress:
                for line in self.LINES:
                    progress(line)
        return out.getvalue()

    def test_terminal_and_log(self):
        self.assertEqual(self.show(live=False), "\n".join(self.LINES[:3]) + "\n")
        self.assertEqual(self.show(live=True), "\r" + self.LINES[1] + "\r" + self.LINES[2] + "\n")
        self.assertEqual(self.show(live=True, quiet=True), "")

    def test_bar(self):
        bar = mock.Mock(n=0)
        bar.update.side_effect = lambda step: setattr(bar, "n", bar.n + step)
        self.assertEqual(self.show(live=True, bar=bar), "")
        self.assertEqual(bar.n, 9)
        bar.close.assert_called_once()

    @unittest.skipUnless(tqdm, "tqdm is not installed (Debian package python3-tqdm)")
    def test_bar_of_tqdm(self):
        with mock.patch("sys.stderr", io.StringIO()) as out:
            bar = REAL_BAR(9)
            bar.update(9)
            bar.close()
        self.assertIn("9/9", out.getvalue())

    def test_fit_shows_the_lines_of_the_program(self):
        x, y = numbers()
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            tutti.Ensemble(**{**SMALL, "quiet": False}).fit(x, y)
        self.assertRegex(out.getvalue(), r"tutti: epoch 3/3, loss .* 3 finished")

    def test_bar_behind_mpirun(self):
        """mpirun takes the terminal away: the bar follows metrics.jsonl."""
        x, y = numbers()
        out = io.StringIO()
        out.isatty = lambda: True
        with contextlib.redirect_stderr(out), mock.patch.object(
                progress_module, "_bar", lambda total: None):
            tutti.Ensemble(**{**SMALL, "quiet": False, "epochs": 300}, ranks=2,
                           launcher=MPIRUN).fit(x, y)
        shown = [int(n) for n in re.findall(r"\rtutti: epoch (\d+)/300, loss ", out.getvalue())]
        self.assertGreater(len(shown), 1, out.getvalue())
        self.assertEqual((shown, shown[-1]), (sorted(shown), 300))
        self.assertLess(shown[0], 300)

    def test_metrics_of_an_earlier_start_are_not_shown(self):
        line = ('{"epoch": %d, "epochs": 9, "loss_q25": 1, "loss_q50": null, "loss_q75": 3, '
                '"training": 2, "finished": 1, "early_stopped": 0, "diverged": 0}\n')
        shown = mock.Mock()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "metrics.jsonl")
            path.write_text(line % 1)
            with progress_module.Follower(str(path), shown):
                with path.open("a") as f:
                    f.write(line % 2 + line % 3 + '{"epoch": ')
            with progress_module.Follower(str(path), shown):
                path.write_text(line % 4)  # training began again
        self.assertEqual([call.args[0] for call in shown.show.call_args_list], [2, 3, 4])
        self.assertEqual(shown.show.call_args.args[1:], (9, "loss 1 nan 3, 2 training, 1 finished"))

    def test_terminal_of_the_program(self):
        x, y = numbers()
        for module, directory in (("ensemble", self.folder), ("training", None)):
            lines = []
            shown = mock.Mock(side_effect=lines.append, live=True)
            with mock.patch(f"tutti.{module}.Progress") as progress:
                progress.return_value.__enter__.return_value = shown
                tutti.Ensemble(**SMALL, directory=directory).fit(x, y)
            self.assertEqual([line for line in lines if not line.isprintable()], [])
            last = [progress_module.EPOCH.match(line) for line in lines if "epoch" in line][-1]
            self.assertEqual(last.groups()[:2], ("3", "3"))
            self.assertIn(last[0], lines)

    def test_lines_of_a_terminal_and_of_a_pipe(self):
        script = ("[ -t 2 ] && printf 'a' >&2; "
                  "printf '\\r\\033[Kb\\ntutti: error: x\\ny' >&2; exit 65")
        for terminal in (False, True):
            lines = []
            with self.assertRaises(tutti.InputError) as caught:
                tutti.program.run(["sh", "-c", script], lines.append, terminal=terminal)
            self.assertEqual(lines, ["a"] * terminal + ["b", "tutti: error: x", "y"])
            self.assertEqual((caught.exception.code, str(caught.exception)), (65, "x\ny"))

    def test_warnings_of_the_program(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tutti.program.warn_of(["tutti: epoch 1/1", "tutti: warning: 2 cores are idle"])
        self.assertEqual([str(w.message) for w in caught], ["2 cores are idle"])


if __name__ == "__main__":
    unittest.main()
