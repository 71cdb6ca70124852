#!/usr/bin/python3
"""What train, campaign and watch show on a terminal of 80 columns, alone and behind mpirun.

No line but those of the log is longer than the terminal, so that it wraps nothing else; the rows of a
table stand below each other, with no line of another rank or of the log between them. The terminal is tmux, where it is installed; otherwise a simulated one: carriage return, erase to the
end of the line, clear. --record writes the screens of tmux to a file.
"""
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import launcher, test, tutti, TUTTI

COLUMNS = 80
record = sys.argv[1:2] == ["--record"] and os.path.abspath(sys.argv[2])
JOB = """\
data: {file: samples.csv, split: {train: 0.6, validation: 0.2, test: 0.2}}
model: {hidden: [4]}
ensembles: [{name: a_first_ensemble_with_a_long_name, target: y0, members: 3}, {name: two, target: y1, members: 2}]
train: {epochs: 40}
run: {device: cpu, directory: out}
"""
SETTINGS = ["--set", "train.epochs=5", "--set", "stop.rounds=2", "--set", "run.device=cpu"]
TMUX = """\
set -g remain-on-exit on
set -g history-limit 100000
set -g status off
"""


class Simulated:
    """A terminal that understands what tutti writes to one."""

    def __init__(self, command):
        ours, theirs = pty.openpty()
        subprocess.run(["stty", "columns", str(COLUMNS)], stdin=theirs, check=True)
        self.child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs,
                                      env={**os.environ, "TERM": "xterm", "COLUMNS": str(COLUMNS)})
        os.close(theirs)
        self.ours, self.text = ours, ""

    def read(self):
        """False at the end of the terminal."""
        try:
            piece = os.read(self.ours, 65536).decode()
        except OSError:
            piece = ""
        self.text += piece
        return bool(piece)

    def wait_for(self, words):
        while words not in self.text and self.read():
            pass

    def wait(self):
        while self.read():
            pass
        os.close(self.ours)
        return self.child.wait()

    def lines(self):
        """All lines, with those that have scrolled away."""
        lines, column = [""], 0
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", self.text):
            if piece == "\n":
                lines.append("")
            elif piece == "\r":
                column = 0
            elif piece == "\x1b[K":
                lines[-1] = lines[-1][:column]
            elif piece == "\x1b[2J":
                lines, column = [*lines, ""], 0
            elif piece.startswith("\x1b"):
                assert piece == "\x1b[H" or piece.endswith("m"), repr(piece)
            else:
                line = lines[-1].ljust(column)
                lines[-1] = line[:column] + piece + line[column + 1:]
                column += 1
        return lines


class Tmux:
    """A command in a session of tmux of its own."""

    socket = f"tutti-{os.getpid()}"
    count = 0

    def __init__(self, command):
        Tmux.count += 1
        self.name = f"s{Tmux.count}"
        pathlib.Path("tmux.conf").write_text(TMUX)
        self.ask("-f", "tmux.conf", "new-session", "-d", "-x", str(COLUMNS), "-y", "24", "-s", self.name,
                 shlex.join(command) + f"; echo $? >{self.name}.new; mv {self.name}.new {self.name}.code")

    @classmethod
    def ask(cls, *words):
        done = subprocess.run(["tmux", "-L", cls.socket, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def screen(self, *history):
        """Lines of the screen; -J joins what the terminal has wrapped."""
        text = self.ask("capture-pane", "-p", "-J", *history, "-t", self.name)
        lines = [line.rstrip() for line in text.split("\n")]
        return [line for line in lines if not line.startswith("Pane is dead")]

    def until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "\n".join(self.screen())
            time.sleep(0.02)

    def status(self):
        """The exit code; None until the command has ended and tmux has read its output."""
        code = pathlib.Path(self.name + ".code")
        dead = code.exists() and self.ask("list-panes", "-t", self.name, "-F", "#{pane_dead}").strip() == "1"
        return int(code.read_text()) if dead else None

    def wait_for(self, words):
        self.until(lambda: any(words in line for line in self.screen("-S", "-")) or self.status() is not None)

    def wait(self):
        self.until(lambda: self.status() is not None)
        return self.status()

    def lines(self):
        return self.screen("-S", "-")

    @classmethod
    def end(cls):
        subprocess.run(["tmux", "-L", cls.socket, "kill-server"], capture_output=True)


class Screens:
    """Runs commands on terminals, checks their lines, and keeps them."""

    def __init__(self):
        self.kind, self.kept = Tmux if shutil.which("tmux") else Simulated, []

    def keep(self, command, lines, note=""):
        while lines and not lines[-1]:
            lines = lines[:-1]
        words = " ".join(command).replace(TUTTI, "tutti")
        typed = textwrap.fill("$ " + words, COLUMNS - 2, subsequent_indent="      ", break_on_hyphens=False)
        text = "\n".join(lines).replace(TUTTI, "tutti").replace(os.getcwd(), "/home/you")
        self.kept.append(typed.replace("\n", " \\\n") + note + "\n" + text)
        for line in lines:
            assert len(line) <= COLUMNS or line.startswith("tutti: "), f"{words}: wraps: {line}"
        return lines

    def show(self, *command, code=0):
        """All lines of a command, checked."""
        terminal = self.kind(command)
        got = terminal.wait()
        lines = self.keep(command, terminal.lines())
        assert got == code, f"{command}: {got}\n" + "\n".join(lines)
        return lines


def table(lines, first, last):
    """The lines from the first to the last pattern, each once, in one piece."""
    at = [i for i, line in enumerate(lines) if re.match(first, line)]
    end = [i for i, line in enumerate(lines) if re.match(last, line) and at and i > at[0]]
    assert len(at) == 1 and end, (first, last, lines)
    rows = lines[at[0]:end[-1] + 1]
    assert not [row for row in rows if row.startswith("tutti")], rows
    return rows


def check_train(screens, launch):
    lines = screens.show(*launch, TUTTI, "train", "job.yaml", "--resume", "never")
    rows = table(lines, "a_first_ensemble_with_a_long_name: y0", r".* error corr\s")
    assert any(row.startswith("two: y1") for row in rows), rows
    progress = [line for line in lines if "epoch 40/40, loss " in line]
    assert len(progress) == 1, lines
    start = " ".join(line.strip() for line in lines)
    assert re.search(r"tutti: 5 members in 2 ensembles, .* CPU, ", start), lines


def check_campaign(screens, launch):
    directory = f"campaign{len(launch)}"
    lines = screens.show(*launch, TUTTI, "campaign", "run", "c/campaign.yaml", *SETTINGS, "--set",
                         f"campaign.directory={directory}")
    assert any("round 3" in line for line in lines), lines
    for verb in ("watch", "status"):
        screens.show(TUTTI, verb, f"c/{directory}")


def check_watch(screens):
    """The state of a run while it trains, until it ends."""
    train = subprocess.Popen([TUTTI, "train", "job.yaml", "-q", "--set", "run.directory=long", "--set",
                              "train.epochs=1000000", "--set", "train.batch_size=1"], stderr=subprocess.DEVNULL)
    while train.poll() is None and not os.path.exists("long/status.json"):
        time.sleep(0.01)
    command = [TUTTI, "watch", "long"]
    watch = screens.kind(command)
    watch.wait_for("member-steps/s")
    screens.keep(command, watch.lines(), "        (after a moment)")
    train.send_signal(signal.SIGTERM)
    assert train.wait(timeout=60) == 75
    assert watch.wait() == 0
    lines = screens.keep(command, watch.lines(), "        (at its end)")
    assert any(re.match(r"state\s+stopped", line) for line in lines), lines


def check_all(screens):
    rows = "\n".join(f"{i % 7},{i % 5},{(i * i) % 11},{i % 3}" for i in range(60))
    pathlib.Path("samples.csv").write_text("a,b,y0,y1\n" + rows + "\n")
    pathlib.Path("job.yaml").write_text(JOB)
    tutti("campaign", "init", "c")
    for launch in (launcher(0), launcher(2)):
        check_train(screens, launch)
        check_campaign(screens, launch)
    check_watch(screens)
    for words in (["watch", "out"], ["status", "out"], ["plan", "job.yaml"], ["report", "out"],
                  ["info", "out/model.h5"], ["help"], ["help", "train"]):
        screens.show(TUTTI, *words)


def main():
    screens = Screens()
    if record and screens.kind is not Tmux:
        sys.exit("--record: tmux is not installed")
    try:
        check_all(screens)
    finally:
        if screens.kind is Tmux:
            Tmux.end()
    if record:
        pathlib.Path(record).write_text("\n\n".join(screens.kept) + "\n")
    name = "tmux" if screens.kind is Tmux else "a simulated terminal (tmux is not installed)"
    print(f"{len(screens.kept)} screens of {name}, {COLUMNS} columns")


test(main)
