# setup.sh — sourced by script/demo and script/test: the packages that they need.
# shellcheck shell=bash
#
# tutti_need GROUP...   checks that the packages of the groups are installed. On Debian and Ubuntu,
# as root or with sudo, it installs the missing ones. Otherwise it lists the missing packages with
# the command that installs them, and the script ends with exit code 69.

# group, Debian package, command that succeeds if the program or library exists without the package
tutti_packages() {
  cat <<'TABLE'
build  cmake                 command -v cmake
build  gcc                   command -v cc
build  libc6-dev             command -v cc
build  make                  command -v make
build  pkg-config            command -v pkg-config
build  openmpi-bin           command -v mpirun
build  libopenmpi-dev        command -v mpicc
build  libhdf5-openmpi-dev   command -v h5pcc
build  libyaml-dev           pkg-config --exists yaml-0.1
build  libjansson-dev        pkg-config --exists jansson
build  zlib1g-dev            pkg-config --exists zlib
build  librandom123-dev      tutti_has_header Random123/philox.h
build  libxxhash-dev         pkg-config --exists libxxhash
test   g++                   command -v c++
test   libcmocka-dev         pkg-config --exists cmocka
test   locales               test -e /usr/share/i18n/locales/de_DE
test   valgrind              command -v valgrind
test   clang-format          command -v clang-format
test   libhdf5-dev           pkg-config --exists hdf5-serial
test   hdf5-tools            command -v h5dump
test   python3-numpy         python3 -c "import numpy"
test   python3-h5py          python3 -c "import h5py"
test   python3-h5netcdf      python3 -c "import h5netcdf"
test   python3-netcdf4       python3 -c "import netCDF4"
test   python3-xarray        python3 -c "import xarray"
python python3-setuptools    python3 -c "import setuptools"
python python3-wheel         python3 -c "import wheel"
python python3-tqdm          python3 -c "import tqdm"
python tidy                  command -v tidy
python tmux                  command -v tmux
wheel  libhdf5-dev           pkg-config --exists hdf5-serial
wheel  python3-venv          python3 -c "import ensurepip"
fuzz   clang                 command -v clang
fuzz   libomp-dev            tutti_has_openmp_of_clang
slurm  slurmctld             command -v slurmctld
slurm  slurmd                command -v slurmd
slurm  slurm-client          command -v srun
slurm  munge                 command -v munged
slurm  shellcheck            command -v shellcheck
TABLE
}

tutti_has_header() { echo "#include <$1>" | cc -E -x c -o /dev/null -; }

tutti_has_openmp_of_clang() { echo 'int main(void) { return 0; }' | clang -fopenmp -x c -o /dev/null -; }

tutti_is_debian() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

tutti_has_package() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Packages of the groups that are missing, one per line. $1 = package: ask dpkg; probe: run the
# command.
tutti_missing() {
  local how=$1 group package probe
  shift
  tutti_packages | while read -r group package probe; do
    case " $* " in *" $group "*) ;; *) continue ;; esac
    if [ "$how" = package ]; then tutti_has_package "$package"; else eval "$probe" >/dev/null 2>&1 </dev/null; fi ||
      echo "$package"
  done
}

# Runs a command as root: directly, or with sudo without a password prompt.
tutti_as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}
tutti_can_install() {
  tutti_is_debian && { [ "$(id -u)" = 0 ] || { command -v sudo && sudo -n true; }; } >/dev/null 2>&1
}

tutti_install() {
  echo "set-up: installing $*"
  tutti_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    tutti_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

tutti_need() {
  local missing=""
  if tutti_is_debian; then
    missing=$(tutti_missing package "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086 # a list of words
    if tutti_can_install && tutti_install $missing; then return 0; fi
  fi
  missing=$(tutti_missing probe "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  {
    echo "set-up: missing: $missing"
    echo "set-up: on Debian or Ubuntu, as root:  apt-get install --no-install-recommends $missing"
    echo "set-up: on other systems, install or load the same software, then run this again"
  } >&2
  exit 69
}

# The same for optional packages: without them the script continues.
tutti_want() { (tutti_need "$@") || echo "set-up: continuing without them"; }

# tutti_want_cuobjdump FOLDER: NVIDIA's disassembler, which many installations of nvcc lack, from its
# packages on PyPI; prints the folder to be added to PATH. Without it a test is skipped.
tutti_want_cuobjdump() {
  local bin=$1/nvidia/cu13/bin
  if ! PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then return 0; fi
  if PATH=$PATH:/usr/local/cuda/bin command -v cuobjdump >/dev/null; then return 0; fi
  [ -x "$bin/cuobjdump" ] || python3 -m pip install -q --no-deps --target "$1" \
    nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37 >&2 ||
    echo "set-up: continuing without cuobjdump" >&2
  [ ! -x "$bin/cuobjdump" ] || echo "$bin"
}
