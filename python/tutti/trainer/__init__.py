"""Training step by step in this process: Trainer, and partial_fit of the estimators."""
from .models import write_model
from .trainer import Trainer

__all__ = ["Trainer", "write_model"]
