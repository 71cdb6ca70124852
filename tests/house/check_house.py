#!/usr/bin/env python3
"""The rules of the tree that no compiler checks.

  check_house.py [TREE]            print every finding; exit 1 if there is one
  check_house.py --control [TREE]  break each rule once in a copy of the tree: each break is found

Rules
  rooms      a file includes from its own room and from the rooms that cmake/rooms.cmake lists for
             it; a room lists earlier rooms only; a room, or a folder of tests, has at most 24 files
  circles    no two files need each other, by includes or by calls of functions; a header and the
             source of the same name count as one file, X_internal.h as its room's interface
  names      a tag, typedef, global function or include guard has one meaning in the whole tree
  libraries  mpi.h, hdf5.h, omp.h and the headers of CUDA are included only in the rooms that own
             them
  sizes      files of 500 lines, functions of 60, lines of 100 columns at most
  headers    each has a guard and compiles alone; those of core/ as C++17 too
  python     python/tutti: files of 300 lines, functions of 60; types and a text for all that is
             public; at import only the standard library, NumPy and h5py are needed
  findings   every test that tests/faults/findings.tsv names exists
  words      names of C have none of the words that docs/internals/glossary.md replaces, no parameter and no
             variable is a preposition; one spelling, the American one, in sources and docs

Environment: CC, CXX (compilers), TUTTI_INCLUDES (-I options of the external libraries).
"""
import ast
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOTS = ("core", "mpi", "io", "cuda", "slurm", "src")
TOP = ("src/cli", "src/api")  # they may include from every room
MOST_FILES = 24
OUTSIDE = {  # header: the places it may be included from
    r"mpi\.h": ("mpi/", "io/"),
    r"jansson\.h": ("core/base/",),
    r"hdf5(_hl)?\.h|H5.*\.h": ("io/",),
    r"omp\.h": ("src/cpu/", "src/host/", "src/train/", "src/predict/", "src/explain/",
               "src/campaign/pool/"),
    r"(cuda|nccl)[^/]*": ("cuda/",),
    r"(cublas|curand)[^/]*": (),
}
REPLACED = {  # a word that no name contains: the word of docs/internals/glossary.md for it
    "room": "capacity, or scratch for memory that a function may overwrite",
}
PREPOSITION = re.compile(r"\b(?:u?int\d*(?:_t)?|size_t|float|double|char|void|tt_\w+)(?: const)?[ *]+"
                         r"(at|by|from|into|of|on|to|with)\b *[=)]")
BRITISH = re.compile(
    r"\w*(?:(?:normal|standard|initial|synchron|vector|penal|minim|maxim|general|recogn|regular|"
    r"parallel|serial|organ|summar|random|quant|optim)is(?:e|ing|ation)|label(?=l(?:ed|ing))|"
    r"model(?=l(?:ed|ing))|signal(?=l(?:ed|ing))|cancel(?=l(?:ed|ing))|colour|favour|honour|"
    r"neighbour|behaviour|centre|centring|licence|artefact|learnt)\w*", re.I)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


class Tree:
    """The sources below a folder: texts with and without comments and strings."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.text, self.code = {}, {}
        for top in ROOTS:
            for path in sorted((self.root / top).rglob("*")):
                self.read(str(path.relative_to(self.root)))

    def read(self, name):
        """Read a file; forget it if it is gone."""
        path = self.root / name
        self.text.pop(name, None), self.code.pop(name, None)
        if path.suffix in (".c", ".h", ".cu", ".cuh", ".def") and path.exists() and name.startswith(ROOTS):
            self.text[name] = path.read_text()
            self.code[name] = without_comments(self.text[name])

    def line(self, name, position):
        return f"{name}:{self.text[name].count(chr(10), 0, position) + 1}"


def without_comments(text):
    """Replace comments and the inside of strings by blanks: positions and lines are kept."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
    return re.sub(pattern, lambda m: m[0] if is_include(text, m.start()) else blank(m), text,
                  flags=re.S)


def is_include(text, position):
    start = text.rfind("\n", 0, position) + 1
    return text[start:position].lstrip().startswith("#") and "include" in text[start:position]


def room_of(name):
    return str(pathlib.PurePosixPath(name).parent)


def read_rooms(root):
    """{room: rooms it may use}, in the order of cmake/rooms.cmake, and findings."""
    text = re.sub(r"#[^\n]*", "", (root / "cmake/rooms.cmake").read_text())
    text = text.split("endfunction()", 1)[1]
    rooms, findings = {}, []
    for call in re.finditer(r"tutti_room\(([^)]*)\)", text):
        words = call[1].split()
        uses = words[words.index("USE") + 1:] if "USE" in words else []
        uses = uses[:uses.index("LINK")] if "LINK" in uses else uses
        for use in uses:
            if use not in rooms:
                findings.append(f"cmake/rooms.cmake: {words[0]} uses {use}, which is not above it")
        rooms[words[0]] = set(uses)
    return rooms, findings


def check_rooms(tree):
    rooms, findings = read_rooms(tree.root)
    counts = collections.Counter(map(room_of, tree.text))
    for room, count in counts.items():
        if room not in rooms and room not in TOP:
            findings.append(f"{room}: no room of cmake/rooms.cmake")
        if count > MOST_FILES:
            findings.append(f"{room}: {count} files in one room")
    for name in tree.text:
        room = room_of(name)
        for match in INCLUDE.finditer(tree.code[name]):
            target, place = match[1], tree.line(name, match.start())
            if target not in tree.text:
                findings.append(f'{place}: "{target}" is not a file of this tree')
            elif room not in TOP and room_of(target) not in rooms.get(room, ()) | {room}:
                findings.append(f"{place}: {room} may not include from {room_of(target)}")
    return findings


DEFINITION = re.compile(r"^(?!static|typedef|#|\s|else|struct \w+ \{)[\w*][^;{}#=]*?\b(tt_\w+|tutti_\w+)"
                        r"\([^;{}]*\)\s*\{", re.M)


def unit_of(name):
    """The common name of a header and its source."""
    return str(pathlib.PurePosixPath(name).with_suffix(""))


def check_circles(tree):
    defined = {}
    for name in tree.text:
        if name.endswith((".c", ".cu")):
            for match in DEFINITION.finditer(tree.code[name]):
                defined[match[1]] = unit_of(name)
    edges = collections.defaultdict(dict)
    for name in tree.text:
        here = unit_of(name)
        for match in INCLUDE.finditer(tree.code[name]):
            if match[1] in tree.text and not unit_of(match[1]).endswith("_internal"):
                edges[here].setdefault(unit_of(match[1]), f"includes {match[1]}")
        if name.endswith((".c", ".cu")):
            for word in set(re.findall(r"\b(?:tt|tutti)_\w+", tree.code[name])):
                if word in defined:
                    edges[here].setdefault(defined[word], f"uses {word}")
    findings = []
    for group in circles({a: set(b) - {a} for a, b in edges.items()}):
        why = [f"{a} {reason}" for a in group for b, reason in edges[a].items()
               if b in group and b != a]
        findings.append(f"circle of {', '.join(group)}: {'; '.join(why)}")
    return findings


def circles(edges):
    """Groups of nodes that reach one another (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10000)

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


KINDS = (
    ("tag", re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*(?::\s*\w+\s*)?\{")),
    ("typedef", re.compile(r"^typedef\b[^;{}]*?\b(\w+)(?:\[\w*\])?;|^\}\s*(\w+);", re.M)),
    ("function pointer", re.compile(r"^typedef\b[^;]*?\(\*(\w+)\)\s*\(", re.M)),
    ("function", DEFINITION),
)


def check_names(tree):
    findings, places, guards = [], collections.defaultdict(dict), {}
    # types that an interface in core/ leaves to each engine
    opaque = {m[1] for name, code in tree.code.items() if name.startswith("core/")
              for m in re.finditer(r"^typedef struct (\w+) \1;", code, re.M)}
    for name, code in tree.code.items():
        for kind, pattern in KINDS:
            for match in pattern.finditer(code):
                word = match[1] or match[2]
                if re.match(r"typedef struct (\w+) \1;", match[0]) or word in opaque:
                    continue
                # `typedef struct x {...} x` is one meaning
                sort = "function" if kind == "function" else "type"
                places[word].setdefault((sort, name), tree.line(name, match.start()))
        guard = re.search(r"^#ifndef (\w+_H)$", code, re.M)
        if guard and guard[1] in guards:
            findings.append(f"{name}: its guard {guard[1]} is that of {guards[guard[1]]}")
        elif guard:
            guards[guard[1]] = name
    for word, where in places.items():
        if len(where) > 1:
            told = ", ".join(f"{place} ({sort})" for (sort, _), place in where.items())
            findings.append(f"{word} has {len(where)} meanings: {told}")
    return findings


def check_libraries(tree):
    findings = []
    for name, code in tree.code.items():
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', tree.text[name], re.M):
            for header, rooms in OUTSIDE.items():
                if re.fullmatch(header, match[1]) and not name.startswith(rooms):
                    place = tree.line(name, match.start())
                    findings.append(f"{place}: {match[1]} does not belong into {room_of(name)}")
    return findings


def check_sizes(tree):
    folders = collections.Counter(p.relative_to(tree.root).parent
                                  for p in tree.root.glob("tests/**/*")
                                  if p.is_file() and p.suffix != ".pyc")
    findings = [f"{folder}: {count} files in one folder" for folder, count in folders.items()
                if count > MOST_FILES]
    tests = {str(p.relative_to(tree.root)): p.read_text() for p in sorted(tree.root.glob("tests/**/*"))
             if p.suffix in (".c", ".h", ".cpp", ".cuh", ".py", ".sh")}
    for name, text in {**tree.text, **tests}.items():
        lines = text.split("\n")
        if len(lines) > 501:
            findings.append(f"{name}: more than 500 lines")
        start = None
        for number, line in enumerate(lines, 1):
            if line.startswith("{"):
                start = number
            elif line.startswith("}"):
                if start and number - start - 1 > 60:
                    findings.append(f"{name}:{start}: function of {number - start - 1} lines")
                start = None
            if len(line) > 100 and name in tree.text and not name.endswith(".def"):
                findings.append(f"{name}:{number}: more than 100 columns")
    return findings


def compile_headers(root, headers, compiler, flags):
    """The first line of what the compiler says of a file that includes them, "" if all is well."""
    source = "".join(f'#include "{header}"\n' for header in headers) + "typedef int tt_alone;\n"
    done = subprocess.run([*compiler.split(), *flags, "-D_GNU_SOURCE", "-Wall", "-Wextra",
                           "-fsyntax-only", "-I.", *os.environ.get("TUTTI_INCLUDES", "").split(),
                           "-"], cwd=root, input=source, capture_output=True, text=True, check=False)
    return done.stderr.split("\n")[0] if done.returncode else ""


def built_alone(tree, header):
    """Whether the build shows that it compiles alone: its source includes it first."""
    first = re.search(r"^#include .*$", tree.text.get(header[:-1] + "c", ""), re.M)
    return bool(first) and first[0] == f'#include "{header}"'


def check_headers(tree, only=None):
    # bodies are included several times with different macros: not checked as headers
    headers = [n for n in only or tree.text if n.endswith(".h") and not n.endswith("_body.h")]
    guard = r"^#ifndef (TT_[A-Z0-9_]+|TUTTI)_H$"
    findings = [f"{name}: no guard #ifndef TT_..._H" for name in headers
                if not re.search(guard, tree.text[name], re.M)]
    c = [tree.root, os.environ.get("CC", "cc"), ["-std=c17", "-Wpedantic", "-Werror", "-x", "c"]]
    cpp = [tree.root, os.environ.get("CXX", "c++"), ["-std=c++17", "-x", "c++"]]
    jobs = [(name, "alone", c) for name in headers if not built_alone(tree, name)]
    public = [n for n in headers if n.startswith("core/") or n.endswith("tutti.h")]
    if compile_headers(cpp[0], public, *cpp[1:]):
        jobs += [(name, "as C++17", cpp) for name in public]

    def compile_one(job):
        name, how, (root, *compiler) = job
        said = compile_headers(root, [name], *compiler)
        return said and f"{name} does not compile {how}: {said}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return findings + [text for text in pool.map(compile_one, jobs) if text]


def check_python(tree):
    findings = []
    for path in sorted((tree.root / "python").rglob("*.py")):
        name, text = str(path.relative_to(tree.root)), path.read_text()
        lines = text.split("\n")
        if len(lines) > 301:
            findings.append(f"{name}: more than 300 lines")
        findings += [f"{name}:{number}: more than 100 columns"
                     for number, line in enumerate(lines, 1) if len(line) > 100]
        if path.parent.name != "tutti":
            continue
        module = ast.parse(text)
        for node in module.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            findings += [f"{name}:{node.lineno}: import of {found} at the top" for found in names
                         if found.split(".")[0] not in {*sys.stdlib_module_names, "numpy", "h5py", path.stem.partition("_")[0]}]
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                findings += [f"{name}:{node.lineno}: {node.name} {why}" for why in python_faults(node)]
    return findings


def python_faults(node):
    """What a function or a class of the Python package lacks."""
    public = not node.name.startswith("_")
    faults = ["has no text"] if public and not ast.get_docstring(node) and node.end_lineno - node.lineno > 3 else []
    if isinstance(node, ast.FunctionDef):
        given = [a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg != "self"]
        if not node.returns or not all(a.annotation for a in given):
            faults.append("has no types")
        start = node.body[0].lineno  # the signature does not count
        if ast.get_docstring(node):
            start = node.body[0].end_lineno
        if node.end_lineno - start > 60:
            faults.append(f"is a function of {node.end_lineno - start} lines")
    return faults


def check_words(tree):
    findings = []
    for name, code in tree.code.items():
        for match in re.finditer(r"\b(?:\w+_)?(%s)s?(?:_\w+)?\b" % "|".join(REPLACED), code):
            place = tree.line(name, match.start())
            findings.append(f"{place}: '{match[0]}': say {REPLACED[match[1]]}")
        for match in PREPOSITION.finditer(code):
            findings.append(f"{tree.line(name, match.start())}: '{match[1]}' names a variable")
    texts = dict(tree.text)
    for pattern in ("*.md", "docs/**/*.md", "python/**/*.py", "tests/**/*.[ch]", "tests/**/*.py"):
        texts |= {str(p.relative_to(tree.root)): p.read_text() for p in tree.root.glob(pattern)
                  if p != pathlib.Path(__file__).resolve()}
    for name, text in texts.items():
        for match in BRITISH.finditer(text):
            if match[0] != "CANCELLED":  # a state of Slurm
                line = text.count("\n", 0, match.start()) + 1
                findings.append(f"{name}:{line}: British spelling: {match[0]}")
    return findings


def check_findings(tree):
    """Rows of three columns; the third holds `ctest: case, case; ctest: case`."""
    table, findings = FINDINGS, []
    for number, line in enumerate((tree.root / table).read_text().splitlines(), 1):
        cells = line.split("\t")
        if line.startswith("#") or cells[-1] == "tests":
            continue
        if len(cells) != 3 or not all(cells):
            findings.append(f"{table}:{number}: {len(cells)} columns, not 3, or an empty one")
            continue
        for part in cells[2].split("; "):
            test, _, cases = part.partition(": ")
            file = file_of_test(tree.root, test)
            text = file.read_text() if file and file.is_file() else None
            if text is None:
                findings.append(f"{table}:{number}: there is no test {test}")
                continue
            findings += [f"{table}:{number}: {test} has no case '{case}'" for case in cases.split(", ")
                         if not re.search(rf"^(TT_TEST \(|def ){re.escape(case)}\b", text, re.M)]
    return findings


def file_of_test(root, test):
    """The source of a test of ctest, by the rules of tests/CMakeLists.txt; None: no such test."""
    folder, _, name = test.partition(".")
    tests = root / "tests"
    if folder in ("unit", "mpi", "laws"):
        if folder == "mpi" and name[-2:] not in (".1", ".2", ".3"):
            return None
        *room, suite = name.removesuffix(name[-2:] if folder == "mpi" else "").split(".")
        return tests.joinpath(folder, *room, f"test_{suite}.c")
    if folder == "slurm":
        return tests / folder / f"test_{name}.py"
    pattern = {"faults": rf"tutti_fault_test\({re.escape(name)} (\w+)",
               "system": rf"tutti_system_test\(system\.{re.escape(name)}\s[^)]*?([\w/]+)\.py"}.get(folder)
    found = pattern and re.search(pattern, (tests / folder / "CMakeLists.txt").read_text())
    return tests / folder / f"{found[1].lstrip('/')}.py" if found else None


CHECKS = (check_rooms, check_circles, check_names, check_libraries, check_sizes, check_headers, check_python,
          check_findings, check_words)

FINDINGS = "tests/faults/findings.tsv"
LONG = "int f(void)\n{\n" + "  f();\n" * 61 + "}\n"
PLANTED = (  # file, text to append, words of the finding, check
    ("core/base/planted.c", '#include "core/model/state.h"\n', "may not include from core/model", check_rooms),
    ("io/data/planted.c", '#include "core/engine/engine.h"\n', "may not include from core/engine", check_rooms),
    ("src/cpu/planted.c", '#include "io/hdf5/h5.h"\n', "may not include from io/hdf5", check_rooms),
    ("core/config/planted.h", '#  include "core/nothing.h"\n', "is not a file of this tree", check_rooms),
    ("core/attic/planted.h", "\n", "no room of", check_rooms),
    ("cmake/rooms.cmake", "tutti_room(core/early USE core/late)\ntutti_room(core/late)\n", "not above it", check_rooms),
    ("core/base/err.h", '#include "core/base/list.h"\n', "circle of", check_circles),
    ("core/base/text.c", "\ntt_err tt_planted(void)\n{\n  return tt_planted_back();\n}\n", "circle of", check_circles),
    ("core/base/planted.h", "typedef struct tt_slice { int a; } tt_slice;\n", "tt_slice has 2 meanings", check_names),
    ("mpi/planted.c", "struct tt_config {\n  int a;\n};\n", "tt_config has 2 meanings", check_names),
    ("mpi/planted.c", "int tt_config(void)\n{\n  return 1;\n}\n", "tt_config has 2 meanings", check_names),
    ("mpi/planted.h", "#ifndef TT_ERR_H\n", "its guard TT_ERR_H", check_names),
    ("src/train/planted.c", "#include <mpi.h>\n", "does not belong", check_libraries),
    ("mpi/planted.c", "#include <hdf5.h>\n", "does not belong", check_libraries),
    ("io/data/planted.c", "# include <omp.h>\n", "does not belong", check_libraries),
    ("src/cpu/planted.c", "#include <cuda_runtime.h>\n", "does not belong", check_libraries),
    ("mpi/planted.c", "\n" * 501, "more than 500 lines", check_sizes),
    ("mpi/planted.c", LONG, "function of 61 lines", check_sizes),
    ("io/data/planted.h", "/* " + "x" * 100 + " */\n", "100 columns", check_sizes),
    ("core/base/planted.h", "int planted(void);\n", "no guard", check_headers),
    ("core/base/planted.h", "#ifndef TT_PLANTED_H\nint64_t planted;\n#endif\n", "does not compile alone", check_headers),
    ("python/tutti/planted.py", "\n" * 301, "more than 300 lines", check_python),
    ("python/tutti/planted.py", "#" * 101 + "\n", "100 columns", check_python),
    ("python/tutti/planted.py", "import pandas\n", "import of pandas at the top", check_python),
    ("python/tutti/planted.py", "def f(x) -> int:\n    return x\n", "f has no types", check_python),
    ("python/tutti/planted.py", "class A:\n" + "    b = 1\n" * 9, "A has no text", check_python),
    ("python/tutti/planted.py", "def f() -> None:\n" + "    f()\n" * 62, "function of 61 lines", check_python),
    ("core/base/planted.c", "int64_t mark_room;\n", "say capacity", check_words),
    ("mpi/planted.c", "void planted(const char *from);\n", "'from' names a variable", check_words),
    ("python/tutti/planted.py", "# unlabelled\n", "British spelling: unlabelled", check_words),
    (FINDINGS, "a\tb\tfaults.planted: main\n", "no test faults.planted", check_findings),
    (FINDINGS, "a\tb\tunit.base.list: planted\n", "unit.base.list has no case 'planted'", check_findings),
    (FINDINGS, "a\tfaults.limits: main\n", "2 columns, not 3", check_findings),
)


def plant(tree, name, more):
    """Append to a file; returns its text before, None if there was no such file."""
    path = tree.root / name
    old = path.read_text() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((old or "") + more)
    tree.read(name)
    return old


def control(root):
    """Findings: planted faults that the checks do not find."""
    missed = []
    with tempfile.TemporaryDirectory() as copy:
        for top in (*ROOTS, "cmake", "python", "tests"):
            shutil.copytree(root / top, pathlib.Path(copy) / top)
        tree = Tree(copy)
        for file, text, words, check in PLANTED:
            planted = {file: text}
            if "tt_planted_back" in text:  # the other half of a circle of calls
                planted["core/base/mem.c"] = "\ntt_err tt_planted_back(void)\n{\n  return tt_planted();\n}\n"
            before = {name: plant(tree, name, more) for name, more in planted.items()}
            found = check(tree, [file]) if check is check_headers else check(tree)
            if not any(words in finding for finding in found):
                missed.append(f"planted in {file}, not found: {words}")
            for name, old in before.items():
                path = tree.root / name
                path.unlink() if old is None else path.write_text(old)
                tree.read(name)
    return missed


def main():
    arguments = [a for a in sys.argv[1:] if a != "--control"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    if "--control" in sys.argv:
        findings = control(root)
    else:
        tree = Tree(root)
        findings = [finding for check in CHECKS for finding in check(tree)]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
