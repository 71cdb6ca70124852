"""What Ensemble.fit gives to the program: a data file and a job file."""
from __future__ import annotations

from typing import Any, BinaryIO, Mapping, Union

import numpy as np

from .. import job
from . import dataset, texts

_KINDS = {"sample_weight": np.float64, "split": np.int8}
_OPTIONS = {"sample_weight": "weights", "split": "split.column", "id": "id"}


class Given:
    """Tables, and what there is for each row.

    Parameters
    ----------
    job : dict
        Options, without the names of files.
    rows : mapping
        "sample_weight" and "split" to arrays, or None.
    """

    def __init__(self, job: dict[str, Any], x: dataset.Table, y: dataset.Table,
                 rows: Mapping[str, Any]) -> None:
        self.job, self._x, self._y = job, x, y
        self._others = {name: dataset.per_row(values, x.rows(), name, _KINDS[name])
                        for name, values in rows.items() if values is not None}
        labels = dataset.ids(x.index)
        if labels is not None:
            self._others["id"] = labels

    def write(self, data: Union[str, BinaryIO]) -> str:
        """Write the data file, and complete the job; its text."""
        job.put(self.job, "data.file", "data.h5")
        job.put(self.job, "run.directory", ".")
        called = {name: name for name in self._others}
        if self._x.texts:
            columns = texts.write_columns(data, self._x, self._y, self._others)
            called = columns.pop("others")
            section = {**columns, **self.job["data"]}
            given = section.get("categories")
            section["categories"] = texts.categories(self._x, columns["inputs"], given)
            self.job["data"] = section
        else:
            dataset.write(data, {"x": self._x, "y": self._y}, self._others)
        for name, as_dataset in called.items():
            job.put(self.job, f"data.{_OPTIONS[name]}", as_dataset)
        return job.text(self.job)
