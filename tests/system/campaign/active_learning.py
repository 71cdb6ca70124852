#!/usr/bin/python3
"""The commands of examples/active-learning/README.md, with fewer rounds."""
import os
import shutil
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import ROOT, check, h5py, np, sets, test, tutti

INPUTS = ("longitudinal_position,prismatic_coefficient,length_displacement,beam_draught,"
          "length_beam,froude_number")
QUICK = ["train.epochs=20", "select.batch=25", "stop.labels=95"]


def history(name):
    with h5py.File(f"{name}/campaign.h5", "r") as f:
        return {k: f[k][()] for k in ("labels", "rmse", "query_row", "query_round", "model_hash")}


def main():
    shutil.copy(ROOT / "examples/active-learning/campaign.yaml", ".")
    tutti("import", ROOT / "examples/yacht/yacht.csv", "-o", "yacht.h5", "--inputs", INPUTS, "--targets",
          "residuary_resistance")
    for more in ([], ["score.acquisition=random", "campaign.directory=random"]):
        tutti("campaign", "run", "campaign.yaml", "-q", *sets(*QUICK, *more), timeout=250)
    picked, drawn = history("campaign"), history("random")
    for h in (picked, drawn):
        check(list(h["labels"]) == [20, 45, 70, 95], "not so: 20 labels at first, then 25 more a round")
        check(len(set(h["query_row"])) == 75, "not so: no row is queried twice")
        check(h["rmse"][-1, 0] < 0.7 * h["rmse"][0, 0], "not so: more labels, smaller errors")
    check(picked["model_hash"][0] == drawn["model_hash"][0], "not so: both begin alike")
    check(set(picked["query_row"]) != set(drawn["query_row"]), "not so: the baseline has other queries")
    with h5py.File("campaign/round-0004/pool_scores.h5", "r") as f:
        used = set(np.flatnonzero(np.isnan(f["score"][0])))
    check(len(used) == 75 + 82, "not so: 75 queries; 20 and 62 rows are not candidates")
    check(set(picked["query_row"]) <= used, "not so: no query is a row of the initial data")
    tutti("report", "campaign", "random")
    check(os.path.getsize("campaign/report.html") > 1000, "no page")


test(main)
