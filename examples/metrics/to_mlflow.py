"""python3 to_mlflow.py DIRECTORY: the metrics of a run as a run of MLflow, by MLFLOW_TRACKING_URI."""
import json
import sys
import mlflow

with mlflow.start_run(run_name=sys.argv[1]):
    for line in open(sys.argv[1] + "/metrics.jsonl"):
        if line.endswith("\n"):  # else it is being written
            row = json.loads(line)
            known = {name: row[name] for name in ("loss_q25", "loss_q50", "loss_q75", "training", "diverged", "rate")
                     if row[name] is not None}
            mlflow.log_metrics(known, step=row["epoch"])
