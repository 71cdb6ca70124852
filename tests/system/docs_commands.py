#!/usr/bin/python3
"""Do the commands of the documentation run as they are typed there?

    docs_commands.py SOURCE TUTTI MPIRUN

Commands are the indented blocks and the sh blocks of the pages whose first word is a program. Each
page runs in one shell: the examples first, the other pages in a copy of what these leave. Programs of these names are put before the others:
tutti trains for two epochs and two rounds, srun runs the command once, sbatch prints a job number.
Commands that cannot run here are in CANNOT, with the reason; the files they name must exist.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = re.compile(r"(\./|script/|bench/|build/|(tutti|mpirun|srun|sbatch|cmake|ctest|cp|cd|rm|cc|tar|python3|"
                      r"\w+=\$\(sbatch)\b(?!:))")
CANNOT = {  # start of a command -> why it cannot run here
    "script/": "builds, installs packages",
    "cmake ": "builds",
    "ctest ": "runs all tests",
    "mpirun --oversubscribe -n 3 build/": "runs tests",
    "build/": "needs a build in build/",
    "tests/cuda/": "needs a build with nvcc",
    "bench/": "minutes; some need PyTorch",
    "python3 bench/": "needs PyTorch or JAX",
    "tar xJf pack": "needs the archive of bench/pack",
    "rm campaign/round-0003": "needs a round with failed labels",
    "tutti campaign label": "needs queries that wait for labels; tests/system/campaign/campaign.py",
}
EXIT = {}  # start of a command -> exit code other than 0
# Commands before those of a page.
START = {
    "README.md": """
        cut -d, -f1-3,9,10 examples/energy/energy.csv | sed '1s/.*/a,b,c,heating_load,cooling_load/' >table.csv
        cp examples/energy/energy.csv .
        tutti import energy.csv -o new.h5 --inputs "$(head -n 1 energy.csv | cut -d, -f1-8)"
        yaml README.md >job.yaml""",
    "docs/README.md": """
        cp examples/energy/energy.csv .
        yaml docs/README.md >job.yaml
        sed -n '/^```c$/,/^```$/{/^```/!p}' docs/README.md >load.c""",
    "docs/active-learning.md": """
        tutti campaign init .
        tutti campaign run campaign.yaml
        tutti campaign run campaign.yaml --set score.acquisition=random --set campaign.directory=baseline""",
    "docs/columns.md": "cp -r examples/energy/out examples/energy/energy.csv .",
    "docs/json.md": "cp -r examples/energy/out examples/energy/energy.h5 examples/energy/job.yaml .",
    "docs/oracle.md": "tutti campaign init .",
    "docs/report.md": """
        cp examples/energy/energy.h5 examples/energy/job.yaml .
        tutti train job.yaml
        tutti campaign init .
        tutti campaign run campaign.yaml
        tutti campaign run campaign.yaml --set score.acquisition=random --set campaign.directory=baseline
        mkdir repeats
        cp -r campaign baseline repeats""",
    "docs/sweeps.md": "cp examples/energy/energy.h5 examples/energy/sweep.yaml .",
    "docs/gpu.md": "cp examples/energy/energy.h5 examples/energy/job.yaml .",
    "slurm/README.md": """
        cp examples/energy/energy.h5 examples/energy/job.yaml .
        tutti campaign init .""",
}
STUBS = {
    "tutti": """case $1-$2 in
        train-*) set -- "$@" --set train.epochs=2 ;;
        campaign-run | campaign-step) set -- "$@" --set train.epochs=2 --set stop.rounds=3 ;;
        esac
        exec "$TUTTI" "$@" """,
    "srun": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
    "sbatch": "echo 4711",
    "mpirun": 'exec $TUTTI_MPIRUN "$@"',
    "python3": f'exec {sys.executable} "$@"',
    "yaml": "awk '/^```/ { if (on) exit; on = /^```yaml/; next } on' \"$1\"",  # the first block
}


def commands(text):
    """(line number, command) of each command; a backslash at the end continues it."""
    found, block, fence = [], None, None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        mark = re.match(r"```(\w*)", line)
        if mark:
            fence = None if fence is not None else mark[1]
            block = None
            continue
        if fence is not None and fence != "sh":
            continue
        body = line if fence else line[4:] if line.startswith("    ") else None
        if body is None or not body.strip():
            block = None
            continue
        if block is None:  # the first line of a block
            block = bool(PROGRAMS.match(body)) and (fence == "sh" or not lines[number - 2].strip())
        if not block:
            continue
        if found and found[-1][1].endswith("\\"):
            found[-1] = (found[-1][0], found[-1][1][:-1] + body.strip())
        else:
            found.append((number, body))
    return found


def reason(command):
    return next((why for start, why in CANNOT.items() if command.startswith(start)), None)


def missing_file(source, command):
    """The first word of a command that is a file of the tree, if there is no such file."""
    word = re.search(r"(?<![\w/])((?:script|bench|tests)/[\w./]+)", command)
    return word[1] if word and not (source / word[1]).exists() else None


def run_page(page, found, home, env):
    """Run the commands of a page in one shell; returns its complaints."""
    script = ["set -e", START.get(page, ""), "set +e"]
    for number, command in found:
        want = next((code for start, code in EXIT.items() if command.startswith(start)), 0)
        script.append(f"""echo '$ line {number}' >&2
            {command}
            code=$?; [ $code = {want} ] || echo "FAULT line {number}: exit code $code" """)
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=home, env=env, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    faults = re.findall(r"^FAULT (.*)$", done.stdout, re.M)
    if done.returncode and not faults:
        faults = [f"the commands before those of the page: exit code {done.returncode}"]
    return [f"{page}: {fault}" for fault in faults] + ([done.stdout] if faults else [])


def expect_no_gpu(tutti):
    """A build with CUDA on a machine without a GPU: doctor has this one problem."""
    done = subprocess.run([tutti, "doctor"], capture_output=True, text=True, timeout=60)
    if "sees no GPU" in done.stdout and "\n2. " not in done.stdout:
        EXIT["srun --ntasks-per-node=4 --gpus-per-node=4 tutti doctor"] = EXIT["tutti doctor"] = 69


def main(source, tutti, *mpirun):
    expect_no_gpu(tutti)
    source, faults, used, count = pathlib.Path(source), [], set(), 0
    pages = [*source.glob("examples/*/README.md"), *source.glob("*.md"), *source.glob("docs/*.md"),
             source / "slurm/README.md", source / "bench/NOTES.md"]
    with tempfile.TemporaryDirectory() as work:
        home, stubs = pathlib.Path(work) / "home", pathlib.Path(work) / "stubs"
        stubs.mkdir()
        for name, text in STUBS.items():
            (stubs / name).write_text(f"#!/bin/bash\n{text}\n")
            (stubs / name).chmod(0o755)
        for folder in ("examples", "slurm", "docs"):
            shutil.copytree(source / folder, home / folder)
        shutil.copy(source / "README.md", home)
        env = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "TUTTI": tutti, "EDITOR": "true",
               "TUTTI_MPIRUN": " ".join([shutil.which(mpirun[0]), *mpirun[1:]])}
        for page in sorted(pages, key=lambda p: (not p.is_relative_to(source / "examples"), p)):
            name = str(page.relative_to(source))
            found = commands(page.read_text())
            faults += [f"{name}: line {number}: there is no {missing_file(source, command)}"
                       for number, command in found if missing_file(source, command)]
            used |= {start for start in CANNOT for _, command in found if command.startswith(start)}
            found = [(number, command) for number, command in found if not reason(command)]
            count += len(found)
            if not found:
                continue
            place = home
            if not name.startswith("examples/"):
                place = pathlib.Path(work) / name
                shutil.copytree(home, place)
            faults += run_page(name, found, place, env)
    faults += [f"CANNOT: no page has a command that starts with '{start}'" for start in CANNOT.keys() - used]
    print("\n".join(faults) or f"{count} commands run as typed")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
