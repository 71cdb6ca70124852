"""check_interface.py — the library exports the functions of tutti.h and nothing else,
and stays loaded after dlclose.

A later version may add functions. One that is removed or changed breaks the programs that are linked
with the library: raise the version (project() in CMakeLists.txt, which is that of the soname).
"""
import _ctypes
import ctypes
import pathlib
import re
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import LIBRARY, ROOT, run

FUNCTIONS = """
close column_label columns ensemble_name error has_classes input_level input_levels input_name inputs
level level_value levels member_columns members open open_group open_member open_memory options predict target_name target_units train train_in_memory
trainer_backward trainer_create trainer_destroy trainer_forward trainer_get_state trainer_get_weights
trainer_learning_rate trainer_members trainer_model trainer_outputs trainer_parameters trainer_predict
trainer_reset trainer_save trainer_set_learning_rate trainer_set_state trainer_set_weights
trainer_state_bytes trainer_step trainer_take_gradient trainer_update version workspace_create workspace_destroy
""".split()

expected = {f"tutti_{name}" for name in FUNCTIONS}
table = run("nm", "-D", "--defined-only", LIBRARY)
exported = {line.split()[-1] for line in table.out.splitlines()}
declared = set(re.findall(r"^TUTTI_API .*?(tutti_\w+)\(", (ROOT / "src/api/tutti.h").read_text(), re.M))
assert exported == expected, exported ^ expected
assert declared == expected, declared ^ expected

# Threads of OpenMP wait for work in libraries that an unloaded libtutti would take with it.
_ctypes.dlclose(ctypes.CDLL(LIBRARY)._handle)
assert "libtutti" in pathlib.Path("/proc/self/maps").read_text()
