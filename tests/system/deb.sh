#!/usr/bin/env bash
# deb.sh BUILD — makes the Debian package of BUILD, installs it, trains and predicts with it, and
# removes it: nothing may be left. For a chroot that is thrown away (script/matrix), as root.
set -euo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find_files() { find /etc /opt /usr -not -name "*.pyc" | sort; }

cpack --config "$1/CPackConfig.cmake" -G DEB -B "$work"
package=$(ls "$work"/tutti_*.deb)
dpkg-deb --info "$package"
find_files >"$work/before"
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$package"
dpkg --verify tutti
[ "$(command -v tutti)" = /usr/bin/tutti ]
ldconfig -p | grep -q libtutti.so.0
"$here/install_client.sh" --installed /usr
mpirun -n 2 tutti doctor
apt-get purge -q -y tutti
find_files | diff "$work/before" - >"$work/left" || true
if grep -v '^[0-9,acd]*$' "$work/left"; then
  echo "deb.sh: the removed package has left these files"
  exit 1
fi
ldconfig -p | { ! grep libtutti; }
echo "deb: installed, run and removed"
