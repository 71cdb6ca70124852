#!/usr/bin/python3
"""Campaigns on Slurm: campaign.sbatch stopped and requeued in the middle of rounds, and labels from
an array job whose campaign is killed or stopped. Each ends with the queries, labels and errors of
an undisturbed campaign."""
import contextlib
import json
import os
import re
import shutil
import subprocess

import slurm_rig as rig
from slurm_rig import h

ROUNDS, BATCH = 3, 6
BY_SLURM = "label.mode=slurm", "label.script=label.sh"
CAMPAIGN = f"""\
data:  {{file: data.h5, split: {{train: 0.6, validation: 0.2, test: 0.2, seed: 3}}}}
model: {{hidden: [8], activation: tanh}}
ensembles: [{{name: one, target: y0, members: 3}}, {{name: two, target: y1, members: 3}}]
train: {{learning_rate: 5e-3, batch_size: 16, epochs: 60}}
run:   {{seed: 11, device: cpu, threads: 1}}
pool:  {{file: pool.h5}}
select: {{batch: {BATCH}, random_fraction: 0.2}}
label: {{command: [./oracle, "{{input}}", "{{output}}"], format: csv, rows_per_call: 2, concurrency: 2,
        poll_interval: 200ms}}
stop:  {{rounds: {ROUNDS}}}
"""

# y0 = sin(3 x0), y1 = x1 x2. In a file `stops` each line is a round and the action of its first
# call on the job of the campaign; then the call waits for this job to stop. Labels are written
# after squeue has failed.
ORACLE = """\
#!/bin/sh
round=${1#*round-000}; round=${round%%/*}
stop=$(grep "^$round " stops 2>/dev/null | cut -d' ' -f2)
if [ -n "$stop" ] && mkdir "stopped-$round" 2>/dev/null; then
  [ "$stop" = signal ] && scancel --signal=USR1 "$CAMPAIGN_JOB"
  [ "$stop" = requeue ] && scontrol requeue "$CAMPAIGN_JOB"
  for _ in $(seq 300); do
    squeue -h -j "$CAMPAIGN_JOB" -t running | grep -q . || break
    sleep 0.2
  done
fi
n=0
while [ -s fail.squeue ] && [ $((n += 1)) -lt 300 ]; do sleep 0.2; done
awk -F, -v OFS=, 'NR == 1 { print "id,y0,y1"; next } { print $1, sin(3 * $2), $3 * $4 }' "$1" > "$2"
"""

# The first two calls cannot label their point, the others would take a minute.
HOPELESS = """\
#!/bin/sh
mkdir call-1 2>/dev/null || mkdir call-2 2>/dev/null || exec sleep 60
exit 65
"""

STOPPED = re.compile(r"stopped in round 2, label, \d groups? done \(.*\): queued again")
LABEL = "#!/bin/bash\n#SBATCH --ntasks=1\n#SBATCH --time=5\necho module load simulator\n"

# Around the real command: count the call; fail as many times as fail.NAME has lines; kill the
# caller if kill.NAME exists.
SHIM = """\
#!/bin/sh
echo "$@" >> {folder}/{name}.log
if [ -s {folder}/fail.{name} ]; then
  sed -i 1d {folder}/fail.{name}
  echo "{name}: error: Unable to contact slurm controller" >&2
  exit 1
fi
said=$({real} "$@") || exit
if rmdir {folder}/kill.{name} 2>/dev/null; then kill -KILL "$PPID"; exit; fi
echo "$said"
"""


def workplace_of(folder, name):
    """A copy of the campaign in its own directory."""
    place = folder / name
    place.mkdir()
    for file in ("data.h5", "pool.h5", "campaign.yaml", "oracle", "label.sh", "slow.sh"):
        shutil.copy(folder / file, place)
    return place


def prepare(folder):
    h.write_data(folder / "data.h5", rows=60)
    draw = h.np.random.RandomState(6)
    with h.h5py.File(folder / "pool.h5", "w") as f:
        f["x"] = draw.uniform(-1, 1, (500, 4)).astype("f4")
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    for name, text in (("oracle", ORACLE), ("label.sh", LABEL), ("slow.sh", LABEL + "sleep 3\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def run(place, *settings, path=""):
    """`tutti campaign run` beside this test, outside any job."""
    sets = [word for s in settings for word in ("--set", s)]
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    with open(place / "log", "a") as log:
        return subprocess.run([h.TUTTI, "campaign", "run", "campaign.yaml", *sets], cwd=place,
                              env=env, stdout=log, stderr=subprocess.STDOUT, check=False,
                              timeout=rig.LIMIT).returncode


def history(place):
    """All datasets of campaign.h5 without times and provenance."""
    return {name: value for name, value in h.tensors(place / "campaign" / "campaign.h5").items()
            if "second" not in name and "time" not in name}


def check_history(place, wanted, text):
    if not h.check((place / "campaign" / "campaign.h5").exists(), f"{text}: no campaign.h5"):
        return
    got, good = history(place), history(wanted)
    different = [n for n in sorted(got.keys() | good.keys()) if got.get(n) != good.get(n)]
    h.check(len(good) > 10 and not different, f"{text}: other bits in {', '.join(different)}")
    weights = h.tensors(place / "campaign" / "model.h5")
    h.check(weights == h.tensors(wanted / "campaign" / "model.h5"), f"{text}: other weights")


def submit(folder, name, stops, ranks=1, settings=(), change=("", "")):
    """campaign.sbatch with an oracle that stops it, and one text changed."""
    place = workplace_of(folder, name)
    (place / "stops").write_text(stops)
    text = rig.script("campaign.sbatch", ranks, settings).replace(*change)
    text = text.replace("job=campaign.yaml", f"job={place}/campaign.yaml\nexport CAMPAIGN_JOB=$SLURM_JOB_ID")
    return place, rig.submit(folder, name, text, "--time=10")


def check_job(folder, place, job, wanted, stops, decisions):
    """Check that it was stopped this many times during labeling, and equals an undisturbed
    campaign."""
    done, log = rig.wait_end(job), rig.output(folder, place.name, job)
    cancel_labels(place)
    h.check(done == "COMPLETED", f"{place.name}: {done}\n{log}")
    h.check(rig.restarts(job) == stops, f"{place.name}: {rig.restarts(job)} restarts\n{log}")
    h.check(STOPPED.search(log), f"{place.name}: not stopped in round 2\n{log}")
    rows = rig.starts(place / "campaign")
    h.check([r["decision"] for r in rows] == decisions, f"{place.name}: starts.tsv: {rows}")
    check_history(place, wanted, place.name)
    return log


def shims(place, names):
    """Wrappers of Slurm commands; returns their directory, for PATH."""
    for name in names:
        (place / "bin").mkdir(exist_ok=True)
        file = place / "bin" / name
        file.write_text(SHIM.format(folder=place, name=name, real=shutil.which(name)))
        file.chmod(0o755)
    return place / "bin"


def lines(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


def cancel_labels(place):
    with contextlib.suppress(OSError, ValueError):
        for record in place.glob("campaign/round-*/label/job.json"):
            for job in json.loads(record.read_text())["jobs"]:
                rig.started.append(str(job["id"]))


def check_array(folder, wanted):
    """Killed directly after sbatch, before it printed the job number, and run again while squeue
    fails."""
    place = workplace_of(folder, "array")
    path = shims(place, ("sbatch", "squeue"))
    (place / "kill.sbatch").mkdir()
    (place / "fail.squeue").write_text("1\n2\n3\n")
    code = run(place, *BY_SLURM, path=path)
    cancel_labels(place)
    h.check(code == -9 and lines(place / "sbatch.log") == 1, f"array: {code}, not killed")
    code = run(place, *BY_SLURM, path=path)
    cancel_labels(place)
    log = (place / "log").read_text()
    h.check(code == 0, f"array: {code}\n{log}")
    h.check(lines(place / "sbatch.log") == ROUNDS, f"array: more jobs than expected\n{log}")
    h.check("squeue failed" in log and "of an earlier start" in log, f"array:\n{log}")
    h.check("--array=0-2%2" in (place / "sbatch.log").read_text(), "array: not an array")
    check_history(place, wanted, "array")


def check_hopeless(folder):
    """Two of six points cannot be labeled, where label.max_failed allows one: the campaign ends, and
    running and waiting tasks of its array job are canceled."""
    place = workplace_of(folder, "hopeless")
    (place / "oracle").write_text(HOPELESS)
    settings = "label.rows_per_call=1", "label.max_failed=0.2"
    code = run(place, *BY_SLURM, *settings, path=shims(place, ("scancel",)))
    log = (place / "log").read_text()
    h.check(code == 76 and "2 of 6 queried rows have no label" in log, f"hopeless: {code}\n{log}")
    job = (place / "scancel.log").read_text().strip() if lines(place / "scancel.log") == 1 else ""
    if not h.check(job.isdigit() and f"Slurm job {job} (" in log, f"hopeless: canceled '{job}'\n{log}"):
        return
    rig.started.append(job)
    rig.wait_for("the canceled tasks", lambda: not tasks(job, "pending,running,completing"), 30)
    ended = tasks(job, "all")
    h.check(len(ended) == BATCH and ended.count("CANCELLED") == BATCH - 2, f"hopeless: {ended}\n{log}")
    h.check(not list(place.glob("campaign/round-0001/label/job.json")), "hopeless: job.json is there")


def tasks(job, states):
    """The states of the tasks of an array job that are in one of `states`."""
    return rig.command("squeue", "-h", "-r", "-t", states, "-j", job, "-o", "%T").stdout.split()


def check_patient(folder, place, job, wanted):
    """It never waits for labels: each round ends the job, which starts again once the label jobs have
    ended. More starts than the limits allow, because they only wait."""
    done, log = rig.wait_end(job), rig.output(folder, place.name, job)
    cancel_labels(place)
    h.check(done == "COMPLETED", f"{place.name}: {done}\n{log}")
    rows = rig.starts(place / "campaign")
    h.check([r["stopped_by"] for r in rows] == ["label_jobs"] * ROUNDS + [""],
            f"{place.name}: starts.tsv: {rows}\n{log}")
    h.check("does not wait for these jobs" not in log, f"{place.name}: no dependency\n{log}")
    check_history(place, wanted, place.name)


def main():
    with rig.workplace() as folder:
        prepare(folder)
        patient = submit(folder, "patient", "", 1, [BY_SLURM[0], "label.script=slow.sh", "label.max_wait=0"],
                         ("--max-restarts 200", "--max-restarts 1"))
        resident = submit(folder, "resident", "2 signal\n3 requeue\n", 2)
        within = submit(folder, "within", "2 signal\n", 1, BY_SLURM)
        wanted = workplace_of(folder, "wanted")
        code = run(wanted)
        h.check(code == 0, f"the undisturbed campaign ended with {code}")
        check_array(folder, wanted)
        check_hopeless(folder)
        log = check_job(folder, *resident, wanted, 2, ["queued again", "it is done"])
        h.check("may crash" not in log, f"resident: no crash in the log\n{log}")
        log = check_job(folder, *within, wanted, 1, ["queued again", "it is done"])
        h.check("of an earlier start" in log and log.count("are labeled by Slurm job") == ROUNDS,
                f"within: not once a round\n{log}")
        check_patient(folder, *patient, wanted)
        h.finish(f"{ROUNDS} rounds, four ways; a hopeless oracle")


if __name__ == "__main__":
    main()
