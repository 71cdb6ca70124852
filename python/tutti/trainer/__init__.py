"""Training step by step in this process: Trainer, and partial_fit of the estimators."""
from .trainer import Trainer

__all__ = ["Trainer"]
