"""tutti.botorch: the posterior is the ensemble, and acquisition functions of BoTorch run on it. Needs
botorch, which CI does not install: PyTorch and GPyTorch come with it.
"""
import os
import tempfile
import unittest
import warnings

import numpy as np

from common import SMALL, TUTTI, numbers
import tutti

try:
    import torch
    from botorch.acquisition import qExpectedImprovement, qLogExpectedImprovement
    from botorch.acquisition.objective import LinearMCObjective
    from botorch.acquisition.multi_objective import qNoisyExpectedHypervolumeImprovement
    from botorch.optim import optimize_acqf
    import tutti.botorch
except ImportError:
    torch = None


@unittest.skipUnless(torch, "botorch is not installed: pip install botorch==0.18.1")
class Botorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.x, self.y = numbers(targets=2)
        ensembles = [{"name": "a", "members": 4, "targets": ["y0"]},
                     {"name": "b", "members": 3, "targets": ["y1"], "model": {"hidden": [5]}}]
        options = {**SMALL, "members": None, "epochs": 20, "recalibrate": "none",
                   "combine": {"method": "weights"}, "ensembles": ensembles}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few epochs are no good training
            self.ensemble = tutti.Ensemble(**options).fit(self.x, self.y)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "model.h5")
            with open(file, "wb") as f:
                f.write(self.ensemble.run_.model._bytes)
            self.model = tutti.botorch.Model(file, program=TUTTI)
        self.points = torch.tensor(self.x)

    def test_the_posterior_is_the_ensemble(self):
        want = self.ensemble.run_.model.predict(self.x, members=True)
        found = self.model.posterior(self.points)
        np.testing.assert_allclose(found.mean, want.mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.variance.sqrt(), want.epistemic, rtol=1e-4, atol=1e-5)
        sample = self.model.posterior(self.points[:5]).rsample(torch.Size([20000]))
        flat = sample.reshape(20000, -1)
        spread = self.model.posterior(self.points[:5]).spread.flatten(1)
        covariance = spread.T @ spread
        self.assertEqual(float(covariance[0, 1]), 0.0)  # of the ensembles
        apart = (torch.cov(flat.T) - covariance).abs().max() / covariance.abs().max()
        self.assertLess(float(apart), 0.05)

    def test_batches_and_targets(self):
        whole = self.model.posterior(self.points)
        batch = self.model.posterior(self.points.reshape(6, 2, 5, 3), output_indices=[1])
        np.testing.assert_array_equal(batch.mean.reshape(60), whole.mean[:, 1])
        np.testing.assert_array_equal(batch.variance.reshape(60), whole.variance[:, 1])

    def test_acquisition_functions_run(self):
        bounds = torch.tensor([[-1.0] * 3, [1.0] * 3], dtype=torch.double)
        how = {"best_f": 0.5, "objective": LinearMCObjective(torch.tensor([1.0, 0.5]).double())}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for acquisition in (
                    qExpectedImprovement(self.model, **how), qLogExpectedImprovement(self.model, **how),
                    qNoisyExpectedHypervolumeImprovement(
                        self.model, ref_point=[-2.0, -2.0], X_baseline=self.points[:10])):
                with self.subTest(type(acquisition).__name__):
                    x, value = optimize_acqf(acquisition, bounds, q=2, num_restarts=2, raw_samples=16,
                                             options={"maxiter": 20})
                    self.assertTrue(bool(((x >= bounds[0]) & (x <= bounds[1])).all()))
                    start = acquisition(torch.zeros(1, 2, 3, dtype=torch.double))
                    self.assertGreater(float(value), float(start))


if __name__ == "__main__":
    unittest.main()
