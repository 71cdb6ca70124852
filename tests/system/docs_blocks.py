"""What the blocks of the documentation need, and which links and names of pages are right.

Used by docs_commands.py: made-up data of the pages, jobs in pieces, output beside what a page shows.
"""
import re
import urllib.parse

import h5py
import numpy as np

CAMPAIGN = ("pool", "score", "select", "label", "stop", "campaign")
# What a piece of a job lacks.
WHOLE = {"data": "{file: energy.csv, targets: [heating_load, cooling_load]}",
         "ensembles": "[{name: a, target: heating_load}]"}
WHOLE_CAMPAIGN = {"pool": "{file: candidates.csv}", "label": "{command: [./simulate, '{input}', '{output}']}"}
# Tables that pages name: columns, and the values in them where they are not just numbers.
TABLES = {
    "table.csv": "id,a,b,strength",
    "new.csv": "a,b,strength",
    "alloys.csv": "material,furnace,te,strength",
    "shots.csv": "shot,a,b,te,ne,te_err,ne_err",
    "plants.csv": "a,b,height,species,alive,leaves",
}
VALUES = {"shot": lambda i: f"s{i}", "id": lambda i: i, "material": lambda i: ("steel", "brass")[i % 2],
          "furnace": lambda i: ("old", "new")[i // 2 % 2], "species": lambda i: i % 3,
          "alive": lambda i: i % 2, "leaves": lambda i: i % 7}


def make_data(place):
    """The made-up files of TABLES, and HDF5 files, in a directory."""
    random = np.random.default_rng(1)
    for name, columns in TABLES.items():
        names = columns.split(",")
        rows = [[VALUES.get(c, lambda i: f"{random.uniform(1, 2):.4f}")(i) for c in names] for i in range(80)]
        (place / name).write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
    energy = [line.split(",") for line in (place / "energy.csv").read_text().split()]
    (place / "candidates.csv").write_text("\n".join(",".join(row[:8]) for row in energy) + "\n")
    matrices = {"samples.h5": (3, ["flux"]), "spectra.h5": (3, None),
                "data.h5": (3, ["energy", "barrier"]), "pool.h5": (3, None), "images.h5": (3 * 64 * 64, ["kind"])}
    for name, (inputs, targets) in matrices.items():
        rows = 80 if inputs < 1000 else 10
        with h5py.File(place / name, "w") as f:
            f["x"] = random.normal(size=(rows, inputs)).astype(np.float32)
            f["y"] = random.normal(size=(rows, len(targets) if targets else 40)) if inputs < 1000 else np.arange(10) % 4
            if targets:
                f["target_name"] = np.array(targets, dtype="S10")
            f["warm_rows"], f["is_cold"] = np.arange(60, dtype=np.int64), np.ones(80, dtype=bool)
    for program in ("simulate", "propose.py", "label.sh"):
        if not (place / program).exists():
            (place / program).write_text("#!/bin/sh\n")
            (place / program).chmod(0o755)


def whole_job(text):
    """A job with the sections that a piece of one lacks."""
    has = set(re.findall(r"^(\w+):", text, re.M))
    need = dict(WHOLE, **(WHOLE_CAMPAIGN if has & set(CAMPAIGN) else {}))
    return text + "\n" + "".join(f"{name}: {value}\n" for name, value in need.items() if name not in has)


def is_as_shown(shown, printed):
    """Is this what a page shows? `...` stands for anything, also for several lines."""
    pattern, text = ("\n".join(" ".join(line.split()) for line in lines) for lines in (shown, printed.splitlines()))
    pattern = re.escape(pattern).replace(r"\.\.\.", ".*")
    return re.fullmatch(re.sub(r"\\\n\.\*$", r"(\n.*)?", pattern), text, re.S)


def anchors(text):
    """Names of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def bad_links(source, pages):
    """Links of the pages to files or headings that are not there."""
    for name in pages:
        text = re.sub(r"^```.*?^```", "", (source / name).read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = (source / name).parent / path if path else source / name
            if "://" in link:
                continue
            if not target.exists():
                yield f"{name}: there is no {link}"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                yield f"{name}: there is no heading {link}"


def bad_names(source):
    """Names of pages in messages and comments of the program that are not there."""
    folders = ("core", "src", "io", "cuda", "mpi", "slurm", "python", "bench", "tests", "examples", "script")
    for path in (p for folder in folders for p in (source / folder).rglob("*") if p.suffix in SOURCES):
        text = path.read_text(errors="replace")
        for name in set(re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md", text)):
            if not (source / name).exists():
                yield f"{path.relative_to(source)} names {name}, which is not there"


def bad_messages(source):
    """Messages in the first table of the page on problems that the program does not have."""
    text = "".join(p.read_text(errors="replace") for folder in ("core", "src", "io", "mpi", "cuda", "python")
                   for p in (source / folder).rglob("*") if p.suffix in SOURCES)
    said = re.sub(r"""["']\s*f?["']|\s+""", lambda part: " " if part[0].isspace() else "", text)
    table = (source / "docs/troubleshooting.md").read_text().split("\n## ")[1]
    for cell in re.findall(r"^\| ([^|]*`[^|]*)\|", table, re.M):
        for message in re.findall(r"`([^`]+)`", cell) if "(" not in cell else ():
            if message not in said:
                yield f"docs/troubleshooting.md: no message says '{message}'"


SOURCES = {".c", ".h", ".def", ".cu", ".cuh", ".hpp", ".f90", ".py", ".yaml", ".sbatch", ".sh"}
