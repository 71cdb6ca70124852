"""jobs.py: jobs of bench/gpu for what its workloads do not have: dropout, layer_norm and residual
layers, heads, a front, and stages on two ranks, all on the layered path. A job is trained with few
and with many epochs; the difference of the two is the time of its steps, without start and end.
"""
import pathlib
import shutil
import statistics
import tempfile
import time

import kit

HEAD = """\
data: {file: energy.csv, targets: [heating_load, cooling_load],
       split: {train: 0.75, validation: 0, test: 0.25, seed: 7}}
ensembles: [{name: heating, target: heating_load, members: %(members)d}]
run: {seed: 3, threads: 1, directory: out, share_gpu: true%(run)s}
"""
BATCH, STEPS_OF_EPOCH = 64, 9  # 576 of the 768 rows are for training
# name: (settings besides those of HEAD, of run, ranks, its share of the epochs)
JOBS = {
    "plain": ("model: {hidden: [64, 64]}\ntrain: {batch_size: 64}\n", "", 1, 1),
    "extras": ("model: {hidden: [64, 64], layer_norm: true, residual: true}\n"
               "train: {batch_size: 64, dropout: 0.1}\n", "", 1, 1),
    "heads": ("model: {hidden: [64, 64], heads: 16}\ntrain: {batch_size: 64}\n", "", 1, 1),
    "front": ("model: {profile: [1, 8], front: [conv 16 3, residual 1, conv 16 3, pool max 2],\n"
              "        hidden: [64]}\ntrain: {batch_size: 64}\n", "", 1, 0.5),
    "stages": ("model: {hidden: [64, 64, 64]}\ntrain: {batch_size: 64, parts: 4}\n",
               ", stages: 2", 2, 0.1),
}


def write_job(name, folder, members):
    text, run, *_ = JOBS[name]
    shutil.copy(kit.ROOT / "examples" / "energy" / "energy.csv", folder)
    (folder / "job.yaml").write_text(HEAD % {"members": members, "run": run} + text)


def train(tutti, name, device, epochs, members, seconds):
    """Seconds of a whole run, or the reason why there are none."""
    command = [tutti, "train", "job.yaml", "--set", f"run.device={device}",
               "--set", f"train.epochs={epochs}"]
    if JOBS[name][2] > 1:
        command = ["mpirun", "--oversubscribe", "-n", str(JOBS[name][2]), *command]
    with tempfile.TemporaryDirectory(prefix="tutti-job-") as place:
        write_job(name, pathlib.Path(place), members)
        begin = time.monotonic()
        code, said = kit.run(command, seconds, {"TUTTI_GPU_PATH": "layered"}, place)
        taken = time.monotonic() - begin
    if code:
        return None, (said.strip().splitlines() or [f"exit status {code}"])[-1]
    return (taken, "") if code == 0 else (None, "no time left")


def step_us(tutti, name, device, epochs, members, clock):
    """Microseconds of a step, and "", or None and the reason. `epochs`: of both runs."""
    epochs = [max(1 + i, int(count * JOBS[name][3])) for i, count in enumerate(epochs)]
    seconds = []
    for count in epochs:
        taken, why = train(tutti, name, device, count, members, clock.left())
        if taken is None:
            return None, why
        seconds.append(taken)
    return 1e6 * (seconds[1] - seconds[0]) / ((epochs[1] - epochs[0]) * STEPS_OF_EPOCH), ""


def table(title, results):
    """Markdown. results: {row: {version: [us, ...]}}."""
    columns = list(dict.fromkeys(name for row in results.values() for name in row))
    lines = [f"### {title}, us per step (min to max)", "",
             f"| | {' | '.join(columns)} | {columns[0]} / {columns[-1]} |",
             "|" + "---|" * (len(columns) + 2)]
    for row, of in results.items():
        cells = [f"{statistics.median(of[c]):.2f} ({min(of[c]):.2f} to {max(of[c]):.2f})"
                 if of.get(c) else "-" for c in columns]
        first, last = of.get(columns[0]), of.get(columns[-1])
        ratio = (f"{statistics.median(first) / statistics.median(last):.3f}" if first and last
                 else "-")
        lines.append(f"| {row} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)
