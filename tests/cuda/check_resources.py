#!/usr/bin/python3
"""Compare the resources of every kernel on every architecture with a table.

  check_resources.py BUILD TABLE            compare; exit 1 if something got worse, 77 without CUDA
  check_resources.py BUILD TABLE --write    write the table from the present build
  check_resources.py BUILD TABLE --control  detect one more register, a spill, a new kernel

The figures are those of ptxas, kept by cmake/keep_ptxas.sh while BUILD was compiled. A kernel may
use fewer registers than the table says, not more; it may spill 32 bytes at most; every kernel has
its line, and every line its kernel. Shared memory is the static part; the dynamic part follows from
the shape (cuda/plan/block_plan.c).
"""
import argparse
import pathlib
import re
import subprocess
import sys

MOST_SPILLED = 32  # bytes
COLUMNS = ("registers", "stack", "spill_stores", "spill_loads", "shared")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def plain_name(mangled):
    """Without namespace, result and arguments: block_train<3>."""
    text = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout
    return re.sub(r"\(\w+ const&\)$|\([^()]*\)$", "", text.strip().removeprefix("void "))


def read_build(folder):
    """{(kernel, architecture): figures}"""
    found, who, frame = {}, None, None
    for path in sorted(folder.glob("CMakeFiles/tutti_cuda*.dir/cuda/*/*.ptxas")):
        for line in path.read_text().splitlines():
            if entry := ENTRY.search(line):
                who = (plain_name(entry[1]), entry[2])
            elif match := FRAME.search(line):
                frame = tuple(int(n) for n in match.groups())
            elif (match := USED.search(line)) and who:
                found[who] = (int(match[1]), *frame, int(match[2] or 0))
                who = None
    return found


def read_table(path):
    lines = [line.split("\t") for line in path.read_text().splitlines() if line[:1] not in "#"]
    return {(words[0], words[1]): tuple(int(n) for n in words[2:]) for words in lines if words[0]}


def write_table(path, found):
    with open(path, "w") as out:
        out.write("# " + "\t".join(("kernel", "architecture") + COLUMNS) + "\n")
        for (kernel, architecture), figures in sorted(found.items()):
            out.write("\t".join((kernel, architecture, *map(str, figures))) + "\n")


def faults(found, table):
    built = {architecture for _, architecture in found}
    for who in sorted(set(found) - set(table)):
        yield f"{' on '.join(who)}: not in the table; figures {found[who]}"
    for who in sorted(set(table) - set(found)):
        if who[1] in built:
            yield f"{' on '.join(who)}: in the table, but there is no such kernel"
    for who in sorted(set(found) & set(table)):
        if found[who][0] > table[who][0]:
            yield f"{' on '.join(who)}: {found[who][0]} registers, the table has {table[who][0]}"
    for who, figures in sorted(found.items()):
        if max(figures[2:4]) > MOST_SPILLED:
            yield f"{' on '.join(who)}: spills {max(figures[2:4])} bytes, {MOST_SPILLED} are allowed"


def control(found, table):
    worse = {who: (f[0] + 1, f[1], MOST_SPILLED + 1, *f[3:]) for who, f in found.items()}
    told = list(faults(worse, {who: found[who] for who in found}))
    assert len(told) == 2 * len(found), told
    who = min(found)
    fewer = {k: f for k, f in found.items() if k != who}
    assert len(list(faults(found, fewer))) == 1 and len(list(faults(fewer, found))) == 1
    assert table, "the table is empty"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--control", action="store_true")
    args = parser.parse_args()
    found = read_build(args.build)
    if not found:
        print("skipped: built without the engine for GPUs (no nvcc)")
        sys.exit(77)
    if args.write:
        write_table(args.table, found)
        return
    if args.control:
        control(found, read_table(args.table))
        return
    wrong = list(faults(found, read_table(args.table)))
    print(f"{len(found)} kernels: " + "; ".join(
        f"at most {max(f[i] for f in found.values())} {name}" for i, name in enumerate(COLUMNS)))
    print(*wrong, sep="\n")
    if wrong:
        sys.exit(f"if that is wanted: {sys.argv[0]} {args.build} {args.table} --write")


if __name__ == "__main__":
    main()
