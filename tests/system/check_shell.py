"""The completion for bash: every verb and option of --help, and the options of a job after --set."""
import os
import pathlib
import re
import sys

TREE = pathlib.Path(__file__.rpartition("/tests/")[0])
sys.path.insert(0, str(TREE / "tests/rig"))
from rig import TUTTI, run, test, tutti

BASH = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tutti; printf '%s\\n' "${COMPREPLY[@]}" """


def verbs(*family):
    """{words of a verb or family: (its verbs, its options)} by --help."""
    rows = re.findall(r"^  (\w+) (\S*).*$", tutti(*family, "--help"), re.M)
    found = {family: ([verb for verb, _ in rows], [])}
    for verb, files in rows:
        if files == "VERB":
            found.update(verbs(*family, verb))
        else:
            text = tutti(*family, verb, "--help")
            options = re.findall(r"^ .*?(--[a-z][\w-]*)", text, re.M)
            found[*family, verb] = ([], sorted(options))
    return found


def complete(*words):
    return run("bash", "--norc", "-c", BASH, "bash", TREE / "packaging/tutti.bash", "tutti", *words).out.split()


def main():
    every = verbs()
    assert len(every) > 25, every
    pathlib.Path("tutti").symlink_to(TUTTI)
    os.environ["PATH"] = os.getcwd() + ":" + os.environ["PATH"]
    for words, (inner, options) in every.items():
        last, found = ("", inner) if inner else ("--", options)
        assert sorted(complete(*words, last)) == sorted(found), (words, complete(*words, last))
    names = [option[:-1] for option in complete("train", "--set", "")]
    for option in ("train.learning_rate", "select.batch", "run.directory"):
        assert option in names, (option, names)
    assert complete("train", "") == []


test(main)
