"""Schedules of PyTorch as options of the program."""
from __future__ import annotations

from typing import Any, Callable

from torch.optim import lr_scheduler as torch_schedules

from .options import need


def _step(s: Any, rate: float) -> dict[str, Any]:
    return {"schedule": "step", "schedule_step": s.step_size, "schedule_gamma": s.gamma}


def _multistep(s: Any, rate: float) -> dict[str, Any]:
    need("MultiStepLR", {"repeated milestones": max(s.milestones.values(), default=1)},
         {"repeated milestones": 1})
    return {"schedule": "multistep", "schedule_milestones": sorted(s.milestones),
            "schedule_gamma": s.gamma}


def _exponential(s: Any, rate: float) -> dict[str, Any]:
    return {"schedule": "exponential", "schedule_gamma": s.gamma}


def _cosine(s: Any, rate: float) -> dict[str, Any]:
    return {"schedule": "cosine", "epochs": s.T_max, "schedule_min": s.eta_min / rate}


def _restarts(s: Any, rate: float) -> dict[str, Any]:
    return {"schedule": "cosine_restarts", "schedule_step": s.T_0, "schedule_growth": s.T_mult,
            "schedule_min": s.eta_min / rate}


def _one_cycle(s: Any, rate: float) -> dict[str, Any]:
    group, phases = s.optimizer.param_groups[0], s._schedule_phases
    need("OneCycleLR", {"three_phase": len(phases) == 3, "cycle_momentum": s.cycle_momentum,
                        "anneal_strategy": s._anneal_func_type,
                        "div_factor": round(group["max_lr"] / rate, 9),
                        "final_div_factor": round(rate / group["min_lr"], 6)},
         {"three_phase": False, "cycle_momentum": False, "anneal_strategy": "cos",
          "div_factor": 25.0, "final_div_factor": 1e4})
    return {"schedule": "one_cycle", "learning_rate": group["max_lr"], "steps": s.total_steps,
            "schedule_pct_start": (phases[0]["end_step"] + 1) / s.total_steps}


_SCHEDULES: dict[Any, Callable[[Any, float], dict[str, Any]]] = {
    torch_schedules.StepLR: _step, torch_schedules.MultiStepLR: _multistep,
    torch_schedules.ExponentialLR: _exponential, torch_schedules.CosineAnnealingLR: _cosine,
    torch_schedules.CosineAnnealingWarmRestarts: _restarts,
    torch_schedules.OneCycleLR: _one_cycle}
_HINTS = {"ReduceLROnPlateau": "a trainer has no validation rows: set_learning_rate of the trainer",
          "LinearLR": "warmup= of the trainer grows from 0 in fractions of epochs",
          "LambdaLR": "set_learning_rate of the trainer"}


def scheduler_options(scheduler: Any) -> dict[str, Any]:
    """Options of `train` for a schedule of torch that begins; its `step` is called once an epoch,
    that of OneCycleLR at every step.

    Raises
    ------
    TypeError
        tutti has other schedules; the message names the setting, or says what to do.
    """
    what = type(scheduler).__name__
    if type(scheduler) not in _SCHEDULES:
        names = ", ".join(kind.__name__ for kind in _SCHEDULES)
        raise TypeError(f"the schedule {what} has no counterpart: {_HINTS.get(what, names)}")
    if scheduler.last_epoch != 0:
        raise TypeError(f"{what} has taken {scheduler.last_epoch} steps: give one that begins")
    rate = float(scheduler.base_lrs[0])
    return {"learning_rate": rate, **_SCHEDULES[type(scheduler)](scheduler, rate)}
