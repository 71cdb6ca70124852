"""Every --help exits with 0 and fits into 80 columns; the error of an unknown
verb suggests the nearest one."""
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import TUTTI, test, tutti


def call(*words, code=0):
    said = tutti(*words, code=code)
    for line in said.out.splitlines():
        assert len(line) <= 80, f"{words}: {len(line)} columns: {line}"
    return said


def verbs(*family):
    rows = re.findall(r"^  (\w+) (\S*).*$", call(*family, "--help").out, re.M)
    assert len(rows) > 3, rows
    for verb, files in rows:
        if files == "VERB":
            verbs(*family, verb)
        else:
            text = call(*family, verb, "--help").out
            assert call(*family, verb, "-h").out == call("help", *family, verb).out == text, verb
            assert text.startswith(f"Usage: tutti {' '.join(family + (verb,))} [OPTION...] {files}"), text
            if files and not files.startswith("["):
                call(*family, verb, code=64)


def check_full_device():
    """Output to a full device is an error, also where the text is printed at exit."""
    for words in (["--help"], ["train", "--help"], ["--version"], ["options"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, *words], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 74, f"{words} to /dev/full: exit {done.returncode}"
        assert done.stderr == "tutti: error: standard output cannot be written: No space left on device\n", done.stderr


def on_terminal(**settings):
    """What a wrong job file writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "SLURM_PROCID")}
    subprocess.run([TUTTI, "plan", "nowhere.yaml"], stderr=theirs, env={**env, "TERM": "xterm", **settings})
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    return text


def check_color():
    """Colors only on terminals, and not with NO_COLOR."""
    plain = call("plan", "nowhere.yaml", code=66).err
    assert plain.startswith("tutti: error: ") and "nowhere.yaml" in plain, plain
    assert on_terminal().replace("\r", "") == plain.replace("error: ", "\33[1;31merror: \33[0m", 1)
    assert on_terminal(NO_COLOR="1").replace("\r", "") == plain
    assert on_terminal(TERM="dumb").replace("\r", "") == plain


def main():
    verbs()
    check_color()
    assert "did you mean 'train'?" in call("trian", code=64).err
    assert "did you mean 'pause'?" in call("campaign", "puase", code=64).err
    assert "did you mean 'tutti status'?" in call("campaign", "status", "out", code=64).err
    assert "did you mean" not in call("xyzzy", code=64).err
    assert call("help", "slurm").out == call("slurm", "-h").out == call("slurm", "--help").out
    assert "did you mean 'train'?" in call("help", "trian", code=64).err
    assert call("help", "train.loss").out == call("options", "loss").out
    assert re.findall(r"^  (\S+)", call("options", "data.split").out, re.M)[:2] == ["data.split.train",
                                                                                "data.split.validation"]
    assert "did you mean 'train.loss'?" in call("help", "train.los", code=64).err
    call("options", "loss", "--markdown", code=64)
    assert " ".join(call("options").out.split()).count("loss function to minimize") == 1
    call(code=64)
    call("slurm", code=64)
    call("train", "job.yaml", "--resume", "perhaps", code=64)
    assert "unexpected argument '3'" in call("train", "job.yaml", "--set", "train.epochs", "3", code=64).err
    call("plan", "job.yaml", "--ranks", "0", code=64)
    call("predict", "model.h5", "data.h5", "--quantiles", "0.1;0.9", code=64)
    check_full_device()


test(main)
