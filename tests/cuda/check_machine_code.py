#!/usr/bin/python3
"""Count what the GPU executes in the hot loops, from the machine code, and compare with a table.

  check_machine_code.py BUILD TABLE            compare; exit 1 if something got worse, 77 without
                                               cuobjdump, nvcc or code for sm_90. First a control:
                                               one more instruction, load, barrier or loop is found
  check_machine_code.py BUILD TABLE --write    write the table from the present build
  check_machine_code.py BUILD TABLE --show     print all columns, and instructions per product

A row is an innermost loop with at least 16 multiply-adds (fma) or 4 matrix products (mma), or a
kernel of the layered path or of prediction as a whole (loop: all). Columns: instructions, fma, mma,
transcendental functions (mufu), barriers, and loads and stores of global and shared memory by bytes
per lane (ld_g16: 16 bytes from global memory). A loop may take fewer instructions, loads, stores
and barriers than the table says, not more. The counts belong to one version of nvcc, in the
table's first line.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections import Counter

ARCHITECTURE = "sm_90"
LEAST_FMA, LEAST_MMA = 16, 4
WHOLE = ("layered", "product", "engine")  # folders whose kernels are counted as a whole
MEMORY = [f"{what}_{space}{size}" for what in ("ld", "st") for space in "gs" for size in (16, 8, 4)]
COLUMNS = ["instructions", "fma", "mma", "mufu", "barriers"] + MEMORY
# "Function : NAME", or "/*ADDRESS*/ @PREDICATE OPERATION OPERANDS ;"
LINE = re.compile(r"^[ \t]+(?:Function : (\w+)|/\*([0-9a-f]{4,})\*/ +(?:@!?U?P\w+ )? *"
                  r"([A-Z][\w.]*) *([^;\n]*?) *;)", re.M)
SPACES = {"LDG": "ld_g", "STG": "st_g", "LD": "ld_g", "ST": "st_g", "LDS": "ld_s", "STS": "st_s"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def compiler_version(build):
    """Of the nvcc that compiled `build`, or None."""
    for path in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        if found := re.search(r'CMAKE_CUDA_COMPILER_VERSION "([\d.]+)"', path.read_text()):
            return found[1]
    return None


def plain_name(mangled):
    text = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout
    return re.sub(r"\(\w+ const&\)$|\([^()]*\)$", "", text.strip().removeprefix("void "))


def disassemble(tool, path):
    """{kernel: [(address, operation, operands)]}"""
    run = subprocess.run([tool, "-sass", "-arch", ARCHITECTURE, path], capture_output=True,
                         text=True)
    kernels, code = {}, None
    for name, address, operation, operands in LINE.findall(run.stdout):
        if name:
            code = kernels.setdefault(plain_name(name), [])
        else:
            code.append((int(address, 16), operation, operands))
    return kernels


def column_of(operation):
    name, *suffixes = operation.split(".")
    if name in SPACES:
        return SPACES[name] + ("16" if "128" in suffixes else "8" if "64" in suffixes else "4")
    return {"FFMA": "fma", "HMMA": "mma", "MUFU": "mufu", "BAR": "barriers",
            "UCGABAR_ARV": "barriers"}.get(name)


def figures(code):
    count = Counter(column_of(operation) for _, operation, _ in code)
    count["instructions"] = sum(operation != "NOP" for _, operation, _ in code)
    return tuple(count[name] for name in COLUMNS)


def innermost_loops(code):
    """(first, last) addresses of the loops that contain no other loop."""
    widest = {}
    for address, operation, operands in code:
        target = re.search(r"0x([0-9a-f]+)$", operands)
        if operation.startswith("BRA") and target and int(target[1], 16) < address:
            widest[int(target[1], 16)] = address
    loops = sorted(widest.items())
    return [a for a in loops
            if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def hot_loops(code):
    found = Counter()
    for first, last in innermost_loops(code):
        row = figures([line for line in code if first <= line[0] <= last])
        fma, mma = row[1], row[2]
        if fma < LEAST_FMA and mma < LEAST_MMA:
            continue
        kind = f"{mma} mma" if mma >= LEAST_MMA else f"{fma} fma"
        found[kind] += 1
        yield f"{kind} #{found[kind]}", row


def read_build(tool, build):
    """{(kernel, loop): figures}"""
    found = {}
    for path in sorted(build.glob("CMakeFiles/tutti_cuda*.dir/cuda/*/*.cu.o")):
        whole = path.parent.name in WHOLE
        ptxas = path.with_suffix(".o.ptxas")  # of cmake/keep_ptxas.sh
        if ptxas.exists() and "entry function" not in ptxas.read_text():
            continue
        for kernel, code in disassemble(tool, path).items():
            if whole:
                found[kernel, "all"] = figures(code)
            else:
                found.update({(kernel, loop): row for loop, row in hot_loops(code)})
    return found


def read_table(path):
    head, *lines = path.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line[:1] not in "#"]
    return head.split()[-1], {(words[0], words[1]): tuple(map(int, words[2:])) for words in rows}


def write_table(path, version, found):
    with open(path, "w") as out:
        out.write(f"# machine code for {ARCHITECTURE} of nvcc {version}\n")
        out.write("# " + "\t".join(["kernel", "loop"] + COLUMNS) + "\n")
        for who, row in sorted(found.items()):
            out.write("\t".join((*who, *map(str, row))) + "\n")


def faults(found, table):
    for who in sorted(set(found) ^ set(table)):
        where = "not in the table" if who in found else "in the table, but not in the machine code"
        yield f"{', loop '.join(who)}: {where}"
    for who in sorted(set(found) & set(table)):
        for name, now, accepted in zip(COLUMNS, found[who], table[who]):
            if now > accepted and name not in ("fma", "mma"):
                yield f"{', loop '.join(who)}: {now} {name}, the table has {accepted}"


def control(found):
    assert found, "no hot loop was found"
    for name in ("instructions", "barriers", "ld_g4", "st_s16"):
        at = COLUMNS.index(name)
        worse = {who: (*row[:at], row[at] + 1, *row[at + 1:]) for who, row in found.items()}
        told = list(faults(worse, found))
        assert len(told) == len(found) and all(name in line for line in told), told
    fewer = dict(list(found.items())[1:])
    assert len(list(faults(found, fewer))) == 1 and len(list(faults(fewer, found))) == 1
    sample = "".join(f"\t/*{k:04x}*/  {text} ;\n" for k, text in enumerate(
        ["MOV R1, R2"] + ["FFMA R1, R2, R3, R1"] * LEAST_FMA + ["LDS.128 R4, [R8]", "@P0 BRA 0x1"]))
    code = [(int(at, 16), operation, operands) for _, at, operation, operands in LINE.findall(sample)]
    (loop, row), = hot_loops(code)
    assert loop == f"{LEAST_FMA} fma #1" and row[COLUMNS.index("ld_s16")] == 1, (loop, row)
    assert row[0] == LEAST_FMA + 2, row


def show(found):
    for who, row in sorted(found.items()):
        named = dict(zip(COLUMNS, row))
        math = named["mma"] if "mma" in who[1] else named["fma"]
        each = f"{named['instructions'] / math:.2f} instructions each" if math else ""
        print(", ".join(who) + ": " + ", ".join(f"{v} {k}" for k, v in named.items() if v), each)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("table", type=pathlib.Path)
    for option in ("write", "show"):
        parser.add_argument(f"--{option}", action="store_true")
    args = parser.parse_args()
    version = compiler_version(args.build)
    if not version:
        skip("built without the engine for GPUs (no nvcc)")
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    tool = shutil.which("cuobjdump", path=places)
    if not tool:
        skip("cuobjdump is not installed (it is part of the CUDA toolkit)")
    found = read_build(tool, args.build)
    if not found:
        skip(f"built without machine code for {ARCHITECTURE}")
    if args.write:
        write_table(args.table, version, found)
    elif args.show:
        show(found)
    else:
        control(found)
        accepted_version, table = read_table(args.table)
        if accepted_version != version:
            skip(f"the table is that of nvcc {accepted_version}, this is {version}")
        wrong = list(faults(found, table))
        print(f"{len(found)} hot loops and kernels", *wrong, sep="\n")
        if wrong:
            sys.exit(f"if that is wanted: {sys.argv[0]} {args.build} {args.table} --write")


if __name__ == "__main__":
    main()
