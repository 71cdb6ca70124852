"""Ensembles as models of BoTorch: `import tutti.botorch` needs botorch (tested with 0.18.1).

    >>> model = tutti.botorch.Model("out/model.h5")
    >>> acquisition = qLogExpectedImprovement(model, best_f=y.max())
    >>> x, value = optimize_acqf(acquisition, bounds, q=4, num_restarts=8, raw_samples=64)
"""
from __future__ import annotations

import importlib.util
import os
import tempfile
from typing import Any, Optional, Sequence, Union

import torch
from botorch.models.model import Model as _Model
from botorch.posteriors.posterior import Posterior as _Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor, nn

from ..places import PathLike, find_program
from ..program import run

__all__ = ["Model", "Posterior", "module"]


class Posterior(_Posterior):
    """A Gaussian distribution of the targets with the mean of an ensemble and the covariance of its
    members, between points and between the targets of an ensemble; without noise of the labels.

    A sample is a sum of all members with random factors, so the same factors give the same function
    at every point.

    Parameters
    ----------
    mean : Tensor, shape (batch, points, targets)
    spread : Tensor, shape (batch, members, points, targets)
        Distance of each member from the mean, times the root of its share.
    """

    def __init__(self, mean: Tensor, spread: Tensor) -> None:
        self.mean, self.spread = mean, spread

    @property
    def variance(self) -> Tensor:
        return (self.spread ** 2).sum(-3)

    @property
    def device(self) -> torch.device:
        return self.mean.device

    @property
    def dtype(self) -> torch.dtype:
        return self.mean.dtype

    @property
    def batch_shape(self) -> torch.Size:
        return self.mean.shape[:-2]

    @property
    def base_sample_shape(self) -> torch.Size:
        return self.spread.shape[:-2]

    @property
    def batch_range(self) -> tuple[int, int]:
        return (0, -1)

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:
        return sample_shape + self.mean.shape

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        return self.mean + torch.einsum("...r,...rqm->...qm", base_samples, self.spread)

    def rsample(self, sample_shape: Optional[torch.Size] = None) -> Tensor:
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        factors = torch.randn(shape + self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, factors)


@GetSampler.register(Posterior)
def _sampler(posterior: Posterior, sample_shape: torch.Size, *,
             seed: Optional[int] = None) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(sample_shape=sample_shape, seed=seed)


def module(file: PathLike, program: Optional[PathLike] = None) -> nn.Module:
    """The members of a model file as a torch.nn.Module (`tutti export --torch`)."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "exported.py")
        run([find_program(program), "export", os.fspath(file), "--torch", "-q", "-o", source])
        spec = importlib.util.spec_from_file_location("tutti_exported", source)
        made = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(made)  # type: ignore[union-attr]
    return made.Ensemble()


class Model(_Model):
    """The ensembles of a model file, in the units of the training data, without recalibration. The
    outputs are the columns of `tutti predict`; different ensembles are independent.

    Parameters
    ----------
    model : path or torch.nn.Module
        model.h5, or what `module` returns.
    """

    def __init__(self, model: Union[PathLike, nn.Module],
                 program: Optional[PathLike] = None) -> None:
        super().__init__()
        self.members = model if isinstance(model, nn.Module) else module(model, program)
        self.members.requires_grad_(False)

    @property
    def num_outputs(self) -> int:
        return len(self.members.column_label)

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (rows, columns) and spread (members, rows, columns) of all ensembles."""
        means, spreads = [], []
        h = self.members.normalized(x)
        for cohort in self.members.cohorts:
            mu, _ = cohort.members(h)
            mean = cohort.average(mu)
            away = (mu - cohort.of_members(mean)) * cohort.share.sum(0).sqrt()[:, None, None]
            own = nn.functional.one_hot(cohort.ensemble, mean.shape[1]).to(away)
            means.append(mean.flatten(1))
            spreads.append(torch.einsum("grw,ge->grew", away, own).flatten(2))
        blocks = [nn.functional.pad(s, (sum(m.shape[1] for m in means[:i]),
                                        sum(m.shape[1] for m in means[i + 1:])))
                  for i, s in enumerate(spreads)]
        return torch.cat(means, 1), torch.cat(blocks)

    def posterior(self, X: Tensor, output_indices: Optional[Sequence[int]] = None,
                  observation_noise: Union[bool, Tensor] = False,
                  posterior_transform: Any = None) -> Any:
        """The distribution at points X (batch, points, inputs); observation_noise is not used."""
        mean, spread = self._moments(X.reshape(-1, X.shape[-1]))
        mean = mean.reshape(*X.shape[:-1], -1)
        spread = spread.reshape(len(spread), *mean.shape).movedim(0, -3)
        if output_indices is not None:
            mean, spread = mean[..., output_indices], spread[..., output_indices]
        found = Posterior(mean.to(X), spread.to(X))
        return posterior_transform(found) if posterior_transform is not None else found
