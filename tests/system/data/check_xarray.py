#!/usr/bin/python3
"""Files open in xarray with all variables, dimensions and values.

    check_xarray.py FILE...

Opens every group of each file with both HDF5 engines of xarray, each engine in a separate process
(one of them crashes on some files). Fails if an engine drops a variable, invents a dimension,
disagrees with the other on names, sizes or types, does not decode text, or cannot read. Prints one
line for each file and engine; exit status 0 if there is no error.
"""
import json
import subprocess
import sys

ENGINES = ("h5netcdf", "netcdf4")
PURE_DIMENSION = "This is a netCDF dimension but not a netCDF variable"


def expected(path):
    """{group: [names of its variables]} by h5py; dimensions without values are left out."""
    import h5py

    groups = {}

    def visit(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        scale = item.attrs.get("NAME", b"")
        scale = scale.decode() if isinstance(scale, bytes) else str(scale)
        if not scale.startswith(PURE_DIMENSION):
            group, _, variable = name.rpartition("/")
            groups.setdefault(group, []).append(variable)

    with h5py.File(path, "r") as f:
        f.visititems(visit)
    return groups


def describe(path, engine, group):
    """The content by one engine: {variable: [dimensions, sizes, kind of type]}; reads all
    values."""
    import xarray

    with xarray.open_dataset(path, engine=engine, group=group or None) as data:
        seen = {}
        for name, variable in data.variables.items():
            variable.load()
            kind = variable.dtype.kind
            kind = {"O": "text", "U": "text", "S": "bytes"}.get(kind, kind)
            seen[name] = [list(variable.dims), list(variable.shape), kind]
        return {"variables": seen, "dimensions": {k: int(v) for k, v in data.sizes.items()}}


def faults(group, wanted, seen):
    place = "/" + group
    for name in sorted(set(wanted) - set(seen["variables"])):
        yield f"{place}: variable '{name}' is missing"
    for name in seen["dimensions"]:
        if name.startswith("phony_dim"):
            yield f"{place}: dimension '{name}' does not exist: a dimension scale is not attached"
    for name, (_, _, kind) in seen["variables"].items():
        if kind == "bytes":
            yield f"{place}: text '{name}' is not decoded"


def child(paths, engine):
    """In a separate process: the content of each file, one line of JSON each; errors on stderr."""
    bad = 0
    for path in paths:
        seen = {}
        for group, wanted in expected(path).items():
            seen[group] = describe(path, engine, group)
            for fault in faults(group, wanted, seen[group]):
                print(f"{path}: {engine}: {fault}", file=sys.stderr)
                bad = 1
        print(json.dumps(seen, sort_keys=True), flush=True)
    return bad


def look(paths, engine):
    """The content of each file that the engine could read, and True if there was no error."""
    run = subprocess.run([sys.executable, __file__, "--engine", engine, *paths], text=True,
                         stdout=subprocess.PIPE, timeout=240, check=False)
    seen = [json.loads(line) for line in run.stdout.splitlines()]
    for path, groups in zip(paths, seen):
        variables = sum(len(g["variables"]) for g in groups.values())
        root = groups.get("", {}).get("dimensions", {})
        print(f"{path}: {engine}: {variables} variables; dimensions of the root: {root}")
    if run.returncode:
        place = f", {paths[len(seen)]}" if len(seen) < len(paths) else ""
        print(f"{engine}: FAILED (status {run.returncode}{place})")
    return seen, run.returncode == 0


def check(paths):
    seen, good = zip(*(look(paths, engine) for engine in ENGINES))
    bad = not all(good)
    for path, *views in zip(paths, *seen):
        if views[0] != views[1]:
            print(f"{path}: the engines disagree:\n  {views[0]}\n  {views[1]}")
            bad = 1
    return int(bad)


def main(arguments):
    if len(arguments) > 2 and arguments[0] == "--engine":
        return child(arguments[2:], arguments[1])
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 64
    return check(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
