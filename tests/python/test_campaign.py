"""Campaigns with a Python function as oracle."""
import os
import tempfile
import unittest
from unittest import mock

import numpy as np

from common import SMALL, numbers
import tutti

CONFIG = {**SMALL, "select": {"batch": 4}, "stop": {"rounds": 2}}
del CONFIG["quiet"]


def truth(x):
    return np.sin(x["x0"]) + x["x1"]


class Campaigns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "c")
        x, y = numbers(rows=40, columns=2)
        self.data, self.pool = (x, y), numbers(rows=90, columns=2)[0][40:]

    def run_campaign(self, oracle, directory=None, config=CONFIG):
        return tutti.campaign(config, oracle, directory=directory or self.folder, data=self.data,
                              pool=self.pool, quiet=True)

    def test_function(self):
        calls = []

        def oracle(x):
            calls.append({name: values.copy() for name, values in x.items()})
            y = truth(x)
            y[0] = np.nan  # this point cannot be labeled
            return y

        with self.assertWarnsRegex(UserWarning, "labeled 3 of 4, 1 failed"):
            done = self.run_campaign(oracle)
        history = done.history()
        self.assertEqual(done.status()["state"], "done")
        self.assertEqual([list(call) for call in calls], [["x0", "x1"]] * 2)
        x, y = history["query_x"], history["query_y"][:, 0]
        np.testing.assert_array_equal(x[:, 0], np.concatenate([c["x0"] for c in calls]))
        expected = np.sin(x[:, 0]) + x[:, 1]
        expected[[0, 4]] = np.nan
        np.testing.assert_array_equal(y, expected)
        self.assertEqual(history["query_label_status"].tolist(), [0, 1, 1, 1] * 2)
        self.assertEqual(done.predict(self.pool).mean.shape, (50,))
        self.assertIsInstance(tutti.open_run(self.folder), tutti.Campaign)
        self.run_campaign(self.fail)  # the campaign has ended: no label is asked for again

    def test_ask_and_tell(self):
        """A campaign that nobody runs is asked and told in turn with its runs."""
        config = {**CONFIG, "label": {"mode": "ask", "max_wait": "0s"}}
        with self.assertRaises(tutti.Stopped):
            self.run_campaign(self.fail, config=config)
        c = tutti.Campaign(self.folder)
        q = c.ask(3, lease="1h", who="test")
        self.assertEqual((q.id.tolist(), list(q.x)), ([0, 1, 2], ["x0", "x1"]))
        c.tell(q.id, truth(q.x), status=["ok", "ok", "later"])
        c.tell(q.id[:2], truth(q.x)[:2])  # known already
        with self.assertRaisesRegex(tutti.InputError, "labels.csv:2: point 0 is labeled already"):
            c.tell(0, 5.0)
        with self.assertRaisesRegex(tutti.InputError, "labels of 2 targets; the campaign has 1"):
            c.tell([0], [[5.0, 0.1]])
        for ids, y, words in (([0, 1, 2], [[1.0, 2.0, 3.0]], "shape"), ([0, 1], [1.0], "shape"),
                              ([0.5], [1.0], "whole")):
            with self.assertRaisesRegex(tutti.InputError, words):
                c.tell(ids, y)
        with self.assertRaisesRegex(tutti.InputError, "no error bars"):
            c.tell([0], [5.0], sd=[0.1])
        while q is not None:
            try:
                q = c.ask(4)
            except tutti.Stopped:
                try:
                    self.run_campaign(self.fail, config=config)
                except tutti.Stopped:
                    pass
            else:
                if q is not None:
                    c.tell(q.id, truth(q.x))
        history = c.history()
        x = history["query_x"]
        np.testing.assert_array_equal(history["query_y"][:, 0], np.sin(x[:, 0]) + x[:, 1])

    def test_exception_then_continue(self):
        def broken(x):
            raise KeyError("simulator")

        with self.assertRaisesRegex(KeyError, "simulator") as caught:
            self.run_campaign(broken)
        self.assertIn("the oracle raised KeyError", str(caught.exception.__cause__))
        self.assertEqual(caught.exception.__cause__.code, 69)
        with self.assertRaisesRegex(ValueError, "X has 4, y has 1"):
            self.run_campaign(lambda x: [1.0])
        one = self.run_campaign(truth).history()
        other = self.run_campaign(truth, self.folder + "2").history()
        np.testing.assert_array_equal(one["query_y"], other["query_y"])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "oracle.sock")))

    def test_interrupt_then_continue(self):
        def interrupted(x):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.run_campaign(interrupted)
        self.assertEqual(tutti.open_run(self.folder).status()["state"], "stopped")
        self.assertEqual(len(self.run_campaign(truth).history()["query_y"]), 8)

    def test_named_function(self):
        here = os.path.dirname(os.path.abspath(__file__))
        previous = os.getcwd()
        self.addCleanup(os.chdir, previous)
        os.chdir(here)
        with mock.patch.dict(os.environ):
            config = {**CONFIG, "stop": {"rounds": 1}}
            history = self.run_campaign("test_campaign:truth", config=config).history()
        np.testing.assert_array_equal(
            history["query_y"][:, 0],
            np.sin(history["query_x"][:, 0]) + history["query_x"][:, 1])
        with self.assertRaisesRegex(ValueError, "as 'module:function'"):
            tutti.campaign(CONFIG, truth, directory=self.folder, submit=True)


if __name__ == "__main__":
    unittest.main()
