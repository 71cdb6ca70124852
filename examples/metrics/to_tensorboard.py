"""python3 to_tensorboard.py DIRECTORY: the metrics of a run for TensorBoard, also while it trains."""
import json
import sys
try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    from tensorboardX import SummaryWriter

writer = SummaryWriter(sys.argv[1])
for line in open(sys.argv[1] + "/metrics.jsonl"):
    if line.endswith("\n"):  # else it is being written
        row = json.loads(line)
        for name in ("loss_q25", "loss_q50", "loss_q75", "training", "diverged", "rate"):
            if row[name] is not None:
                writer.add_scalar(name, row[name], row["epoch"])
writer.close()
