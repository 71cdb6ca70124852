"""Ensembles of small neural networks with uncertainties: the program tutti in Python.

    >>> import tutti
    >>> ensemble = tutti.Ensemble(hidden=[64, 64], members=50).fit(X, y)
    >>> p = ensemble.predict(X_new)
    >>> p.mean, p.std, p.aleatoric, p.epistemic
"""
from .campaign import Campaign, campaign, open_run
from .ensemble import Ensemble
from .estimators import EnsembleClassifier, EnsembleRegressor
from .library import Model
from .prediction import Prediction
from .places import find_library, find_program
from .program import Error, InputError, Stopped
from .run import Run
from .search import TuttiSearch
from .tables import train, tune
from .trainer import Trainer, write_model
from .version import __version__
__all__ = [
    "Campaign", "Ensemble", "EnsembleClassifier", "EnsembleRegressor", "Error", "InputError",
    "Model", "Prediction", "Run", "Stopped", "Trainer", "TuttiSearch", "__version__", "campaign",
    "find_library", "find_program", "open_run", "train", "tune", "write_model",
]
