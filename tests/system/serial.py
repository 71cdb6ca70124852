"""serial.py SERIAL — the program SERIAL, which is built without MPI, writes the same values to
model, results and predictions as TUTTI, says what it is, and is none of several ranks."""
import os
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import check, h5py, launcher, np, run, test, TUTTI, write_h5, write_json  # noqa: E402

REFUSED = "this tutti was built without MPI"


def contents(path):
    """[name, bytes, type, attributes] of each dataset outside /provenance, by name."""
    found = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("provenance"):
            texts = {k: str(v) for k, v in item.attrs.items() if not k.endswith("_LIST")}  # of dimensions
            found.append((name, item[()].tobytes(), str(item.dtype), texts))

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    return sorted(found, key=lambda row: row[0])


def main(serial):
    rng = np.random.default_rng(3)
    write_h5("d.h5", x=rng.normal(size=(200, 3)), y=rng.normal(size=200))
    job = write_json("job.json", {"data": {"file": "d.h5"}, "ensembles": [{"name": "e", "members": 5}],
                                  "train": {"epochs": 4}, "run": {"threads": 1}})
    for program, out in ((TUTTI, "mpi"), (serial, "serial")):
        run(program, "train", job, "--set", f"run.directory={out}")
        run(program, "predict", f"{out}/model.h5", "d.h5", "-o", f"{out}/predicted.h5")
    for file in ("model.h5", "results.h5", "predicted.h5"):
        a, b = contents(f"mpi/{file}"), contents(f"serial/{file}")
        check(len(a) > 5 and a == b, f"{file}: not the same in {[p[0] for p, q in zip(a, b) if p != q]}")
    check(h5py.File("serial/model.h5")["provenance"].attrs["mpi_version"] == b"no MPI: built for one process",
          "provenance")

    run(serial, "--version", says="no MPI: built for one process")
    said = run(serial, "doctor", job, "--set", "run.device=cpu")
    check("HDF5" in said and ", serial" in said and "GPU memory in messages" not in said, said)
    run(*launcher(1), serial, "train", job, "--set", "run.directory=one")
    said = run(*launcher(2), serial, "train", job, "--set", "run.directory=two", code=69, says=REFUSED)
    check(said.count(REFUSED) == 1, said)
    check(not os.path.exists("two"), "a run of one of two ranks has begun")
    slurm = {"SLURM_NTASKS": "4", "SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
    for more in ({}, {"PMI_RANK": "1", "PMI_SIZE": "4"}, {"PMIX_RANK": "1"}):
        run(serial, "train", job, env={**os.environ, **slurm, **more}, code=69)


test(main, sys.argv[1])
