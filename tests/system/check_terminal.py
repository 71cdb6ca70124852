#!/usr/bin/python3
"""What train, campaign and watch show on a terminal of 80 columns, alone and behind mpirun.

    check_terminal.py TUTTI MPIRUN...

A terminal is simulated: carriage return, erase to the end of the line, clear. No line is longer
than the terminal, so that it wraps nothing; the rows of a table stand below each other, with no line
of another rank or of the log between them. Behind mpirun the program does not see the terminal: long
messages wrap there, but no progress line and no row of a table.
"""
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

COLUMNS = 80
JOB = """\
data: {file: samples.csv, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: a_first_ensemble_with_a_long_name, target: y0, members: 3}, {name: two, target: y1, members: 2}]
train: {epochs: 40}
run: {device: cpu, directory: out}
"""
SETTINGS = ["--set", "train.epochs=5", "--set", "stop.rounds=2", "--set", "run.device=cpu"]


class Terminal:
    """Lines of a terminal. strict: fails if a character is written beyond the last column."""

    def __init__(self, text, strict):
        self.lines, self.column, self.strict = [""], 0, strict
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", text):
            self.put(piece)

    def put(self, piece):
        if piece == "\n":
            self.lines.append("")
        elif piece == "\r":
            self.column = 0
        elif piece == "\x1b[K":
            self.lines[-1] = self.lines[-1][:self.column]
        elif piece == "\x1b[2J":
            self.lines, self.column = [""], 0
        elif piece.startswith("\x1b"):
            assert piece == "\x1b[H" or piece.endswith("m"), repr(piece)
        else:
            line = self.lines[-1].ljust(self.column)
            assert self.column < COLUMNS or not self.strict, f"wraps: {line}{piece}..."
            self.lines[-1] = line[:self.column] + piece + line[self.column + 1:]
            self.column += 1


def show(*command, code=0):
    """The last screen of a command, with all lines that have scrolled away."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "columns", str(COLUMNS)], stdin=theirs, check=True)
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs,
                             env={**os.environ, "TERM": "xterm", "COLUMNS": str(COLUMNS)})
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the end of a terminal
            piece = b""
        if not piece:
            break
        text += piece
    os.close(ours)
    assert child.wait() == code, f"{command}: {child.returncode}\n{text.decode()}"
    return Terminal(text.decode(), strict=str(command[0]).endswith("tutti")).lines


def table(lines, first, last):
    """The lines from the first to the last pattern, each once, in one piece."""
    at = [i for i, line in enumerate(lines) if re.match(first, line)]
    end = [i for i, line in enumerate(lines) if re.match(last, line) and at and i > at[0]]
    assert len(at) == 1 and end, (first, last, lines)
    rows = lines[at[0]:end[-1] + 1]
    assert not [row for row in rows if row.startswith("tutti: ") or len(row) > COLUMNS], rows
    return rows


def check_train(tutti, launch):
    lines = show(*launch, tutti, "train", "job.yaml", "--resume", "never")
    rows = table(lines, "a_first_ensemble_with_a_long_name: y0", r".* error corr\s")
    assert any(row.startswith("two: y1") for row in rows), rows
    progress = [line for line in lines if "epoch 40/40, loss " in line]
    assert len(progress) == 1 and len(progress[0]) <= COLUMNS, lines
    if not launch:
        start = " ".join(line.strip() for line in lines)
        assert re.search(r"tutti: 5 members in 2 ensembles, .* CPU, ", start), lines


def check_campaign(tutti, launch):
    directory = f"campaign{len(launch)}"
    lines = show(*launch, tutti, "campaign", "run", "c/campaign.yaml", *SETTINGS, "--set",
                 f"campaign.directory={directory}")
    assert any("round 3" in line for line in lines), lines
    for words in (["watch"], ["status"], ["campaign", "report"]):
        lines = show(tutti, *words, f"c/{directory}")
    table(lines, r"\s*round\s+labels", r"\s*3\s+\d+")


def main(tutti, *mpirun):
    tutti = os.path.abspath(tutti)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        rows = "\n".join(f"{i % 7},{i % 5},{(i * i) % 11},{i % 3}" for i in range(60))
        pathlib.Path("samples.csv").write_text("a,b,y0,y1\n" + rows + "\n")
        pathlib.Path("job.yaml").write_text(JOB)
        subprocess.run([tutti, "campaign", "init", "c"], check=True, capture_output=True)
        for launch in ([], [*mpirun, "2"]):
            check_train(tutti, launch)
            check_campaign(tutti, launch)
        for words in (["watch", "out"], ["status", "out"], ["plan", "job.yaml"], ["report", "out"],
                      ["info", "out/model.h5"], ["help"], ["help", "train"]):
            show(tutti, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
