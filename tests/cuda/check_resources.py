#!/usr/bin/python3
"""Compare the resources of every kernel on every architecture with a table.

  check_resources.py BUILD TABLE            compare; exit 1 if something got worse, 77 without CUDA
  check_resources.py BUILD TABLE --write    replace the architectures of this build in the table
  check_resources.py BUILD TABLE --control  detect one more register, more spills, a new kernel

The figures are those of ptxas, kept by cmake/keep_ptxas.sh while BUILD was compiled. A kernel may
use fewer registers, and spill less, than the table says, not more, and 32 bytes at most; every kernel has
its line, and every line its kernel. Shared memory is the static part; the dynamic part follows from
the shape (cuda/plan/block_plan.c).

Only architectures that are both in the build and in the table are compared; if there are none, the
check fails. The table belongs to one version of nvcc: a build with another one is checked for
spills only.
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


def read_toolkit(folder):
    """Version of nvcc of a build: "13.0"."""
    for path in folder.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        if match := re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', path.read_text()):
            return match[1]
    sys.exit(f"no version of nvcc in {folder}/CMakeFiles/*/CMakeCUDACompiler.cmake")


def read_table(path):
    """The version of nvcc, and {(kernel, architecture): figures}."""
    first, *lines = path.read_text().splitlines()
    words = [line.split("\t") for line in lines if line[:1] not in "#"]
    return first.removeprefix("# nvcc "), {(w[0], w[1]): tuple(int(n) for n in w[2:]) for w in words}


def write_table(path, toolkit, found):
    with open(path, "w") as out:
        out.write(f"# nvcc {toolkit}\n")
        out.write("# " + "\t".join(("kernel", "architecture") + COLUMNS) + "\n")
        for (kernel, architecture), figures in sorted(found.items()):
            out.write("\t".join((kernel, architecture, *map(str, figures))) + "\n")


def architectures(figures):
    return {architecture for _, architecture in figures}


def only(figures, wanted):
    """The figures of some architectures."""
    return {who: f for who, f in figures.items() if who[1] in wanted}


def spills(found):
    for who, figures in sorted(found.items()):
        if max(figures[2:4]) > MOST_SPILLED:
            yield f"{' on '.join(who)}: spills {max(figures[2:4])} bytes, {MOST_SPILLED} are allowed"


def faults(found, table):
    both = architectures(found) & architectures(table)
    if not both:
        yield (f"no architecture to compare: the build has {names(architectures(found))}, "
               f"the table {names(architectures(table))}")
    found, table = only(found, both), only(table, both)
    for who in sorted(set(found) - set(table)):
        yield f"{' on '.join(who)}: not in the table; figures {found[who]}"
    for who in sorted(set(table) - set(found)):
        yield f"{' on '.join(who)}: in the table, but there is no such kernel"
    for who in sorted(set(found) & set(table)):
        for i in (0, 2, 3):
            if found[who][i] > table[who][i]:
                yield f"{' on '.join(who)}: {found[who][i]} {COLUMNS[i]}, the table has {table[who][i]}"


def names(these):
    return ", ".join(sorted(these)) or "none"


def control(found, table):
    worse = {who: (f[0] + 1, f[1], MOST_SPILLED + 1, *f[3:]) for who, f in found.items()}
    told = [*faults(worse, found), *spills(worse)]
    assert len(told) == 3 * len(found), told
    who = min(found)
    fewer = {k: f for k, f in found.items() if k != who}
    assert len(list(faults(found, fewer))) == 1 and len(list(faults(fewer, found))) == 1
    elsewhere = {(kernel, "sm_0"): f for (kernel, _), f in found.items()}
    assert len(list(faults(found, elsewhere))) == 1, "another architecture must be told"
    assert not list(faults(found, {**found, **elsewhere})), "what is not built is not compared"
    assert table, "the table is empty"


def compare(args, found, toolkit, table_toolkit, table):
    print(f"{len(found)} kernels: " + "; ".join(
        f"at most {max(f[i] for f in found.values())} {name}" for i, name in enumerate(COLUMNS)))
    wrong = list(spills(found))
    if toolkit == table_toolkit:
        built, known = architectures(found), architectures(table)
        print(f"compared: {names(built & known)}; in the table only: {names(known - built)}; "
              f"in the build only: {names(built - known)}")
        wrong += faults(found, table)
    else:
        print(f"compared for spills only: this is nvcc {toolkit}, the table has {table_toolkit}")
    print(*wrong, sep="\n")
    if wrong:
        sys.exit(f"if that is wanted: {sys.argv[0]} {args.build} {args.table} --write")


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
    toolkit = read_toolkit(args.build)
    table_toolkit, table = read_table(args.table)
    if args.write:
        kept = only(table, architectures(table) - architectures(found))
        write_table(args.table, toolkit, {**(kept if toolkit == table_toolkit else {}), **found})
    elif args.control:
        control(found, table)
    else:
        compare(args, found, toolkit, table_toolkit, table)


if __name__ == "__main__":
    main()
