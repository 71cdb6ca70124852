"""All members of a trainer as one module of PyTorch."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import nn

from ..trainer import Trainer


class _Outputs(torch.autograd.Function):
    """Outputs of all members; backward gives the trainer their gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, owner: Ensemble) -> torch.Tensor:
        """The outputs, (members, rows, outputs)."""
        ctx.save_for_backward(x)
        ctx.owner, ctx.updates = owner, owner.updates
        return torch.from_numpy(owner.trainer.forward(x))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        """Add up the gradients of the weights; the gradients by x, and by `weights`."""
        (x,), owner = ctx.saved_tensors, ctx.owner
        if ctx.updates != owner.updates:
            raise RuntimeError("backward after step(): the weights are no longer those of forward")
        owner.trainer.forward(x)  # the rows that the gradients belong to
        slope = owner.trainer.backward(gradient, inputs=ctx.needs_input_grad[0])
        by_weights = None
        if owner.weights is not None:
            by_weights = torch.from_numpy(owner.trainer.take_gradient())
        if slope is None:
            return None, by_weights, None
        by_x = torch.from_numpy(slope)
        return (by_x if x.dim() == 3 else by_x.sum(0)), by_weights, None


class Ensemble(nn.Module):
    """Members as one module: forward(x) has the outputs (members, rows, outputs).

    The loss is the user's: any function of these outputs, also over several members. After
    loss.backward(), `step` takes the optimizer step of the options. Without gradients, and in eval
    mode, the outputs are those of predictions.

    Parameters
    ----------
    trainer : Trainer
        E.g. `tutti.Trainer(inputs=8, targets=1, members=128, hidden=[64, 64])`.
    parameters : bool
        True: the module has the parameter `weights`, (members, parameters), for an optimizer of
        torch, and there is no `step`.
    """

    weights: Optional[nn.Parameter]

    def __init__(self, trainer: Trainer, parameters: bool = False) -> None:
        super().__init__()
        self.trainer = trainer
        self.updates = 0
        self._hook = torch.zeros((), requires_grad=True)  # so that autograd calls backward
        self._given = -1  # version of the weights that the trainer has
        self.weights = None
        if parameters:
            self.weights = nn.Parameter(torch.from_numpy(trainer.get_weights()))
            self._given = self.weights._version

    def _give_weights(self) -> None:
        """To the trainer, if the optimizer has changed them."""
        if self.weights is None or self.weights._version == self._given:
            return
        self.trainer.set_weights(-1, self.weights)
        self._given = self.weights._version
        self.updates += 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of all members.

        Parameters
        ----------
        x : tensor of float32, shape (rows, inputs) or (members, rows, inputs)
        """
        self._give_weights()
        if self.training and torch.is_grad_enabled():
            hook = self._hook if self.weights is None else self.weights
            return _Outputs.apply(x, hook, self)
        return torch.from_numpy(self.trainer.predict(x))

    def step(self) -> None:
        """The optimizer step of all members with the gradients since the last one."""
        if self.weights is not None:
            raise RuntimeError("step() of the optimizer that has the parameters takes the step")
        self.trainer.update()
        self.updates += 1
