#!/usr/bin/python3
"""Do the commands of the documentation run as they are typed there?

    docs_commands.py SOURCE TUTTI MPIRUN

Commands are the indented blocks and the sh and console blocks of the Markdown pages whose first word
is a program; of a console block also the output is compared. A job (yaml) is planned, Python code runs.
Each page runs in one shell: the examples first, the other pages in a copy of what these leave.
Programs of these names are put before the others: tutti trains for two epochs and two rounds, srun runs
the command once, sbatch prints a job number. The jobs of examples/ get two epochs and three members
too, and profiles.py makes fewer rows. What the commands of examples/ write is in .gitignore.
Commands that cannot run here are in CANNOT, blocks in ELSEWHERE, with the reason; the files, options
and targets that they name must exist. A block of another kind is a fault, and so are a command of tutti
within a sentence that has an unknown verb or option, a link that leads nowhere, and the name of a page
in the sources that is not there. The output counts all of them.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import docs_blocks

PROGRAMS = re.compile(r"(\./|script/|bench/|build/|tests/cuda/|(tutti|mpirun|srun|sbatch|cmake|ctest|cp|cd|rm|cc|c\+\+|"
                      r"gfortran|tar|patch|pip|module|python3|export|echo|for|nvidia-cuda-mps-control|"
                      r"[A-Z_]+=\S+ \w+|\w+=\$\(sbatch)(?![\w:]))")
SHELL = {"sh", "console", "text", "bash", None, ""}  # kinds of blocks that may have commands
# (page, kind of a block) -> the test that runs such blocks instead.
ELSEWHERE = {
    **dict.fromkeys((("README.md", "python"), ("python/README.md", "python"), ("docs/python.md", "python")), "python.docs runs it"),
    **dict.fromkeys((("docs/trainer.md", kind) for kind in ("c", "cpp", "fortran", "python")),
                    "embedding.c, .cpp, .fortran and python.docs run it"),
    ("docs/embedding.md", "c"): "system.install_client compiles and runs it",
    **dict.fromkeys((("docs/embedding.md", kind) for kind in ("cpp", "fortran")),
                    "a piece; system.install_client runs the whole programs of examples/embed"),
    ("docs/embedding.md", "python"): "embedding.export runs the exported files, where torch and onnxruntime are",
    ("docs/first-model.md", "c"): "a command of the page compiles and runs it",
    **dict.fromkeys((("docs/oracle.md", kind) for kind in ("python", "sh")), "the commands before those of the page run it"),
    ("slurm/README.md", "sh"): "the head of a batch script, without its call",
}
WORDS = {"export", "set", "if", "while", "for", "source", "."}  # of a shell, that are no files
CANNOT = {  # start of a command -> why it cannot run here, and what runs the same elsewhere
    "script/demo": "installs packages, builds, trains for a minute",
    "script/test": "this test is a part of it",
    "script/fuzz": "runs for hours",
    "script/mutate": "runs for hours",
    "script/torture": "runs for an hour",
    "script/tsan": "builds with another sanitizer",
    "script/docs": "installs mkdocs",
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
    "pack/bench/gpu": "needs the archive of bench/pack",
    "patch ": "changes the tree; rows.add_one_of_each applies all patches",
    "pip install": "needs a network; python.package builds the wheel and uses it",
    "module ": "needs a cluster",
    "tutti tune": "trains for minutes",
    "./person.sh": "opens an editor",
    "TUTTI_BUILD=": "needs a network; python.package builds the wheel and uses it",
    "for s in": "five trainings of the job that runs above",
    "nvidia-cuda-mps-control": "needs a GPU",
    "echo quit | nvidia-cuda-mps-control": "needs a GPU",
    **dict.fromkeys(("gfortran ", "./time_loop", "c++ ", "./optimize", "cc predict.c", "./predict", "mpicc online.c",
                     "mpirun -n 2 ./online", "./online"),
                    "needs an installed tutti; system.install_client runs it as typed"),
    **dict.fromkeys(("cc -O2 cluster.c", "./cluster"), "needs an installed tutti; system.exploration_example runs it"),
}
DEBUGGING = "docs/internals/debugging.md"  # debuggers, faults on purpose, other builds: its commands are not run
EXIT = {}  # start of a command -> exit code other than 0
# Files of the examples in the directory of every other page, and commands before those of a page.
COMMON = "cp examples/energy/{energy.csv,energy.h5,*.yaml} examples/digits/digits.csv examples/concrete/concrete.csv ."
TRAINED = "cp -r examples/energy/out ."
START = {
    "docs/first-model.md": """
        yaml docs/first-model.md >job.yaml
        block text docs/first-model.md >people.csv
        block c docs/first-model.md >load.c""",
    "docs/report.md": """
        cp -r examples/energy/out examples/active-learning/campaign .
        cp -r examples/active-learning/random baseline""",
    "docs/embedding.md": TRAINED,
    "docs/files.md": TRAINED,
    "docs/json.md": TRAINED,
    "docs/fine-tuning.md": "tutti train new.csv --targets strength -o old -q",
    "docs/uncertainty.md": """
        tutti train digits.csv --targets digit --classes digit -o digits -q
        tutti predict digits/model.h5 digits.csv -o pred.h5""",
    # The wrapper labels, and its program fails in round 2, until it is repaired; then the Python program.
    "docs/oracle.md": r"""
        tutti campaign init .
        block sh docs/oracle.md >label.sh
        block python docs/oracle.md >label.py
        chmod +x label.sh label.py
        export HOME=$PWD
        mkdir bin
        printf '%s\n' '#!/bin/sh' 'case $PWD in */round-0002/*) test -e ~/repaired || exit 65 ;; esac' 'echo 0.5,1' >bin/simulate
        chmod +x bin/simulate
        sed -i 's|mode: hidden.*|{mode: command, command: [./label.sh, "{input}", "{output}"], format: csv}|
            s|^  max_failed.*||; s|^  labels: .*||; s|batch: [0-9]*|batch: 3|' campaign.yaml
        tutti campaign run campaign.yaml || test $? = 76
        touch repaired
        tutti campaign run campaign.yaml --set campaign.directory=python --set label.format=hdf5 --set label.rows_per_call=10 \
          --set "label.command=[./label.py, '{input}', '{output}']" || exit 1""",
    "slurm/README.md": "tutti campaign init .",
}
# (page, start of a command) -> commands before this one: what the text before it describes.
BEFORE = {
    ("docs/uncertainty.md", "tutti weigh"): TRAINED + """
        printf '%s\\n' member,score 0,0.3 1,0.2 2,0.25 3,0.4 4,0.3 5,inf >scores.csv""",
    ("docs/oracle.md", "tutti ask"): """
        rm -r campaign
        tutti campaign run campaign.yaml --set label.mode=ask --set label.max_wait=0s || test $? = 75""",
    ("docs/oracle.md", "tutti tell"): "sed '1s/.*/id,height/; 2,$s/,.*/,0.5/' points.csv >measured.csv",
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
    "block": "awk -v kind=$1 '/^```/ { if (on) exit; on = $0 == \"```\" kind; next } on' \"$2\"",  # the first one
    "yaml": 'block yaml "$1"',
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
    """(line number, command, lines of output or None) of each command of a block, in one line. Of a
    console block the commands are behind $, and what follows is their output."""
    found = []
    for number, line in lines:
        if kind == "console" and not line.startswith("$ "):
            found[-1][2].append(line)
            continue
        line = line[2:] if kind == "console" else line
        last = found[-1][1] if found else ""
        if last.endswith("\\"):
            found[-1][1] = last[:-1] + line.strip()
        elif last.startswith("for ") and not last.endswith("done"):
            found[-1][1] = last + (" " if last.endswith(" do") else "; ") + line.strip()
        elif line.strip() and not line.startswith("#"):
            found.append([number, line, [] if kind == "console" else None])
    return [(number, command, shown or None) for number, command, shown in found]


def is_command(kind, lines):
    if lines[0][1].startswith("#!"):  # a file
        return False
    first = next((line for _, line in lines if line.strip() and not line.startswith("#")), "").removeprefix("$ ")
    return kind in SHELL and bool(PROGRAMS.match(first))


def as_command(page, kind, lines):
    """(line number, command, None, text of its file) of a job or of Python code; or why it is not run."""
    text, number = "\n".join(line for _, line in lines) + "\n", lines[0][0]
    if (page, kind) in ELSEWHERE:
        return ELSEWHERE[page, kind]
    if kind == "yaml":
        return (number, f"tutti plan block-{number}.yaml", None, docs_blocks.whole_job(text))
    if kind == "python":
        names = re.findall(r"^(?:import|from) (\w+)", text, re.M)
        missing = [name for name in names if not importlib.util.find_spec(name)]
        return f"{missing[0]} is missing" if missing else (number, f"python3 block-{number}.py", None, text)
    return "no program: a file, a formula or a picture of what is printed" if kind == "text" else None


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
    for number, command, shown, *text in found:
        if text:
            (home / command.split()[-1]).write_text(text[0])
            command = command.replace(" block-", f" {home}/block-")
        want = next((code for start, code in EXIT.items() if command.startswith(start)), 0)
        before = [text for (name, start), text in BEFORE.items() if name == page and command.startswith(start)]
        script += [textwrap.dedent(text) for text in before]
        output = f">{home}/shown-{number} 2>&1" if shown else ""
        script.append(f"""echo '$ line {number}' >&2
            {{ {command}
            }} {output}
            code=$?; [ $code = {want} ] || echo "FAULT line {number}: exit code $code" """)
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=home, env=env, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    faults = re.findall(r"^FAULT (.*)$", done.stdout, re.M)
    if done.returncode and not faults:
        faults = [f"the commands before those of the page: exit code {done.returncode}"]
    for number, _, shown, *_ in found:
        printed = (home / f"shown-{number}").read_text() if shown and not faults else ""
        printed = re.sub(r"^tutti: computing on the CPU: .*\n", "", printed, flags=re.M)  # no GPU here
        if printed and not docs_blocks.is_as_shown(shown, printed):
            faults.append(f"line {number}: it printed\n{printed}")
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
                        "mpirun -n 2 tutti doctor"):
            EXIT[command] = 69


class Count:
    """What was found on all pages."""

    def __init__(self):
        self.run = self.pages = self.blocks = self.inline = self.compared = 0
        self.skipped, self.faults, self.used = [], [], set()

    def add_block(self, name, kind, lines, found):
        """A block without commands: a job, code, or a text."""
        made = as_command(name, kind, lines)
        if isinstance(made, tuple):
            found.append(made)
        elif made:
            self.skipped.append((f"{name}:{lines[0][0]}", f"({kind}) {lines[0][1]}", made))
        else:
            self.faults.append(f"{name}: line {lines[0][0]}: a block of kind {kind} that nobody runs: {lines[0][1]}")

    def print(self):
        why = {}
        for place, command, text in self.skipped:
            why.setdefault(text, []).append(f"    {place}: {command.partition('  #')[0].strip()}")
        for text, lines in why.items():
            print(f"not run, {text}:", *lines, sep="\n")
        print("\n".join(self.faults) or
              f"{self.blocks} blocks on {self.pages} pages: {self.run} commands, jobs and programs run as they stand, "
              f"the output of {self.compared} is as shown; {len(self.skipped)} are not run (above); "
              f"{self.inline} commands within sentences have verbs and options that exist")


def read_page(source, name, build, verbs, count):
    """(line number, command, lines of output or None, text of a file if it is a block) of what runs."""
    text, found = (source / name).read_text(), []
    for kind, lines in blocks(text):
        count.blocks += 1
        if not is_command(kind, lines):
            count.add_block(name, kind, lines, found)
            continue
        for number, command, shown in commands(kind, lines):
            why = reason(command, build)
            count.used |= {start for start in CANNOT if command.startswith(start)}
            if why:
                count.skipped.append((f"{name}:{number}", command, why))
                count.faults += [f"{name}: line {number}: {word}" for word in unknown_words(source, command)]
            else:
                found.append((number, command, shown))
    sentences = set(re.findall(r"(?<!`)`(tutti [^`\n]+)`", text)) if name != "CHANGELOG.md" else ()
    for command in sorted(sentences):
        count.inline += 1
        count.faults += [f"{name}: `{command}`: {word}" for word in verbs.unknown(command)]
    return found


def pages_of(source):
    pages = [*source.glob("examples/*/README.md"), *source.glob("*.md"), *source.glob("docs/*/*.md"),
             *source.glob("tests/*/README.md"), *source.glob("*/*.md")]
    names = {str(page.relative_to(source)) for page in pages}
    return sorted((name for name in names - {DEBUGGING} if not name.startswith(("build", "out"))),
                  key=lambda name: (not name.startswith("examples/"), name))


def main(source, tutti, *mpirun):
    expect_no_gpu(tutti)
    source, count, build = pathlib.Path(source).resolve(), Count(), pathlib.Path(tutti).resolve().parent
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
            count.compared += sum(bool(shown) for _, _, shown, *_ in found)
            count.pages += 1
            if not found:
                continue
            place = home
            if not name.startswith("examples/"):
                place = pathlib.Path(work) / name
                shutil.copytree(home, place, symlinks=True)
                if not (made := pathlib.Path(work) / "made").exists():  # after the examples
                    shutil.copytree(home / "examples", made / "examples")
                    subprocess.run(["bash", "-ec", COMMON], cwd=made, check=True)
                    docs_blocks.make_data(made)
                    shutil.rmtree(made / "examples")
                shutil.copytree(made, place, dirs_exist_ok=True)
            count.faults += run_page(name, found, place, env)
        count.faults += [*docs_blocks.bad_links(source, [*pages_of(source), DEBUGGING]), *docs_blocks.bad_names(source),
                         *docs_blocks.bad_messages(source)]
        written = git(home, "status", "--porcelain", "examples")
        count.faults += [f".gitignore: the examples leave {line[3:]}" for line in written if line.startswith("??")]
    count.faults += [f"CANNOT: no page has a command that starts with '{start}'"
                     for start in CANNOT.keys() - count.used]
    count.print()
    return bool(count.faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
