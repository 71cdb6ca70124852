"""check_interface.py LIBTUTTI TUTTI_H — the library exports the functions of tutti.h and nothing else,
and stays loaded after dlclose.

A later version may add functions. One that is removed or changed breaks the programs that are linked
with the library: raise the version (project() in CMakeLists.txt, which is that of the soname).
"""
import _ctypes
import ctypes
import pathlib
import re
import subprocess
import sys

FUNCTIONS = """
close column_label columns ensemble_name error has_classes input_level input_levels input_name inputs
level level_value levels member_columns members open open_memory predict target_name target_units train
version workspace_create workspace_destroy
""".split()

library, header = sys.argv[1:]
expected = {f"tutti_{name}" for name in FUNCTIONS}
table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
exported = {line.split()[-1] for line in table.stdout.splitlines()}
declared = set(re.findall(r"^TUTTI_API .*?(tutti_\w+)\(", pathlib.Path(header).read_text(), re.M))
assert exported == expected, exported ^ expected
assert declared == expected, declared ^ expected

# Threads of OpenMP wait for work in libraries that an unloaded libtutti would take with it.
_ctypes.dlclose(ctypes.CDLL(library)._handle)
assert "libtutti" in pathlib.Path("/proc/self/maps").read_text()
