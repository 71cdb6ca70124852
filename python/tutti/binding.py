"""libtutti: its functions and structs (tutti.h)."""
from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar, NoReturn, Sequence

from .prediction import MOMENTS
from .version import __version__

DOUBLES = ctypes.POINTER(ctypes.c_double)


class Wanted(ctypes.Structure):
    """struct tutti_prediction of tutti.h."""

    _fields_: ClassVar[Sequence[Any]] = [
        ("size", ctypes.c_size_t), ("workspace", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p) for name in MOMENTS] + [
        (f"{name}_gradient", ctypes.c_void_p) for name in MOMENTS] + [
        ("quantile_count", ctypes.c_int64)] + [
        (name, ctypes.c_void_p) for name in (
            "probability", "quantiles", "lower", "upper", "entropy", "mutual_information",
            "member_mean", "member_variance", "extrapolation")]


def _refuse(library: Any, path: str, missing: str) -> NoReturn:
    """The library lacks a function: it is of another version, or not libtutti."""
    if not hasattr(library, "tutti_version"):
        raise ImportError(f"{path} is not libtutti (environment variable TUTTI_LIBRARY)")
    version = library.tutti_version
    version.restype, version.argtypes = ctypes.c_char_p, []
    raise ImportError(
        f"{path} has version {version().decode(errors='replace')} and no function "
        f"tutti_{missing}; the Python package tutti has version {__version__}: install both from "
        "one release, or set the environment variable TUTTI_LIBRARY to the library of this one")


@functools.lru_cache(maxsize=None)
def load(path: str) -> Any:
    """libtutti with the types of its functions (tutti.h).

    Raises
    ------
    ImportError
        The library is older than this package, or not libtutti.
    """
    library = ctypes.CDLL(path)
    model, count = ctypes.c_void_p, ctypes.c_int64
    trainer, array = ctypes.c_void_p, ctypes.c_void_p
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []),
            ("error", ctypes.c_char_p, []),
            ("options", ctypes.c_char_p, []),
            ("train_in_memory", ctypes.c_int, [array]),
            ("open", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(model)]),
            ("open_group", ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p,
                                          ctypes.POINTER(model)]),
            ("open_memory", ctypes.c_int, [ctypes.c_char_p, count, ctypes.POINTER(model)]),
            ("close", None, [ctypes.POINTER(model)]),
            ("inputs", count, [model]),
            ("columns", count, [model]),
            ("members", count, [model]),
            ("input_name", ctypes.c_char_p, [model, count]),
            ("input_levels", count, [model, count]),
            ("input_level", ctypes.c_char_p, [model, count, count]),
            ("level_value", ctypes.c_double, [model, count, ctypes.c_char_p]),
            ("ensemble_name", ctypes.c_char_p, [model, count]),
            ("column_label", ctypes.c_char_p, [model, count]),
            ("member_columns", count, [model]),
            ("levels", count, [model]),
            ("level", ctypes.c_double, [model, count]),
            ("has_classes", ctypes.c_int, [model]),
            ("target_name", ctypes.c_char_p, [model, count]),
            ("target_units", ctypes.c_char_p, [model, count]),
            ("predict", ctypes.c_int, [model, count, DOUBLES, ctypes.c_int,
                                       ctypes.POINTER(Wanted)]),
            ("trainer_create", ctypes.c_int, [array, ctypes.POINTER(trainer)]),
            ("trainer_destroy", None, [ctypes.POINTER(trainer)]),
            ("trainer_members", count, [trainer]),
            ("trainer_outputs", count, [trainer]),
            ("trainer_parameters", count, [trainer]),
            ("trainer_step", ctypes.c_int, [trainer, array, array]),
            ("trainer_forward", ctypes.c_int, [trainer, array, array]),
            ("trainer_backward", ctypes.c_int, [trainer, array, array]),
            ("trainer_update", ctypes.c_int, [trainer]),
            ("trainer_take_gradient", ctypes.c_int, [trainer, array]),
            ("trainer_predict", ctypes.c_int, [trainer, count, array, array]),
            ("trainer_model", ctypes.c_int, [trainer, ctypes.POINTER(model)]),
            ("trainer_save", ctypes.c_int, [trainer, ctypes.c_char_p]),
            ("trainer_get_weights", ctypes.c_int, [trainer, count, array]),
            ("trainer_set_weights", ctypes.c_int, [trainer, count, array]),
            ("trainer_learning_rate", ctypes.c_double, [trainer, count]),
            ("trainer_set_learning_rate", ctypes.c_int, [trainer, count, ctypes.c_double]),
            ("trainer_reset", ctypes.c_int, [trainer, count]),
            ("trainer_state_bytes", count, [trainer]),
            ("trainer_get_state", ctypes.c_int, [trainer, array]),
            ("trainer_set_state", ctypes.c_int, [trainer, ctypes.c_char_p, count])):
        function = getattr(library, f"tutti_{name}", None)
        if function is None:
            _refuse(library, path, name)
        function.restype, function.argtypes = result, arguments
    return library
