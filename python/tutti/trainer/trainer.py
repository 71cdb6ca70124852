"""Training in this process, step by step, through libtutti (tutti_trainer of tutti.h)."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Sequence

import numpy as np

from .. import job
from .arrays import (POINTER, Batch, Options, address, check_shape, flat_rows, texts,
                     values_of)
from ..binding import load
from ..library import Model
from ..places import PathLike, find_library
from ..program import error_of


class Trainer:
    """Members that are trained step by step, on rows that the program has at hand.

    The members are those of `Ensemble` with the same parameters; the same batches in the same
    order give the same weights, bit for bit. Arrays are float32 of numpy, or tensors of torch on
    the CPU; others are converted.

    Parameters
    ----------
    inputs, targets : int
        Columns of x and y.
    input_names, target_names : list of str, optional
        For the model file.
    x_scale, y_scale : pair of arrays, optional
        Mean and scale of each column: the networks get (x - mean) / scale. Without them x and y
        are what the networks get and learn.
    epoch_rows : int
        Rows of an epoch, for schedules, warm-up and averages; 0: there are no epochs.
    threads : int
        0 = all cores of this process.
    program : path, optional
        The program whose library is used; see `tutti.find_library`.
    **options
        As for `Ensemble`: members, hidden, loss, optimizer, learning_rate, batch_size, seed, ...

    Attributes
    ----------
    members, outputs, parameters : int
        Networks, outputs of each, and its parameters.
    """

    def __init__(self, *, inputs: int, targets: int = 1,
                 input_names: Optional[Sequence[str]] = None,
                 target_names: Optional[Sequence[str]] = None,
                 x_scale: Optional[Sequence[Any]] = None, y_scale: Optional[Sequence[Any]] = None,
                 epoch_rows: int = 0, threads: int = 1, program: Optional[PathLike] = None,
                 **options: Any) -> None:
        self._handle = ctypes.c_void_p()
        self._library = load(find_library(program))
        self.inputs, self.targets = inputs, targets
        described = job.text(job.build(options, self._library)).encode()
        scales = [None if pair is None else values_of(pair[i], np.float64).reshape(-1)
                  for pair in (x_scale, y_scale) for i in (0, 1)]
        for scale, count in zip(scales, (inputs, inputs, targets, targets)):
            if scale is not None and len(scale) != count:
                raise ValueError(f"a scale has {len(scale)} values for {count} columns")
        called = [texts(input_names, inputs, "input"), texts(target_names, targets, "target")]
        wanted = Options(ctypes.sizeof(Options), described, None, 0, threads, inputs, targets,
                          *[ctypes.cast(names, POINTER) if names else None for names in called],
                          *[address(scale) for scale in scales], epoch_rows)
        with job.errors_of(options, self._library):
            self._check(self._library.tutti_trainer_create(ctypes.byref(wanted),
                                                           ctypes.byref(self._handle)))
        self.members = int(self._library.tutti_trainer_members(self._handle))
        self.outputs = int(self._library.tutti_trainer_outputs(self._handle))
        self.parameters = int(self._library.tutti_trainer_parameters(self._handle))
        self._batch = Batch(size=ctypes.sizeof(Batch))
        self._kept: tuple = ()  # arrays of the last forward, for backward

    @classmethod
    def from_model(cls: type[Trainer], model: Model, ensemble: Optional[str] = None, *,
                   loss: Optional[str] = None, **options: Any) -> Trainer:
        """A trainer that begins with the members of a trained ensemble (`Model.arrays`).

        Network, scales and weights are those of the model, and so are predictions before the
        first step. Recalibration and conformal intervals are left out, with a warning: they belong
        to the weights before the training, and a trainer has no validation rows to find new ones.
        `options` are all others of a trainer.

        Raises
        ------
        ValueError
            A trainer cannot have this network, or these scales; the message says why.
        """
        from .models import trainer_of_model

        return trainer_of_model(model, ensemble, loss, cls, **options)

    def close(self) -> None:
        """Free the memory; it also happens when the object is deleted."""
        if getattr(self, "_handle", None):
            self._library.tutti_trainer_destroy(ctypes.byref(self._handle))

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"<tutti.Trainer: {self.members} members, {self.inputs} inputs, "
                f"{self.outputs} outputs, {self.parameters} parameters each>")

    def _check(self, code: int) -> None:
        if code:
            raise error_of(code, self._library.tutti_error().decode(errors="replace"))

    def _rows(self, x: Any, y: Any, weight: Any, index: Any) -> tuple[int, tuple]:
        """Set the batch; the rows of a step, and the arrays to keep."""
        x = flat_rows(values_of(x), self.inputs)
        own = x.ndim == 3
        if x.shape[-1:] != (self.inputs,) or x.ndim not in (2, 3):
            raise ValueError(f"x has the shape {x.shape}: (rows, {self.inputs}), or for own rows "
                             f"of each member ({self.members}, rows, {self.inputs})")
        if own and len(x) != self.members:
            raise ValueError(f"x has rows of {len(x)} members: there are {self.members}")
        rows = x.size // self.inputs
        b = self._batch
        if y is not None:
            y = values_of(y)
            check_shape("y", y, x.shape[:-1], self.targets)
        if weight is not None:
            weight = values_of(weight)
            check_shape("weight", weight, x.shape[:-1])
        count = rows // self.members if own else rows
        if index is not None:
            if np.asarray(index).dtype.kind not in "iu":
                raise ValueError("index has numbers of rows: integers")
            index = values_of(index, np.int32)
            if index.ndim != 2 or len(index) != self.members:
                raise ValueError(f"index has the shape {index.shape}: ({self.members}, rows)")
            count = index.shape[1]
        b.rows, b.count, b.own_rows = rows, count, own
        b.x, b.y, b.weight, b.index = map(address, (x, y, weight, index))
        return count, (x, y, weight, index)

    def step(self, x: Any, y: Any, weight: Any = None, index: Any = None) -> np.ndarray:
        """One optimizer step of every member.

        Parameters
        ----------
        x : array, shape (rows, inputs) or (members, rows, inputs)
            One batch for all members, or rows of its own for each. Images and profiles may have
            their axes instead of `inputs`.
        y : array, shape (rows,) or (rows, targets), with `members` in front as x
            Classes are numbers from 0.
        weight : array, shape (rows,), optional
        index : array of int32, shape (members, batch), optional
            Rows of x and y that each member takes.

        Returns
        -------
        array, shape (members,)
            Mean loss of each member; NaN where it has diverged or ended.
        """
        loss = np.empty(self.members)
        _, kept = self._rows(x, y, weight, index)
        self._check(self._library.tutti_trainer_step(self._handle, ctypes.byref(self._batch),
                                                     address(loss)))
        del kept
        return loss

    def forward(self, x: Any, index: Any = None) -> np.ndarray:
        """Outputs of the members as a training step computes them, (members, rows, outputs)."""
        count, self._kept = self._rows(x, None, None, index)
        out = np.empty((self.members, count, self.outputs), dtype=np.float32)
        self._check(self._library.tutti_trainer_forward(self._handle, ctypes.byref(self._batch),
                                                        address(out)))
        return out

    def backward(self, gradient: Any, inputs: bool = False) -> Optional[np.ndarray]:
        """Add up gradients for the next `update`.

        Parameters
        ----------
        gradient : array, shape of what `forward` returned
            Derivatives of the loss by the outputs.
        inputs : bool
            True returns the derivatives of the loss by x, (members, rows, inputs).
        """
        gradient = values_of(gradient)
        count = int(self._batch.count)
        check_shape("gradient", gradient, (self.members, count), self.outputs)
        slope = (np.empty((self.members, count, self.inputs), dtype=np.float32)
                 if inputs else None)
        self._check(self._library.tutti_trainer_backward(self._handle, address(gradient),
                                                         address(slope)))
        return slope

    def update(self) -> None:
        """Take the step for the gradients of `backward`."""
        self._check(self._library.tutti_trainer_update(self._handle))

    def take_gradient(self) -> np.ndarray:
        """Instead of `update`, for an optimizer of one's own: the gradients of `backward` since the
        last step, (members, parameters) in the order of `get_weights`. Take the step with
        `set_weights`. Not for networks with batch_norm."""
        gradient = np.empty((self.members, self.parameters), dtype=np.float32)
        self._check(self._library.tutti_trainer_take_gradient(self._handle, address(gradient)))
        return gradient

    def predict(self, x: Any) -> np.ndarray:
        """Outputs of the members as in predictions, (members, rows, outputs)."""
        x = flat_rows(values_of(x), self.inputs)
        if x.ndim != 2 or x.shape[1] != self.inputs:
            raise ValueError(f"x has the shape {x.shape}: (rows, {self.inputs})")
        out = np.empty((self.members, len(x), self.outputs), dtype=np.float32)
        self._check(self._library.tutti_trainer_predict(self._handle, len(x), address(x),
                                                        address(out)))
        return out

    def model(self) -> Model:
        """The members as they are now, for predictions with uncertainties."""
        handle = ctypes.c_void_p()
        self._check(self._library.tutti_trainer_model(self._handle, ctypes.byref(handle)))
        return Model._of_trainer(self._library, handle)

    def save(self, file: PathLike) -> None:
        """Write the members as a model file; one that is there is replaced."""
        self._check(self._library.tutti_trainer_save(self._handle, os.fsencode(file)))

    def get_weights(self, member: int = -1) -> np.ndarray:
        """Parameters of a member: layer by layer weights (out, in), then biases.

        -1: (members, parameters) of all, which is faster than one by one.
        """
        members = (self.members,) if member == -1 else ()
        weights = np.empty((*members, self.parameters), dtype=np.float32)
        self._check(self._library.tutti_trainer_get_weights(self._handle, member,
                                                            address(weights)))
        return weights

    def set_weights(self, member: int, weights: Any) -> None:
        """Replace the parameters of a member, or of all (-1); their optimizers go on."""
        weights = values_of(weights).reshape(-1)
        if len(weights) != self.parameters * (self.members if member == -1 else 1):
            raise ValueError(f"{len(weights)} weights: a member has {self.parameters}")
        self._check(self._library.tutti_trainer_set_weights(self._handle, member,
                                                            address(weights)))

    def learning_rate(self, member: int = 0) -> float:
        """Learning rate of a member, before schedule and warm-up."""
        rate = float(self._library.tutti_trainer_learning_rate(self._handle, member))
        if np.isnan(rate):
            raise ValueError(f"there is no member {member}, or this Trainer is closed")
        return rate

    def set_learning_rate(self, rate: float, member: int = -1) -> None:
        """Change the learning rate of a member; -1: of all."""
        self._check(self._library.tutti_trainer_set_learning_rate(self._handle, member, rate))

    def reset(self, member: int) -> None:
        """Begin again with a member: other initial weights, an optimizer without a past."""
        self._check(self._library.tutti_trainer_reset(self._handle, member))

    def get_state(self) -> bytes:
        """Everything that decides how training goes on."""
        state = ctypes.create_string_buffer(
            int(self._library.tutti_trainer_state_bytes(self._handle)))
        self._check(self._library.tutti_trainer_get_state(self._handle, state))
        return state.raw

    def set_state(self, state: bytes) -> None:
        """Continue from what `get_state` of a trainer with the same options returned."""
        self._check(self._library.tutti_trainer_set_state(self._handle, state, len(state)))
