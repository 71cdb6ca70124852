"""Manual pages and completions: every verb and option of --help is in its page
and is completed in bash and zsh; mandoc finds no fault in a page. What is not installed here (mandoc,
zsh) is named and left out."""
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import run, test, tutti

ESCAPES = (("\\(ga", "`"), ("\\(aq", "'"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\-", "-"), ("\\&", ""),
           ("\\e", "\\"))
BASH = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tutti; printf '%s\\n' "${COMPREPLY[@]}" """
ZSH = """compdef() { :; }; _describe() { print -l -- ${(P)2%%:*}; }; _files() { print FILES; }
compadd() { print -l -- ${@:4}; }
source "$1"; shift; words=("$@"); CURRENT=$#; PREFIX=${words[-1]}; _tutti"""


def verbs(*family):
    """{words of a verb or family: (its verbs, its options)} by --help."""
    rows = re.findall(r"^  (\w+) (\S*).*$", tutti(*family, "--help"), re.M)
    found = {family: ([verb for verb, _ in rows], [])}
    for verb, files in rows:
        if files == "VERB":
            found.update(verbs(*family, verb))
        else:
            text = tutti(*family, verb, "--help")
            options = set(re.findall(r"^ .*?(--[a-z][\w-]*)", text, re.M)) - {"--usage"}
            found[*family, verb] = ([], sorted(options))
    return found


def check_pages(found):
    tutti("man", "man1")
    assert len(os.listdir("man1")) == len(found), os.listdir("man1")
    for words, (inner, options) in found.items():
        page = pathlib.Path("man1", "-".join(("tutti",) + words) + ".1").read_text()
        name = " ".join(("tutti",) + words)
        for verb in inner:
            assert re.search(rf"^  {verb} ", page, re.M), (words, verb)
        assert all(option.replace("-", r"\-") in page for option in options if option != "--help"), words
        text = re.sub(r"^.* --(help|usage) .*\n", "", tutti(*words, "--help"), flags=re.M)
        text = text.replace(" \n", "\n")
        shown = page.split(".Bd -literal\n")[1].split(".Ed\n")[0]
        for code, character in ESCAPES:
            shown = shown.replace(code, character)
        assert shown == text, (name, shown, text)
        assert "\n75  stopped before the end" in page and ".Dd January 2, 1970\n" in page, words
    if not shutil.which("mandoc"):
        return print("not checked: mandoc is missing")
    lint = run("mandoc", "-T", "lint", *pathlib.Path("man1").iterdir(), code=tuple(range(7))).out.splitlines()
    faults = [line for line in lint if "referenced manual not found: Xr tutti" not in line]
    assert not faults, faults


def check_completion(found, shell, script):
    if not shutil.which(shell):
        return print(f"not checked: {shell} is missing")
    name = f"{shell}.script"
    pathlib.Path(name).write_text(tutti("completion", shell))

    def complete(*words):
        flags = ["--norc"] if shell == "bash" else ["-f"]
        return run(shell, *flags, "-c", script, shell, name, "tutti", *words).out.split()

    for words, (inner, options) in found.items():
        if inner:
            assert complete(*words, "") == inner, (shell, words, complete(*words, ""))
        else:
            assert sorted(complete(*words, "--")) == options, (shell, words, complete(*words, "--"))
    names = [option[:-1] for option in complete("train", "--set", "")]
    for option in ("train.learning_rate", "select.batch", "run.directory"):
        assert option in names, (shell, option, names)
    assert complete("train", "") == ([] if shell == "bash" else ["FILES"])


def main():
    os.environ["SOURCE_DATE_EPOCH"] = "86400"
    every = verbs()
    assert len(every) > 25, every
    check_pages(every)
    check_completion(every, "bash", BASH)
    check_completion(every, "zsh", ZSH)
    tutti("completion", "fish", code=64)
    pathlib.Path("file").touch()
    tutti("man", "file", code=73)


test(main)
