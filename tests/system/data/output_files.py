"""Every file that the program writes, made by short runs of its verbs; for the tests of what all
files have in common.

    VERBS   {verb: its files}
    make    run the verbs; returns {file: its path}
"""
import pathlib
import sys

from rig import np, tutti

VERBS = {
    "import": ["data.h5"],
    "train": ["out/model.h5", "out/results.h5", "out/ckpt-g*.h5", "mixed/model.h5", "mixed/results.h5"],
    "predict": ["pred.h5", "classes.h5"],
    "evaluate": ["score.h5"],
    "explain": ["importance.h5"],
    "campaign run": ["campaign/campaign.h5", "campaign/round-0001/pool_scores.h5",
                     "campaign/round-0001/queries.h5", "campaign/round-0001/label/0001/input.h5",
                     "campaign/round-0001/label/0001/accepted.h5",
                     "campaign/round-0001/round_after_score.h5",
                     "campaign/round-0001/round_after_select.h5"],
}

# Two ensembles of different targets with different units; members of different networks.
JOB = """\
title: outputs
data: {file: data.h5, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: warm, target: heat, members: 3}, {name: cold, target: cool, members: 2}]
train: {epochs: 6, loss: gaussian_nll, resample: bootstrap}
calibration: {conformal: [0.8]}
run: {device: cpu, directory: out}
"""
MIXED = """\
data: {file: table.csv, inputs: [a, b, kind], targets: [heat, state], categories: {kind: zeros},
       split: {train: 0.6, validation: 0.2, test: 0.2}}
ensembles: [{name: warm, target: heat, members: 2, model: {hidden: [4]}},
            {name: kinds, target: state, members: 1, model: {hidden: [3], output: softmax}, train: {loss: cross_entropy}}]
train: {epochs: 3}
run: {device: cpu, directory: mixed}
"""
CAMPAIGN = """\
data: {file: table.csv, id: name, inputs: [a, b], targets: [heat, cool], split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: warm, target: heat, members: 2}, {name: cold, target: cool, members: 2}]
train: {epochs: 3}
run: {device: cpu}
campaign: {directory: campaign}
pool: {file: pool.csv, inputs: [a, b]}
score: {ensemble_reduction: quota}
select: {batch: 4}
stop: {rounds: 1}
label: {command: [PYTHON, oracle.py, '{input}', '{output}'], rows_per_call: 8}
"""
ORACLE = """\
import sys, h5py
with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[2], "w") as g:
    x = f["x"][()]
    g["id"], g["y"] = f["id"][()], [[a + b, a * b] for a, b in x]
"""


def make():
    """Run the verbs in the current folder. Returns {name in VERBS: path}."""
    folder = pathlib.Path()
    rng = np.random.default_rng(4)
    kinds = ["copper", "größe", "tin"]
    with open("table.csv", "w", encoding="utf-8") as f:
        f.write("a,b,heat,cool,kind,state,name\n")
        for i, (a, b) in enumerate(rng.normal(size=(60, 2))):
            f.write(f"{a:.6f},{b:.6f},{a + b:.6f},{a * b:.6f},{kinds[i % 3]},{i % 3},row {i}\n")
    with open("pool.csv", "w", encoding="utf-8") as f:
        f.write("name,a,b\n" + "".join(f"pool {i},{a:.6f},{b:.6f}\n" for i, (a, b) in enumerate(rng.normal(size=(30, 2)))))
    for name, text in (("job.yaml", JOB), ("mixed.yaml", MIXED), ("oracle.py", ORACLE),
                       ("campaign.yaml", CAMPAIGN.replace("PYTHON", sys.executable))):
        (folder / name).write_text(text)
    tutti("import", "table.csv", "--inputs", "a,b", "--targets", "heat,cool", "--output", "data.h5")
    tutti("train", "job.yaml", "-q")
    tutti("train", "mixed.yaml", "-q")
    tutti("predict", "out/model.h5", "data.h5", "--members", "--jacobian", "--quantiles", "0.1,0.9",
          "--output", "pred.h5", "-q")
    tutti("predict", "mixed/model.h5", "table.csv", "--members", "--output", "classes.h5", "-q")
    tutti("evaluate", "out/model.h5", "data.h5", "--output", "score.h5")
    tutti("explain", "out/model.h5", "data.h5", "--output", "importance.h5", "--repeats", "2")
    tutti("campaign", "run", "campaign.yaml", "-q")
    found = {name: sorted(folder.glob(name)) for names in VERBS.values() for name in names}
    missing = [name for name, paths in found.items() if not paths]
    assert not missing, f"not written: {missing}; there are {sorted(map(str, folder.rglob('*.h5')))}"
    return {name: paths[-1] for name, paths in found.items()}
