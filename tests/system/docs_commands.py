#!/usr/bin/python3
"""Do the commands of the documentation run as they are typed there?

    docs_commands.py SOURCE TUTTI MPIRUN

Commands are the indented blocks and the sh and console blocks of the Markdown pages whose first word
is a program. Each page runs in one shell: the examples first, the other pages in a copy of what these
leave. Programs of these names are put before the others: tutti trains for two epochs and two rounds,
srun runs the command once, sbatch prints a job number. The jobs of examples/ get two epochs and three
members too, and profiles.py makes fewer rows. What the commands of examples/ write is in .gitignore.
Commands that cannot run here are in CANNOT, with the reason; the files, options and targets that they
name must exist. A block that is not run although a program has the name of its first word is a fault,
and so is a command of tutti within a sentence that has an unknown verb or option. The output counts
all of them.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

PROGRAMS = re.compile(r"(\./|script/|bench/|build/|tests/cuda/|(tutti|mpirun|srun|sbatch|cmake|ctest|cp|cd|rm|cc|c\+\+|"
                      r"gfortran|tar|patch|pip|python3|export|echo|for|nvidia-cuda-mps-control|"
                      r"[A-Z_]+=\S+ \w+|\w+=\$\(sbatch)(?![\w:]))")
SHELL = {"sh", "console", "text", "bash", None, ""}  # kinds of blocks that may have commands
WORDS = {"export", "set", "if", "while", "for", "source", "."}  # of a shell, that are no files
CANNOT = {  # start of a command -> why it cannot run here, and what runs the same elsewhere
    "script/demo": "installs packages, builds, trains for a minute",
    "script/test": "this test is a part of it",
    "script/fuzz": "runs for hours",
    "script/mutate": "runs for hours",
    "script/torture": "runs for an hour",
    "script/tsan": "builds with another sanitizer",
    "script/matrix debian": "installs other systems",
    "cmake ": "builds; system.install_client installs this build",
    "ctest ": "would replace the log of the ctest that runs this test, even with -N",
    "tests/cuda/": "needs a build with nvcc",
    "bench/": "minutes; some need PyTorch",
    "build/bench/": "minutes, or a GPU",
    "mpirun --oversubscribe -n 3 build/tests/mpi_io": "mpi.io.model_io.3 runs it",
    "python3 bench/": "needs PyTorch, JAX or scikit-learn",
    "python3 q_learning.py": "needs the package tutti; python.q_learning plays less of it",
    "python3 torch_peer.py": "needs PyTorch; python.q_learning plays less of it",
    "python3 picture.py": "needs the records of the commands before it",
    "tar xJf pack": "needs the archive of bench/pack",
    "patch ": "changes the tree; rows.add_one_of_each applies all patches",
    "pip install": "needs a network; python.package builds the wheel and uses it",
    "TUTTI_BUILD=": "needs a network; python.package builds the wheel and uses it",
    "for s in": "five trainings of the job that runs above",
    "nvidia-cuda-mps-control": "needs a GPU",
    "echo quit | nvidia-cuda-mps-control": "needs a GPU",
    **dict.fromkeys(("gfortran ", "./time_loop", "c++ ", "./optimize", "cc predict.c", "./predict", "mpicc online.c",
                     "mpirun -n 2 ./online", "./online"),
                    "needs an installed tutti; system.install_client runs it as typed"),
}
EXIT = {}  # start of a command -> exit code other than 0
# Commands before those of a page.
START = {
    "README.md": "rm -r examples/energy/energy.h5 examples/energy/out",
    "docs/README.md": """
        cp examples/energy/energy.csv .
        yaml docs/README.md >job.yaml
        sed -n '/^```c$/,/^```$/{/^```/!p}' docs/README.md >load.c""",
    "docs/first-model.md": "cp examples/energy/energy.csv .",
    "docs/columns.md": "cp -r examples/energy/out examples/energy/energy.csv .",
    "docs/embedding.md": "cp -r examples/energy/out .",
    "docs/json.md": "cp -r examples/energy/out examples/energy/energy.h5 examples/energy/job.yaml .",
    # The program fails in round 2, until it is repaired.
    "docs/oracle.md": r"""
        tutti campaign init .
        cat >label.sh <<'END'
        #!/bin/sh
        case $2 in */round-0002/*) test -e repaired || exit 65 ;; esac
        awk -F, '{ print NR == 1 ? "id,height" : $1 ",0.5" }' "$1" >"$2.part" && mv "$2.part" "$2"
        END
        chmod +x label.sh
        sed -i 's|mode: hidden.*|{mode: command, command: [./label.sh, "{input}", "{output}"], format: csv}|
            s|^  max_failed.*||; s|^  labels: .*||' campaign.yaml
        tutti campaign run campaign.yaml || test $? = 76
        touch repaired""",
    "docs/report.md": """
        cp -r examples/energy/out examples/active-learning/campaign .
        cp -r examples/active-learning/random baseline
        mkdir repeats
        cp -r campaign baseline repeats""",
    "docs/sweeps.md": "cp examples/energy/energy.h5 examples/energy/sweep.yaml .",
    "docs/gpu.md": "cp examples/energy/energy.h5 examples/energy/job.yaml .",
    "docs/large-members.md": "cp examples/energy/energy.h5 examples/energy/job.yaml .",
    "slurm/README.md": """
        cp examples/energy/energy.h5 examples/energy/job.yaml .
        tutti campaign init .""",
}
# (page, start of a command) -> commands before this one: what the text before it describes.
BEFORE = {
    ("docs/oracle.md", "tutti campaign label"): """
        rm -r campaign
        tutti campaign run campaign.yaml --set label.mode=files --set label.max_wait=0s || test $? = 75
        sed '1s/.*/id,height/; 2,$s/,.*/,0.5/' campaign/round-0001/label/0001/input.csv >measured.csv""",
}
STUBS = {
    "tutti": """case $1-$2 in
        train-*) set -- "$@" --set train.epochs=2 ;;
        campaign-run | campaign-step) set -- "$@" --set train.epochs=2 --set stop.rounds=2 ;;
        esac
        exec "$TUTTI" "$@" """,
    "srun": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
    "sbatch": "echo 4711",
    "mpirun": 'exec $TUTTI_MPIRUN "$@"',
    "python3": f'exec {sys.executable} "$@"',
    "yaml": "awk '/^```/ { if (on) exit; on = /^```yaml/; next } on' \"$1\"",  # the first block
}


def blocks(text):
    """(kind, [(line number, line)]) of each block of code; kind None: indented."""
    found, fence, last = [], None, ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"```(\w*)", line)
        if mark:
            fence = None if fence is not None else mark[1]
            found.append((fence, []))
        elif fence is not None:
            found[-1][1].append((number, line))
        elif line.startswith("    ") and line.strip():
            if not last.strip() or last.startswith("#"):
                found.append((None, []))
            if found and (found[-1][0] is None) and (not found[-1][1] or found[-1][1][-1][0] == number - 1):
                found[-1][1].append((number, line[4:]))
        last = line
    return [(kind, lines) for kind, lines in found if lines]


def commands(kind, lines):
    """(line number, command) of each command of a block, in one line. Of console those after $."""
    found = []
    for number, line in lines:
        if kind == "console" and not line.startswith("$ "):
            continue
        line = line[2:] if kind == "console" else line
        if found and found[-1][1].endswith("\\"):
            found[-1] = (found[-1][0], found[-1][1][:-1] + line.strip())
        elif found and found[-1][1].startswith("for ") and not found[-1][1].endswith("done"):
            mark = " " if found[-1][1].endswith(" do") else "; "
            found[-1] = (found[-1][0], found[-1][1] + mark + line.strip())
        elif line.strip() and not line.startswith("#"):
            found.append((number, line))
    return found


def is_command(kind, lines):
    if lines[0][1].startswith("#!"):  # a file
        return False
    first = next((line for _, line in lines if line.strip() and not line.startswith("#")), "").removeprefix("$ ")
    return kind in SHELL and bool(PROGRAMS.match(first))


def may_be_command(kind, lines):
    """A block that is not run, although its first word is a program or a word of the shell."""
    first = lines[0][1].removeprefix("$ ").split()[0] if lines[0][1].strip() else ""
    return kind in SHELL and (first in WORDS or bool(shutil.which(first)))


def reason(command, build):
    """Why a command is not run; None: it is."""
    program = re.search(r"(?<!\S)build/(tests/\w+)", command)
    if program and not (build / program[1]).exists():
        return f"this build has no {program[1]}"
    return next((why for start, why in CANNOT.items() if command.startswith(start)), None)


def unknown_words(source, command):
    """Files, options and targets of the tree in a command that is not run, if there are no such."""
    text = {}
    for name in re.findall(r"(?<![\w/.])((?:script|bench|tests)/[\w./-]+)", command):
        if not (source / name).exists():
            yield f"there is no {name}"
        else:
            text[name] = (source / name).read_text(errors="replace")
    for name in re.findall(r"(?<![\w/])build/bench/(\w+)", command):
        found = [p for p in (source / "bench" / (name + end) for end in (".c", ".cu", "_line.c")) if p.exists()]
        text.update({name: p.read_text() for p in found})
    own = re.sub(r"cmake [^&]*(&&|$)", "", command)
    for option in re.findall(r"(?<!\S)--([a-z][\w-]*)", own.partition(" # ")[0]) if text else []:
        known = [option, option.replace("-", "_")]
        if not any(word in content for content in text.values() for word in known):
            yield f"{', '.join(text)}: there is no --{option}"
    cmake = [source / "CMakeLists.txt", source / "bench/CMakeLists.txt", *(source / "cmake").glob("*.cmake")]
    all_cmake = "".join(path.read_text() for path in cmake)
    for name in re.findall(r"-D(TUTTI_\w+)|--target (\w+)", command):
        if (name[0] or name[1]) not in all_cmake:
            yield f"CMake knows no {name[0] or name[1]}"


class Verbs:
    """Help texts of all verbs."""

    def __init__(self, tutti):
        self.tutti, self.text = tutti, {}

    def help(self, *words):
        if words not in self.text:
            done = subprocess.run([self.tutti, "help", *words], capture_output=True, text=True, timeout=60)
            self.text[words] = done.stdout
        return self.text[words]

    def unknown(self, command):
        """Verb and options of a command in a sentence that tutti does not have."""
        words, family = command.split()[1:], ()
        if words[0].startswith("-") or words[0] in ("help", "VERB"):
            return
        names = {(): "VERB"}
        while words and names[family] == "VERB":
            names.update({(*family, verb): files for verb, files in
                          re.findall(r"^  (\w+) (\S*)", self.help(*family), re.M)})
            several = words.pop(0).split("|")
            for verb in several:
                if (*family, verb) not in names:
                    yield f"there is no verb {' '.join((*family, verb))}"
                    return
            family += (several[0],)
        for option in re.findall(r"(?<!\w)--[a-z][\w-]*", " ".join(words)):
            if option not in self.help(*family):
                yield f"{' '.join(family)} has no {option}"


def run_page(page, found, home, env):
    """Run the commands of a page in one shell; returns its complaints."""
    script = ["set -e", textwrap.dedent(START.get(page, "")), "set +e"]
    for number, command in found:
        want = next((code for start, code in EXIT.items() if command.startswith(start)), 0)
        before = [text for (name, start), text in BEFORE.items() if name == page and command.startswith(start)]
        script += [textwrap.dedent(text) for text in before]
        script.append(f"""echo '$ line {number}' >&2
            {command}
            code=$?; [ $code = {want} ] || echo "FAULT line {number}: exit code $code" """)
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=home, env=env, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    faults = re.findall(r"^FAULT (.*)$", done.stdout, re.M)
    if done.returncode and not faults:
        faults = [f"the commands before those of the page: exit code {done.returncode}"]
    return [f"{page}: {fault}" for fault in faults] + ([done.stdout] if faults else [])


def git(folder, *words):
    """The lines that git prints; a system without git has none."""
    if not shutil.which("git"):
        return []
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def expect_no_gpu(tutti):
    """A build with CUDA on a machine without a GPU: doctor has this one problem."""
    done = subprocess.run([tutti, "doctor"], capture_output=True, text=True, timeout=60)
    if "sees no GPU" in done.stdout and "\n2. " not in done.stdout:
        for command in ("tutti doctor", "srun --ntasks-per-node=4 --gpus-per-node=4 tutti doctor",
                        "mpirun -n 2 tutti doctor --json >links.json"):
            EXIT[command] = 69


class Count:
    """What was found on all pages."""

    def __init__(self):
        self.run = self.pages = self.other = self.inline = 0
        self.skipped, self.faults, self.used = [], [], set()

    def print(self):
        why = {}
        for place, command, text in self.skipped:
            why.setdefault(text, []).append(f"    {place}: {command.partition('  #')[0].strip()}")
        for text, lines in why.items():
            print(f"not run, {text}:", *lines, sep="\n")
        print("\n".join(self.faults) or
              f"{self.run} commands on {self.pages} pages run as typed; {len(self.skipped)} are not run (above); "
              f"{self.inline} within sentences have verbs and options that exist; {self.other} blocks are no commands")


def read_page(source, name, build, verbs, count):
    """(line number, command) of the commands that run."""
    text, found = (source / name).read_text(), []
    for kind, lines in blocks(text):
        if not is_command(kind, lines):
            count.other += 1
            if may_be_command(kind, lines):
                count.faults.append(f"{name}: line {lines[0][0]}: is this a command? {lines[0][1]}")
            continue
        for number, command in commands(kind, lines):
            why = reason(command, build)
            count.used |= {start for start in CANNOT if command.startswith(start)}
            if why:
                count.skipped.append((f"{name}:{number}", command, why))
                count.faults += [f"{name}: line {number}: {word}" for word in unknown_words(source, command)]
            else:
                found.append((number, command))
    sentences = set(re.findall(r"(?<!`)`(tutti [^`\n]+)`", text)) if name != "CHANGELOG.md" else ()
    for command in sorted(sentences):
        count.inline += 1
        count.faults += [f"{name}: `{command}`: {word}" for word in verbs.unknown(command)]
    return found


def pages_of(source):
    pages = [*source.glob("examples/*/README.md"), *source.glob("*.md"), *source.glob("docs/*.md"),
             *source.glob("tests/*/README.md"), *source.glob("*/*.md")]
    names = {str(page.relative_to(source)) for page in pages}
    return sorted((name for name in names if not name.startswith(("build", "out"))),
                  key=lambda name: (not name.startswith("examples/"), name))


def main(source, tutti, *mpirun):
    expect_no_gpu(tutti)
    source, count, build = pathlib.Path(source), Count(), pathlib.Path(tutti).resolve().parent
    verbs = Verbs(tutti)
    with tempfile.TemporaryDirectory() as work:
        home, stubs = pathlib.Path(work) / "home", pathlib.Path(work) / "stubs"
        stubs.mkdir()
        for name, text in STUBS.items():
            (stubs / name).write_text(f"#!/bin/bash\n{text}\n")
            (stubs / name).chmod(0o755)
        for folder in ("examples", "slurm", "docs"):
            shutil.copytree(source / folder, home / folder)
        for job in home.glob("examples/*/*.yaml"):  # an ensemble may have epochs of its own
            short = re.sub(r"\bepochs: \d+", "epochs: 2", job.read_text())
            job.write_text(re.sub(r"\bmembers: \d+", "members: 3", short))
        for made in (home / "examples/profiles/profiles.py", home / "examples/resnet/shapes.py"):
            made.write_text(made.read_text().replace("1500", "200"))
        shutil.copy(source / "README.md", home)
        shutil.copy(source / ".gitignore", home)
        git(home, "init")
        git(home, "add", ".")
        (home / "build").symlink_to(build)
        (home / "script").symlink_to(source / "script")
        env = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "TUTTI": tutti, "EDITOR": "true",
               "TUTTI_MPIRUN": " ".join([shutil.which(mpirun[0]), *mpirun[1:]])}
        for name in pages_of(source):
            found = read_page(source, name, build, verbs, count)
            count.run += len(found)
            count.pages += bool(found)
            if not found:
                continue
            place = home
            if not name.startswith("examples/"):
                place = pathlib.Path(work) / name
                shutil.copytree(home, place, symlinks=True)
            count.faults += run_page(name, found, place, env)
        written = git(home, "status", "--porcelain", "examples")
        count.faults += [f".gitignore: the examples leave {line[3:]}" for line in written if line.startswith("??")]
    count.faults += [f"CANNOT: no page has a command that starts with '{start}'"
                     for start in CANNOT.keys() - count.used]
    count.print()
    return bool(count.faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
