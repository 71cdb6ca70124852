"""Names and units of dicts, pandas and xarray: into the files, and back with the predictions."""
import unittest

import h5py
import numpy as np

from common import SMALL, numbers
import tutti
from tutti.data import dataset
from tutti.data.hdf5 import read_text

try:
    import pandas
except ImportError:
    pandas = None
try:
    import xarray
except ImportError:
    xarray = None


def names_of(fitted):
    """Names and units in the model file: features, their units, targets, their units."""
    with h5py.File(fitted.run_.path("model.h5")) as f:
        return [list(read_text(f[f"names/{name}"])) for name in (
            "feature_name", "feature_units", "target_name", "target_units")]


class Dicts(unittest.TestCase):
    def test_columns_are_matched_by_name(self):
        x, y = numbers()
        table = dict(zip("abc", x.T))
        fitted = tutti.Ensemble(**SMALL).fit(table, {"t": y})
        self.assertEqual(names_of(fitted)[0::2], [["a", "b", "c"], ["t"]])
        self.assertEqual(list(fitted.feature_names_in_), ["a", "b", "c"])
        p = fitted.predict(table)
        self.assertEqual(p.columns, ["t"])
        other = fitted.predict({name: table[name] for name in "cab"})
        np.testing.assert_array_equal(p.mean, other.mean)
        np.testing.assert_array_equal(p.mean, fitted.predict(x).mean)
        with self.assertRaisesRegex(ValueError, "does not know: d; it was trained on a, b, c"):
            fitted.predict({"a": x[:, 0], "b": x[:, 1], "d": x[:, 2]})

    def test_tables_of_a_notebook(self):
        x, y = numbers(targets=2)
        fitted = tutti.Ensemble(**SMALL).fit(x, {"<a>": y[:, 0], "b": y[:, 1]})
        p = fitted.predict(x)
        table = p._repr_html_()
        self.assertIn("<th>&lt;a&gt;: mean</th>", table)
        self.assertIn(f"<td>9</td><td>{p.mean[9, 0]:.5g}</td><td>{p.mean[9, 1]:.5g}</td>", table)
        self.assertEqual((table.count("<tr>"), "and 50 more rows" in table), (11, True))
        self.assertNotIn("more rows", fitted.predict(x[:3])._repr_html_())
        self.assertIn("<td>predicted</td><td>&lt;a&gt;, b</td>", fitted.run_.model._repr_html_())

    def test_default_names_are_no_names(self):
        x, y = numbers()
        fitted = tutti.Ensemble(**SMALL).fit(x, y)
        self.assertFalse(hasattr(fitted, "feature_names_in_"))
        p = fitted.predict({name: x[:, i] for i, name in enumerate(("x2", "q", "x0"))})
        np.testing.assert_array_equal(p.mean, fitted.predict(x).mean)

    def test_wrong_tables(self):
        x, y = numbers()
        for wrong, kind, text in (
                (x + 1j, ValueError, "Complex data not supported"),
                (x.astype("datetime64[s]"), TypeError, "dates or times"),
                (np.empty((0, 3)), ValueError, "0 sample"),
                (np.empty((3, 0)), ValueError, "0 feature"),
                (np.array([["a", "b"]] * 3), ValueError, "could not convert"),
                (np.array([["a", 1.0]] * 3, object), ValueError, "could not convert"),
                (type("Sparse", (), {"toarray": None})(), TypeError, "sparse")):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                dataset.inputs(wrong)
        with self.assertRaisesRegex(ValueError, "y contains infinity: row 2"):
            dataset.targets(np.array([1, 2, np.inf]), 3)
        missing = y.copy()
        missing[::7] = np.nan  # rows without a label
        self.assertTrue(np.isfinite(tutti.Ensemble(**SMALL).fit(x, missing).predict(x).mean).all())


    def test_missing_inputs(self):
        x, y = numbers()
        x[3, 1] = np.nan
        with self.assertRaisesRegex(ValueError, "row 3, column 1 is nan; data.missing says"):
            tutti.Ensemble(**SMALL).fit(x, y)
        fitted = tutti.Ensemble(**SMALL, data={"missing": "mean"}).fit(x, y)
        filled = x.copy()
        with h5py.File(fitted.run_.path("model.h5")) as f:
            filled[3, 1] = f["scaler/x_fill"][1]
        np.testing.assert_array_equal(fitted.predict(x).mean, fitted.predict(filled).mean)
        with self.assertRaisesRegex(ValueError, "inf"):
            tutti.Ensemble(**SMALL, data={"missing": "mean"}).fit(np.full_like(x, np.inf), y)

    def test_messages_name_the_columns(self):
        x, y = numbers()
        names = ["a", "b", "c"]
        fitted = tutti.Ensemble(**SMALL).fit(dict(zip(names, x.T)), y)
        for table, text in (({"a": x[:, 0], "c": x[:, 2]}, "missing: b"),
                            ({**dict(zip(names, x.T)), "z": y}, "not known to the model: z")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                fitted.predict(table)

    def test_a_model_can_be_closed(self):
        x, y = numbers()
        fitted = tutti.Ensemble(**SMALL).fit(x, y)
        with tutti.Model(fitted.run_.path("model.h5")) as model:
            model.predict(x)
        for call in (lambda: model.predict(x), lambda: model.level_value("x0", "")):
            with self.assertRaisesRegex(ValueError, "is closed"):
                call()

    def test_warnings_point_at_the_caller(self):
        x, y = numbers()
        with self.assertWarns(UserWarning) as seen:
            tutti.Ensemble(**SMALL).fit(x, np.ones(60))
        self.assertEqual(seen.filename, __file__)


class Texts(unittest.TestCase):
    """Columns of texts are categories, in training and in prediction."""

    def table(self):
        x, y = numbers()
        kind = np.where(x[:, 2] > 0, "steel", "brass").astype(object)
        return {"a": x[:, 0], "kind": kind, "b": x[:, 1]}, y + (kind == "steel")

    def test_a_dict(self):
        table, y = self.table()
        fitted = tutti.Ensemble(**SMALL).fit(table, y)
        model = fitted.run_.model
        self.assertEqual(model.input_levels, {"a": [], "kind": ["brass", "steel"], "b": []})
        with h5py.File(fitted.run_.path("model.h5")) as f:
            self.assertEqual(f["network_input_kind"][()].tolist(), [0, 1, 1, 0])
        p = fitted.predict(table)
        number = np.array([model.level_value("kind", k) for k in table["kind"]])
        coded = np.stack([table["a"], number, table["b"]], 1)
        np.testing.assert_array_equal(p.mean, model.predict(coded).mean)
        other = fitted.predict({**table, "kind": np.full(60, "brass", object)})
        self.assertTrue((other.mean[number == 1] != p.mean[number == 1]).all())
        np.testing.assert_array_equal(other.mean[number == 0], p.mean[number == 0])
        with self.assertRaisesRegex(ValueError, "is no level of the training rows"):
            fitted.predict({**table, "kind": np.full(60, "wood", object)})

    def test_rules_missing_texts_and_other_columns(self):
        table, y = self.table()
        table = {**table, "split": table.pop("b"), "kind": table["kind"].copy()}
        table["kind"][3:6] = [None, np.nan, ""]
        options = {"categories": {"k*": "zeros"}, "missing": {"kind": "indicator"}}
        split = np.repeat([0, 1], [50, 10])
        fitted = tutti.EnsembleRegressor(**SMALL, data=options).fit(
            table, y, sample_weight=np.ones(60), split=split)
        self.assertEqual(fitted.run_.model.input_levels["kind"], ["brass", "steel"])
        mean = fitted.predict({**table, "kind": np.full(60, "wood", object)})
        self.assertTrue(np.isfinite(mean).all())
        self.assertTrue(np.isfinite(fitted.predict(table)).all())
        for name in "a/b", "y0":
            with self.assertRaisesRegex(ValueError, f"cannot have a column '{name}'"):
                tutti.Ensemble(**SMALL).fit({name: y, "kind": table["kind"]}, y)

    @unittest.skipUnless(pandas, "pandas is not installed (Debian package python3-pandas)")
    def test_a_frame(self):
        table, y = self.table()
        frame = pandas.DataFrame(table)
        frame.attrs["units"] = {"a": "m"}
        fitted = tutti.Ensemble(**SMALL).fit(frame, pandas.Series(y, name="force"))
        wanted = tutti.Ensemble(**SMALL).fit(table, {"force": y}).predict(table).mean
        self.assertEqual(names_of(fitted),
                         [["a", "kind", "b"], ["m", "", ""], ["force"], [""]])
        np.testing.assert_array_equal(fitted.predict(frame).mean, wanted)
        swapped = frame.assign(kind=frame["kind"].astype("category"))[["b", "kind", "a"]]
        np.testing.assert_array_equal(fitted.predict(swapped).mean, wanted)
        labels = np.where(y > 0, "high", "low")
        classes = tutti.EnsembleClassifier(**SMALL).fit(swapped, labels)
        self.assertTrue(set(classes.predict(swapped)) <= {"high", "low"})


@unittest.skipUnless(pandas, "pandas is not installed (Debian package python3-pandas)")
class Pandas(unittest.TestCase):
    def test_missing_values_and_dates(self):
        x, y = numbers()
        frame = pandas.DataFrame({"a": x[:, 0], "b": pandas.array(x[:, 1], dtype="Float64")})
        frame.loc[3, "b"] = pandas.NA
        small = {**SMALL, "data": {"missing": "mean"}}
        nan = frame.astype(float).to_numpy()
        wanted = tutti.Ensemble(**small).fit(nan, y).predict(nan).mean
        fitted = tutti.Ensemble(**small).fit(frame, pandas.Series(y, dtype="Float64"))
        np.testing.assert_array_equal(fitted.predict(frame).mean, wanted)
        dated = frame.assign(day=pandas.date_range("2026-01-01", periods=60))
        with self.assertRaisesRegex(TypeError, "X, row 0, column 'day' is of the type Timestamp"):
            tutti.Ensemble(**small).fit(dated, y)

    def test_frames_in_frames_out(self):
        x, y = numbers()
        frame = pandas.DataFrame(x, columns=["a", "b", "c"], index=np.arange(100, 160))
        label = np.where(y > 0, "high", "low")
        for kind, target, columns in (
                (tutti.EnsembleRegressor, pandas.Series(y, frame.index, name="load"), ["load"]),
                (tutti.EnsembleClassifier, label, ["class"]),
                (tutti.Ensemble, y, ["mean", "std", "aleatoric", "epistemic", "extrapolation"])):
            fitted = kind(**SMALL).fit(frame, target)
            arrays = fitted.predict(frame)
            framed = fitted.set_output(transform="pandas").predict(frame)
            self.assertEqual(list(framed.columns), columns)
            self.assertEqual(list(framed.index), list(frame.index))
            arrays = getattr(arrays, "mean", None) if kind is tutti.Ensemble else arrays
            np.testing.assert_array_equal(framed[columns[0]], arrays)
        fitted = tutti.EnsembleClassifier(**SMALL).fit(frame, label).set_output(transform="pandas")
        self.assertEqual(list(fitted.predict_proba(frame).columns), ["high", "low"])
        self.assertIsInstance(fitted.set_output().predict(frame), pandas.DataFrame)
        self.assertIsInstance(fitted.set_output(transform="default").predict(frame), np.ndarray)
        self.assertEqual(fitted.score(frame, label), np.mean(fitted.predict(frame) == label))
        with self.assertRaisesRegex(ValueError, "'polars' is neither"):
            fitted.set_output(transform="polars")

    def test_names_units_and_index(self):
        x, y = numbers(targets=2)
        frame = pandas.DataFrame(x, columns=["a", "b", "c"], index=np.arange(100, 160))
        frame.attrs["units"] = {"a": "m", "c": "kg"}
        target = pandas.DataFrame(y, columns=["load", "force"], index=frame.index)
        target.attrs["units"] = {"force": "N"}
        fitted = tutti.Ensemble(**SMALL).fit(frame, target)
        self.assertEqual(names_of(fitted),
                         [["a", "b", "c"], ["m", "", "kg"], ["load", "force"], ["", "N"]])
        rows = frame[["c", "b", "a"]].iloc[5:9]
        p = fitted.predict(rows)
        table = p.to_dataframe()
        self.assertEqual(list(table.index), [105, 106, 107, 108])
        self.assertEqual(table.attrs["units"], {"load": "", "force": "N"})
        np.testing.assert_array_equal(table[("std", "force")], p.std[:, 1])
        np.testing.assert_array_equal(p.mean, fitted.predict(x[5:9]).mean)
        np.testing.assert_array_equal(table[("extrapolation", "")], p.extrapolation)
        one = tutti.Ensemble(**SMALL).fit(frame, target["force"]).predict(rows)
        self.assertEqual(one.columns, ["force"])
        np.testing.assert_array_equal(one.to_dataframe()["epistemic"], one.epistemic)


@unittest.skipUnless(xarray, "xarray is not installed (Debian package python3-xarray)")
class Xarray(unittest.TestCase):
    def test_dataarray(self):
        x, y = numbers()
        table = xarray.DataArray(x, dims=("time", "input"), coords={
            "time": np.arange(60) * 0.5, "input": ["a", "b", "c"],
            "units": ("input", ["m", "s", "K"])})
        target = xarray.DataArray(y, dims="time", name="force", attrs={"units": "N"})
        fitted = tutti.Ensemble(**SMALL).fit(table, target)
        self.assertEqual(names_of(fitted), [["a", "b", "c"], ["m", "s", "K"], ["force"], ["N"]])
        made = fitted.predict(table[3:6], quantiles=[0.5], members=True).to_xarray()
        self.assertEqual(made["sample"].values.tolist(), [1.5, 2.0, 2.5])
        self.assertEqual(made["std"].attrs["units"], "N")
        self.assertEqual(made["quantiles"].dims, ("quantile", "sample"))
        self.assertEqual(made["member_mean"].dims, ("member", "sample"))
        self.assertEqual(made["extrapolation"].dims, ("sample",))

    def test_dataset_and_several_columns(self):
        x, y = numbers(targets=2)
        table = xarray.Dataset({name: ("row", x[:, i], {"units": unit})
                                for i, (name, unit) in enumerate(zip("abc", ("m", "", "K")))})
        fitted = tutti.Ensemble(**SMALL).fit(table, y)
        self.assertEqual(names_of(fitted)[:2], [["a", "b", "c"], ["m", "", "K"]])
        p = fitted.predict(table, members=True)
        made = p.to_xarray()
        self.assertEqual(made["mean"].sel(column="y1").dims, ("sample",))
        np.testing.assert_array_equal(made["mean"].sel(column="y1"), p.mean[:, 1])
        self.assertEqual(made["member_mean"].dims, ("member", "sample", "column"))


if __name__ == "__main__":
    unittest.main()
