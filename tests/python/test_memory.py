"""Fits in the process and in memory: the bits of a run directory, stops, threads, forks, errors."""
import multiprocessing
import os
import pickle
import signal
import subprocess
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

from common import SMALL, numbers
import tutti
from tutti import training

LONG = {**SMALL, "epochs": 200000, "batch_size": 8}


def _fit_in_child(threads):
    x, y = numbers()
    return tutti.Ensemble(**{**SMALL, "threads": threads}).fit(x, y).predict(x).mean


class Interrupted(training.Training):
    """A training during which somebody presses Ctrl-C."""

    polls, press_at = 0, 4  # some epochs are done

    def _poll(self, context, text):
        self.polls += 1
        if self.polls == self.press_at:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return super()._poll(context, text)


class Bits(unittest.TestCase):
    def test_those_of_a_run_directory(self):
        x, y = numbers(rows=90, targets=2)
        kinds = np.array(["a", "b", "c"])[np.arange(90) % 3]
        table = {"p": x[:, 0], "q": x[:, 1], "kind": kinds}
        split = np.r_[np.zeros(60), np.ones(20), np.full(10, 2)]
        jobs = (({"loss": "gaussian_nll", "conformal": [0.5], "recalibrate": "all"}, x, y, {}),
                ({"resample": "bootstrap", "patience": 1, "combine": {"method": "greedy"}}, x, y, {}),
                ({"patience": 3, "threads": 2}, x, y[:, 0], {"sample_weight": 1 + split}),
                ({"loss": "cross_entropy", "classes": 3}, x, np.arange(90) % 3, {"split": split}),
                ({"sweep": {"learning_rate": {"list": [0.1, 0.01, 0.2]}}}, table, y[:, 0], {}),
                ({"resample": "kfold", "folds": 3, "normalize": "yeo_johnson"}, x, y, {}))
        for options, inputs, targets, rows in jobs:
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                given = {**SMALL, **options}
                here = tutti.Ensemble(**given).fit(inputs, targets, **rows).run_
                there = tutti.Ensemble(**given, directory=folder).fit(inputs, targets, **rows).run_
                found, expected = here.results(), there.results()
                self.assertEqual(list(found), list(expected))
                for name, values in expected.items():
                    np.testing.assert_array_equal(found[name], values, err_msg=name)
                with here.model.open_file() as a, there.model.open_file() as b:
                    self.assertEqual(a.attrs["content_hash_xxh3"], b.attrs["content_hash_xxh3"])
                for name in ("state", "exit_code", "members", "finished", "epochs"):
                    self.assertEqual(here.status()[name], there.status()[name])

    def test_nothing_is_written_and_started(self):
        x, y = numbers()
        with tempfile.TemporaryDirectory() as folder, mock.patch(
                "tempfile.mkdtemp", side_effect=AssertionError), mock.patch.object(
                    subprocess, "Popen", side_effect=AssertionError):
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            fitted = tutti.Ensemble(**SMALL).fit(x, y)
            self.assertEqual(fitted.run_.status()["state"], "done")
            self.assertEqual(fitted.run_.learning_curves()["train"].shape, (3, 3))
            self.assertEqual(len(fitted.run_.model.arrays()["layers"]), 2)
            self.assertEqual(os.listdir(folder), [])
            os.chdir("/")
        model = fitted.run_.path("model.h5")  # now it is written
        np.testing.assert_array_equal(tutti.Model(model).predict(x).mean, fitted.predict(x).mean)
        copy = pickle.loads(pickle.dumps(fitted))
        self.assertEqual(repr(copy.run_), "<tutti.Run in memory>")
        np.testing.assert_array_equal(copy.predict(x).mean, fitted.predict(x).mean)

    def test_init_from_a_run_in_memory(self):
        x, y = numbers()
        old = tutti.Ensemble(**SMALL).fit(x, y)
        new = tutti.Ensemble(**SMALL, init_from=old.run_, learning_rate=1e-12).fit(x, y)
        np.testing.assert_allclose(new.predict(x).mean, old.predict(x).mean, atol=1e-5)


class Stops(unittest.TestCase):
    def test_interrupt_and_resume(self):
        x, y = numbers(rows=100)
        options = {**LONG, "epochs": 20000}
        stopped, before = tutti.Ensemble(**options), signal.getsignal(signal.SIGINT)
        with mock.patch.object(training, "Training", Interrupted):
            with self.assertRaises(KeyboardInterrupt):
                stopped.fit(x, y)
        with mock.patch.object(Interrupted, "press_at", 1), mock.patch.object(
                training, "Training", Interrupted):  # before the first step: no other checkpoint
            with self.assertRaises(KeyboardInterrupt):
                stopped.fit(x, y)
        self.assertEqual(signal.getsignal(signal.SIGINT), before)
        self.assertEqual(stopped.run_.status()["state"], "stopped")
        moved = pickle.loads(pickle.dumps(stopped))
        whole = tutti.Ensemble(**options).fit(x, y)
        for resumed in (stopped, moved):
            resumed.fit(x, y, resume=True)
            self.assertGreater(resumed.run_.status()["resumed"], 0)
            np.testing.assert_array_equal(resumed.predict(x).mean, whole.predict(x).mean)
        with mock.patch("tutti.training.train", side_effect=AssertionError):
            stopped.fit(x, y, resume=True)  # nothing is left to do
        with self.assertRaisesRegex(tutti.InputError, "no checkpoint to resume"):
            stopped.fit(x, y + 1, resume=True)
        with self.assertRaisesRegex(tutti.InputError, "no checkpoint to resume") as caught:
            tutti.Ensemble(**SMALL).fit(x, y, resume=True)
        self.assertEqual(caught.exception.code, 66)

    def test_time_limit_and_other_data(self):
        x, y = numbers(rows=100)
        stopped = tutti.Ensemble(**LONG, max_time="300ms")
        with self.assertRaisesRegex(tutti.Stopped, "the time limit") as caught:
            stopped.fit(x, y)
        self.assertEqual(caught.exception.code, 75)
        with self.assertRaisesRegex(tutti.InputError, "belongs to another run.*other data"):
            stopped.fit(x, y + 1, resume=True)
        with self.assertRaisesRegex(tutti.Stopped, "the time limit"):
            stopped.fit(x, y, resume=True)
        self.assertEqual(stopped.run_.status()["resumed"], 1)
        self.assertEqual(stopped.set_params(max_time=None, epochs=2).fit(x, y).predict(x).mean.shape, (100,))

    def test_a_second_interrupt_does_not_wait(self):
        x, y = numbers(rows=100)

        def press_twice(line):
            raise KeyboardInterrupt

        stopped = tutti.Ensemble(**{**LONG, "quiet": False})
        with mock.patch("tutti.training.Progress.__call__", side_effect=press_twice), mock.patch(
                "threading.Thread.join", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                stopped.fit(x, y)
        self.assertFalse(hasattr(stopped, "run_"))

    def test_an_error_keeps_the_last_fit(self):
        x, y = numbers()
        fitted = tutti.Ensemble(**SMALL).fit(x, y)
        mean = fitted.predict(x).mean
        with self.assertRaisesRegex(tutti.InputError, "^dropout: 3 is out of range"):
            fitted.set_params(dropout=3).fit(x, y)
        np.testing.assert_array_equal(fitted.predict(x).mean, mean)
        with tempfile.TemporaryDirectory() as folder:
            codes = []
            for directory in (None, folder):
                with self.assertRaisesRegex(tutti.Error, "3 of 3 members diverged") as caught:
                    tutti.Ensemble(**SMALL, learning_rate=1e30, optimizer="sgd",
                                   directory=directory).fit(x, y)
                codes.append(caught.exception.code)
            self.assertEqual(codes[0], codes[1])


class Threads(unittest.TestCase):
    def test_fits_of_several_threads(self):
        """Each has its own bits and lines, also while others open models."""
        x, y = numbers(rows=200)
        seeds, found = (1, 2, 3, 4), {}

        def fit(seed):
            fitted = tutti.Ensemble(**{**SMALL, "epochs": 30, "threads": 1 + seed % 2}, seed=seed)
            found[seed] = [fitted.fit(x, y).predict(x).mean for _ in range(3)]

        expected = {seed: tutti.Ensemble(**{**SMALL, "epochs": 30}, seed=seed).fit(x, y).predict(x).mean
                    for seed in seeds}
        threads = [threading.Thread(target=fit, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed in seeds:
            for mean in found[seed]:
                np.testing.assert_array_equal(mean, expected[seed])

    def test_forks_while_a_thread_trains(self):
        """A fork waits for HDF5 of the library, which must not wait for Python. The children do not
        use h5py, whose lock another thread may have at the fork."""
        x, y = numbers(rows=200)
        end, fits = threading.Event(), []

        def train():
            while not end.is_set():
                fits.append(tutti.Ensemble(**SMALL).fit(x, y))

        thread = threading.Thread(target=train)
        thread.start()
        try:
            while len(fits) < 5:
                child = os.fork()
                if child == 0:
                    os._exit(0)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            end.set()
            thread.join()

    def test_forked_processes(self):
        """They train here with one thread, and by the program with several."""
        expected = [_fit_in_child(1), _fit_in_child(2)]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for got, want in zip(pool.map_async(_fit_in_child, [1, 2]).get(60), expected):
                np.testing.assert_array_equal(got, want)

    def test_warnings_name_the_line_of_the_caller(self):
        x, y = numbers()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tutti.Ensemble(**SMALL, recalibrate="none").fit(x, y)
        self.assertEqual(caught[0].filename, __file__)
        self.assertIn("intervals hold only", str(caught[0].message))


if __name__ == "__main__":
    unittest.main()
