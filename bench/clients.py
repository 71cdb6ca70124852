#!/usr/bin/python3
"""Programs that read the files of tutti, and programs that call libtutti: client x verdict.

  clients.py [--build build] [--files FOLDER] [--output FILE]

Without --files it trains a small job of two ensembles with conformal intervals and predicts its rows. Each
client reads results.h5, pred.h5 and model.h5: the sum of one variable of numbers, the texts of one axis,
the names of the axes of the first variable. The verdict of a file is "ok", or what is missing or wrong;
the text below the table is what a client printed that is not ok. Not installed clients are listed
as such. Programs that call the library are tests of the tree: the table names them, and a name that
ctest does not know is an error.

By hand, on Debian 12: apt-get install python3-xarray python3-netcdf4 python3-h5netcdf python3-h5py
netcdf-bin hdf5-tools nco cdo octave octave-netcdf r-cran-ncdf4 r-cran-hdf5r. Recordings: bench/results/clients.
"""
import argparse
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JOB = """\
data: {file: energy.h5, inputs: x, targets: y, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 7}}
model: {hidden: [8]}
ensembles: [{name: heating, target: heating_load, members: 3}, {name: cooling, target: cooling_load, members: 2}]
train: {loss: gaussian_nll, epochs: 3}
calibration: {conformal: [0.5, 0.9]}
run: {device: cpu, directory: .}
"""
INPUTS = ("relative_compactness,surface_area,wall_area,roof_area,overall_height,orientation,glazing_area,"
          "glazing_area_distribution")
# file: a variable of numbers, a variable of texts
FILES = {"results.h5": ("ensemble_rmse", "column_target"), "pred.h5": ("y_pred_mean", "column_target"),
         "model.h5": ("member_weight", "ensemble_name")}

# Each client prints lines "sum=", "text=" (with | between) and "axes=" (with spaces) that it can find.
XARRAY = """
import sys, xarray
f = xarray.open_dataset({file!r}, engine={engine!r})
f.load()
v = f[{number!r}]
print("sum=%.12g" % float(v.sum()))
t = f[{text!r}].values
print("text=" + "|".join(x.decode() if isinstance(x, bytes) else str(x) for x in t.ravel()))
print("axes=" + " ".join(v.dims))
"""
NETCDF4 = """
import netCDF4
f = netCDF4.Dataset({file!r})
v, t = f[{number!r}], f[{text!r}]
print("sum=%.12g" % v[:].sum())
x = t[:]
x = netCDF4.chartostring(x) if x.dtype.kind == "S" else x
print("text=" + "|".join(str(s) for s in x.ravel()))
print("axes=" + " ".join(v.dimensions))
"""
H5PY = """
import h5py
f = h5py.File({file!r})
v, t = f[{number!r}], f[{text!r}][()]
print("sum=%.12g" % v[()].sum())
rows = t if t.ndim == 1 else [b"".join(r) for r in t]
print("text=" + "|".join(r.decode() if isinstance(r, bytes) else str(r) for r in rows))
print("axes=" + " ".join(d[0].name.split("/")[-1] for d in v.dims))
"""
NCDF4 = """
library(ncdf4)
f <- nc_open("{file}")
cat(sprintf("sum=%.12g\\n", sum(ncvar_get(f, "{number}"))))
cat("text=", paste(ncvar_get(f, "{text}"), collapse="|"), "\\n", sep="")
cat("axes=", paste(rev(sapply(f$var[["{number}"]]$dim, function(d) d$name)), collapse=" "), "\\n", sep="")
"""
HDF5R = """
library(hdf5r)
f <- H5File$new("{file}", "r")
cat(sprintf("sum=%.12g\\n", sum(f[["{number}"]]$read())))
x <- f[["{text}"]]$read()
if (length(dim(x)) == 2) x <- apply(x, 2, paste, collapse="")
cat("text=", paste(x, collapse="|"), "\\n", sep="")
"""
OCTAVE_LOAD = """
f = load("{file}");
printf("sum=%.12g\\n", sum(f.{number}(:)));
x = f.{text};
if iscell(x) x = strjoin(x(:)', "|"); else x = strjoin(cellstr(x)', "|"); end
printf("text=%s\\n", x);
"""
OCTAVE_NETCDF = """
pkg load netcdf
v = ncread("{file}", "{number}");
printf("sum=%.12g\\n", sum(v(:)));
x = ncread("{file}", "{text}");
if iscell(x) x = strjoin(x(:)', "|"); else x = strjoin(cellstr(x')', "|"); end
printf("text=%s\\n", x);
i = ncinfo("{file}", "{number}");
printf("axes=%s\\n", strjoin(fliplr({{i.Dimensions.Name}}), " "));
"""
NCO = r"""
ncwa -O -y ttl -v {number} {file} w.nc && ncks -H -C -v {number} w.nc | sed -n 's/^ *{number} = \(.*\) ;/sum=\1/p'
ncks -H -C --jsn -v {text} {file} | sed -n 's/.*"data": \[\(.*\)\].*/\1/p' | grep -o '"[^"]*"' | tr -d '"' |
  paste -sd'|' | sed 's/^/text=/'
ncks -m -C -v {number} {file} | sed -n 's/^ *[a-z]* {number}(\(.*\)) ;/axes=\1/p' | head -1 | sed 's/, */ /g'
"""
CDO = "cdo -s output -fldsum -selname,{number} {file} | sed 's/^ */sum=/'"
NCDUMP = r"""
ncdump -p 15,15 -v {number} {file} | sed -n '/^data:/,/^group:\|^}}/p' | tr -d '\n' |
  sed 's/.*{number} = *\([^;]*\);.*/\1/' | tr ',' '\n' | awk '{{s += $1}} END {{printf "sum=%.12g\n", s}}'
ncdump -v {text} {file} | sed -n '/^data:/,/;/p' | grep -o '"[^"]*"' | tr -d '"' | paste -sd'|' | sed 's/^/text=/'
ncdump -h {file} | sed -n 's/^.* {number}(\(.*\)) ;/axes=\1/p' | head -1 | tr -d ','
"""
NCCOPY = "nccopy {file} copied.nc" + NCDUMP.replace("{file}", "copied.nc")
H5DUMP = r"""
h5dump -y -w 1 -m %.15g -d {number} -A 0 {file} | sed -n '/DATA {{/,/}}/p' | grep -v '[{{}}]' | tr ',' '\n' |
  awk '{{s += $1}} END {{printf "sum=%.12g\n", s}}'
h5dump -y -d {text} -A 0 {file} | sed -n '/DATA {{/,/}}/p' | grep -o '"[^"]*"' | tr -d '"' |
  paste -sd'|' | sed 's/^/text=/'
h5dump -d {number} {file} | grep -o '(DATASET [0-9]* *"*/[a-z_]*' | sed 's/.*\///' | paste -sd' ' | sed 's/^/axes=/'
"""

PYTHON, R, OCTAVE = ["/usr/bin/python3", "-c"], ["Rscript", "-e"], ["octave-cli", "--norc", "-q", "--eval"]
SHELL = ["bash", "-c"]
# name, test that it is installed, how to call it, program, what prints its version
CLIENTS = (
    ("h5py", "import h5py", PYTHON, H5PY, "import h5py; print(h5py.__version__, h5py.version.hdf5_version)"),
    ("netCDF4 (Python)", "import netCDF4", PYTHON, NETCDF4, "import netCDF4; print(netCDF4.__version__)"),
    ("xarray, netcdf4", "import xarray, netCDF4", PYTHON, XARRAY, "import xarray; print(xarray.__version__)"),
    ("xarray, h5netcdf", "import xarray, h5netcdf", PYTHON, XARRAY, "import h5netcdf; print(h5netcdf.__version__)"),
    ("R, ncdf4", "library(ncdf4)", R, NCDF4, 'cat(format(packageVersion("ncdf4")))'),
    ("R, hdf5r", "library(hdf5r)", R, HDF5R, 'cat(format(packageVersion("hdf5r")))'),
    ("Octave, load", "1;", OCTAVE, OCTAVE_LOAD, "disp(version)"),
    ("Octave, netcdf", "pkg load netcdf", OCTAVE, OCTAVE_NETCDF, 'x = pkg("list", "netcdf"); disp(x{1}.version)'),
    ("NCO (ncwa, ncks)", "command -v ncwa", SHELL, NCO, "ncks --version 2>&1 | grep -o 'version [0-9.]*' | tail -1"),
    ("CDO", "command -v cdo", SHELL, CDO, "cdo --version 2>&1 | head -1 | grep -o '[0-9.]*' | head -1"),
    ("ncdump", "command -v ncdump", SHELL, NCDUMP, "ncdump 2>&1 | grep -o 'version [0-9.]*'"),
    ("nccopy", "command -v nccopy", SHELL, NCCOPY, "ncdump 2>&1 | grep -o 'version [0-9.]*'"),
    ("h5dump", "command -v h5dump", SHELL, H5DUMP, "h5dump --version | grep -o '[0-9.]*$'"),
)
# Programs that use the library, and the tests that they are.
TESTS = (
    ("C, several threads, errors, NULL arguments", "embedding.library"),
    ("C: handlers of signals, fork, traps, rounding, HDF5 of the host, standard output", "embedding.library"),
    ("C: workspace, derivatives, no malloc", "embedding.library"),
    ("C: installed, find_package, pkg-config, static", "system.install_client"),
    ("C++11, -Wconversion -Werror; a host with another MPI library", "embedding.cpp"),
    ("Fortran 2008", "embedding.fortran"),
    ("ctypes: symbols, dlopen and dlclose", "embedding.interface"),
    ("ctypes: locale with decimal comma, MPI of the host", "system.library"),
    ("Python package, fork of a pool", "python.ensemble"),
    ("exported C", "embedding.export"),
    ("exported ONNX, onnxruntime", "embedding.onnx"),
    ("exported PyTorch module", "embedding.torch"),
    ("xarray, both engines", "system.xarray"),
)


def run(command, text, folder="."):
    """Exit code and output; octave wants no display."""
    done = subprocess.run([*command, text], capture_output=True, text=True, cwd=folder, timeout=300,
                          env={k: v for k, v in os.environ.items() if k != "DISPLAY"})
    return done.returncode, done.stdout, done.stdout + done.stderr


def is_installed(client):
    return bool(shutil.which(client[2][0])) and run(client[2], client[1])[0] == 0


def found(output):
    return dict(line.split("=", 1) for line in output.splitlines() if re.match("(sum|text|axes)=", line))


def verdict(got, want):
    """What differs from h5py; "no" where the client found nothing."""
    faults = []
    for name in ("sum", "text", "axes"):
        have = re.sub(r"[\x00 ]+(?=[|]|$)", "", got.get(name, "")).strip()
        if name == "sum" and have:
            try:
                same = abs(float(have) - float(want[name])) <= 1e-5 * abs(float(want[name]))  # cdo prints 6 digits
            except ValueError:
                same = False
        else:
            same = "".join(have.split("|")) == "".join(want[name].split("|")) if name == "text" else have == want[name]
        if same and name == "text" and have != want["text"]:
            faults.append("texts as letters")
        elif not same:
            faults.append({"sum": "numbers", "text": "texts", "axes": "axes"}[name] + (" wrong" if have else ": no"))
    return ", ".join(faults) or "ok"


def make_files(tutti, folder):
    source = HERE.parent / "examples/energy/energy.csv"
    (folder / "job.yaml").write_text(JOB)
    for words in (["import", source, "-o", "energy.h5", "--inputs", INPUTS, "--targets",
                   "heating_load,cooling_load", "--units", "heating_load=kWh/m^2,cooling_load=kWh/m^2", "-q"],
                  ["train", "job.yaml", "-q"],
                  ["predict", "model.h5", "energy.h5", "-o", "pred.h5", "-q", "--jacobian", "--members",
                   "--quantiles", "0.1,0.9"]):
        subprocess.run([tutti, *words], check=True, cwd=folder, capture_output=True)


def read_files(folder, out):
    """The table, and the last lines of clients that failed."""
    print("\nclient\tversion\t" + "\t".join(FILES), file=out)
    wanted, said = {}, []
    for client in CLIENTS:
        name, _, command, text, version = client
        if not is_installed(client):
            print(f"{name}\tnot installed", file=out, flush=True)
            continue
        verdicts = []
        for file, (number, texts) in FILES.items():
            code, output, everything = run(command, text.format(
                file=file, number=number, text=texts, engine=name.split()[-1]), folder)
            got = found(output)
            wanted.setdefault(file, got)  # h5py is the first
            verdicts.append(verdict(got, wanted[file]))
            if verdicts[-1] != "ok":
                said.append(f"--- {name}, {file}: exit {code}\n" + "\n".join(everything.splitlines()[-6:]))
        print("\t".join([name, run(command, version)[1].strip(), *verdicts]), file=out, flush=True)
    return said


def list_tests(build, out):
    """Exit status 1 if ctest does not know a test."""
    known = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True).stdout
    names = set(re.findall(r": (\S+)$", known, re.M))
    print("\nprogram\ttest", file=out)
    for what, test in TESTS:
        print(f"{what}\t{test}" + ("" if test in names else "\tNO SUCH TEST"), file=out)
    return any(test not in names for _, test in TESTS)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default="build", type=pathlib.Path)
    options.add_argument("--files", type=pathlib.Path)
    options.add_argument("--output", type=pathlib.Path)
    o = options.parse_args()
    build = o.build.resolve()
    with tempfile.TemporaryDirectory() as work, open(o.output or "/dev/stdout", "w") as out:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        print(f"# {datetime.date.today()}, commit {commit.stdout.strip()}, {' '.join(sys.argv)}", file=out)
        if not o.files:
            make_files(build / "tutti", pathlib.Path(work))
        for file in FILES if o.files else ():
            shutil.copy(o.files / file, work)
        said = read_files(pathlib.Path(work), out)
        failed = list_tests(build, out)
        print("", *said, sep="\n", file=out)
    return failed


if __name__ == "__main__":
    sys.exit(main())
