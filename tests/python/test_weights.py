"""Weights of a trained model as arrays, and trainers that begin with them."""
import os
import tempfile
import unittest
import warnings

import numpy as np

from common import SMALL, numbers
import tutti

LAYERS = {**SMALL, "hidden": [6, 6], "recalibrate": "none"}
NETWORKS = {
    "mean": {}, "scales": {"data": {"normalize": "minmax"}, "residual": True},
    "variance": {"loss": "gaussian_nll", "layer_norm": True, "variance_floor": 1e-3},
    "quantiles": {"loss": "quantile", "quantiles": [0.1, 0.5, 0.9]},
    "no hidden layer": {"hidden": [], "loss": "mae"}}


def layers_of(a, m, h):
    """Outputs of a member, computed from its arrays."""
    for l, layer in enumerate(a["layers"]):
        z = h @ layer["weight"][m].T + layer["bias"][m]
        if "gain" in layer:
            z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
            z = z * layer["gain"][m] + layer["shift"][m]
        if l + 1 < len(a["layers"]):
            z = z / (1 + np.exp(-z))  # silu
            z = z + h if a["residual"] and z.shape == h.shape and l else z
        h = z
    return h


class Weights(unittest.TestCase):
    def setUp(self):
        self.x, self.y = numbers(targets=2)
        self.x = self.x * [1, 10, 0.1] + 5
        self.ensembles = []  # the last object of a run removes its files

    def fit(self, x, y, **options):
        self.ensembles.append(tutti.Ensemble(**{**LAYERS, **options}).fit(x, y))
        return self.ensembles[-1].run_.model

    def same(self, model, ensemble=None, columns=slice(None)):
        """A trainer of these members predicts what the model predicts, in bits."""
        made = tutti.Trainer.from_model(model, ensemble).model()
        want, got = model.predict(self.x), made.predict(self.x)
        for name in ("mean", "std", "epistemic"):
            w, g = (getattr(p, name).reshape(len(self.x), -1) for p in (want, got))
            np.testing.assert_array_equal(w[:, columns], g, name)
        return made

    def test_trainers_begin_with_a_model(self):
        for name, options in NETWORKS.items():
            with self.subTest(name):
                self.same(self.fit(self.x, self.y, **options))
        for loss in ("cross_entropy", "bce", "poisson"):
            with self.subTest(loss):
                self.same(self.fit(self.x, np.arange(60) % (2 if loss == "bce" else 3), loss=loss))

    def test_layers_are_the_networks(self):
        for name, options in NETWORKS.items():
            with self.subTest(name):
                model = self.fit(self.x, self.y, **options)
                a, trainer = model.arrays(), tutti.Trainer.from_model(model)
                h = (self.x - a["x_mean"]) / a["x_scale"]
                out = trainer.predict(self.x)
                for m in range(3):
                    np.testing.assert_allclose(layers_of(a, m, h), out[m], rtol=0, atol=2e-5)
                self.assertEqual(a["parameters"].shape, (3, trainer.parameters))

    def test_several_ensembles(self):
        model = self.fit(self.x, self.y, members=None, ensembles=[
            {"name": "second", "members": 2, "targets": ["y1"], "first_member": 4},
            {"name": "first", "members": 3, "targets": ["y0"], "model": {"hidden": [5]}}])
        self.assertEqual(list(model.arrays("second")["member_index"]), [4, 5])
        self.assertEqual(self.same(model, "second", slice(0, 1)).ensembles, ["second"])
        self.assertEqual(self.same(model, "first", slice(1, 2)).targets, ["y0"])
        for name in (None, "third"):
            with self.assertRaisesRegex(ValueError, "the model has second, first"):
                model.arrays(name)

    def test_members_that_predictions_use(self):
        model = self.fit(self.x, self.y, members=5, combine={"method": "top_k", "k": 2})
        a = model.arrays()
        self.assertEqual(a["parameters"].shape[0], 2)
        every = model.predict(self.x, members=True).member_mean[a["member_index"]]
        with tutti.Trainer.from_model(model) as trainer, trainer.model() as made:
            np.testing.assert_array_equal(made.predict(self.x, members=True).member_mean, every)

    def test_a_model_of_arrays_is_the_model(self):
        """Of all arrays, and of those alone that a network of any origin has."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "again.h5")
            for name, options in NETWORKS.items():
                with self.subTest(name):
                    model = self.fit(self.x, self.y, **options)
                    a = model.arrays()
                    tutti.write_model(file, a)
                    want, got = model.predict(self.x), tutti.Model(file).predict(self.x)
                    np.testing.assert_array_equal(got.mean, want.mean)
                    np.testing.assert_array_equal(got.std, want.std)
                    a["layers"][-1]["bias"][1] += 1
                    tutti.write_model(file, {name: a[name] for name in (
                        "layers", "activation", "output", "level", "variance_floor", "residual",
                        "x_mean", "x_scale", "y_mean", "y_scale")})
                    self.assertTrue((tutti.Model(file).predict(self.x).mean != want.mean).any())
            bare = {"layers": [{"weight": np.ones((2, 1, 3)), "bias": np.zeros((2, 1))}],
                    "activation": "identity"}
            tutti.write_model(file, bare)
            np.testing.assert_allclose(tutti.Model(file).predict(self.x).mean, self.x.sum(1), atol=1e-5)
            with self.assertRaisesRegex(ValueError, "3 outputs are no targets with the output mean_var"):
                tutti.write_model(file, {**bare, "output": "mean_variance", "layers": [
                    {"weight": np.ones((2, 3, 3)), "bias": np.zeros((2, 3))}]})

    def test_what_a_trainer_leaves_out(self):
        model = self.fit(self.x, self.y, loss="gaussian_nll", recalibrate="all", conformal=[0.8])
        with self.assertWarnsRegex(UserWarning, "noise and factor of the standard deviations and the "
                                   "conformal intervals are left out.*init_from") as caught:
            tutti.Trainer.from_model(model)
        self.assertEqual(caught.filename, __file__)
        model = self.fit(self.x, self.y, recalibrate="auto")  # six validation rows: no factor
        with self.assertWarnsRegex(UserWarning, "noise and factor of the standard deviations are"):
            tutti.Trainer.from_model(model)
        plain = self.fit(self.x, self.y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tutti.Trainer.from_model(plain)

    def test_training_goes_on(self):
        trainer = tutti.Trainer.from_model(self.fit(self.x, self.y), learning_rate=1e-2, batch_size=60)
        losses = [trainer.step(self.x, self.y).mean() for _ in range(50)]
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_refusals_name_the_reason(self):
        with tempfile.NamedTemporaryFile(suffix=".h5") as file, tutti.Trainer(inputs=3) as trainer:
            trainer.save(file.name)
            self.assertEqual(len(tutti.Model(file.name).arrays()["layers"]), 4)
            with self.assertRaisesRegex(ValueError, "weights are read from the file"):
                trainer.model().arrays()
        for words, options in (
                ("categories", {"data": {"categories": {"x0": "zeros"}}}),
                ("images or profiles", {"model": {"profile": [1, 3], "front": ["conv 2 3"]}}),
                ("data.targets_pca", {"data": {"targets_pca": 1}}),
                ("several networks", {"members": None, "hidden": None, "ensembles": [
                    {"networks": [{"members": 2, "model": {"hidden": [n]}} for n in (3, 4)]}]}),
                ("x1 has the transform yeo_johnson", {"data": {"normalize": {"x1": "yeo_johnson"}}}),
                ("different weights", {"combine": {"method": "weights"}})):
            x = self.x.copy()
            x[:, 0] = np.where(words == "categories", np.arange(60) % 2, x[:, 0])
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                tutti.Trainer.from_model(self.fit(x, self.y, **options))
        with self.assertRaisesRegex(TypeError, "multiple values.*hidden"):
            tutti.Trainer.from_model(self.fit(self.x, self.y), hidden=[4])


if __name__ == "__main__":
    unittest.main()
