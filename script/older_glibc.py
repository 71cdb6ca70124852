"""older_glibc.py VERSION FILE... — makes programs and shared libraries that were linked on this system run
with an older glibc, such as 2.28, too (script/wheel). It rewrites the files.

A new glibc keeps the older versions of its functions: pthread_create@GLIBC_2.2.5 is still in the libc
whose newest one is pthread_create@GLIBC_2.34. A linker writes down the newest; this program replaces it
by the newest that is not newer than VERSION. A function that has none is an error: give the files one
of their own (cmake/static.c)."""
import io
import pathlib
import struct
import subprocess
import sys

from elftools.elf.elffile import ELFFile

FIRST = "GLIBC_2.2.5"  # of x86-64; every version entry that is left unused gets it
OWN = ("libc.so.6", "libm.so.6")


def number(version):
    """"GLIBC_2.28" as (2, 28); GLIBC_PRIVATE and versions of other libraries are newest."""
    parts = version.removeprefix("GLIBC_").split(".")
    return tuple(map(int, parts)) if version.startswith("GLIBC_") and parts[0].isdigit() else (99,)


def hash_of(name):
    """The hash of the ELF standard."""
    h = 0
    for byte in name.encode():
        h = (h << 4) + byte
        h = (h ^ (h & 0xf0000000) >> 24) & 0x0fffffff
    return h


def defined():
    """The versions of each function that glibc of this system has: {name: {(file, version)}}."""
    found = {}
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for own in OWN:
        path = next(line.split()[-1] for line in said.splitlines() if own in line and "x86-64" in line)
        with open(path, "rb") as file:
            elf = ELFFile(file)
            versions = {d["vd_ndx"]: next(names).name
                        for d, names in elf.get_section_by_name(".gnu.version_d").iter_versions()}
            numbers = elf.get_section_by_name(".gnu.version")
            for i, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                index = numbers.get_symbol(i)["ndx"]
                if symbol["st_shndx"] != "SHN_UNDEF" and isinstance(index, int):
                    found.setdefault(symbol.name, set()).add((own, versions[index & 0x7fff]))
    return found


def entries(elf):
    """The versions that a file needs: {index: (file, version, place of the entry in the file)}."""
    section, found = elf.get_section_by_name(".gnu.version_r"), {}
    place = section["sh_offset"]
    for need, versions in section.iter_versions():
        at = place + need["vn_aux"]
        for version in versions:
            found[version["vna_other"]] = (need.name, version.name, at)
            at += version["vna_next"]
        place += need["vn_next"]
    return found


def replaced(elf, limit, known, path):
    """The (file, version) of glibc for each symbol whose version is too new: {symbol: ...}."""
    found, needed = {}, entries(elf)
    numbers = elf.get_section_by_name(".gnu.version")
    for i, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        own, version, _ = needed.get(numbers.get_symbol(i)["ndx"], ("", "", 0))
        if own in OWN and number(version) > limit:
            older = [k for k in known[symbol.name] if number(k[1]) <= limit]
            if not older:
                sys.exit(f"{path}: {symbol.name}@{version} has no older version")
            found[i] = max(older, key=lambda k: number(k[1]))
    return found


def rewrite(path, limit, known):
    """The entries of versions that are too new get the versions that are needed instead."""
    data = bytearray(path.read_bytes())
    elf = ELFFile(io.BytesIO(data))
    texts = elf.get_section_by_name(".dynstr").data()
    numbers = elf.get_section_by_name(".gnu.version")["sh_offset"]
    index_of, free = {}, []
    for index, (own, version, place) in entries(elf).items():
        if own in OWN and number(version) > limit:
            free.append((index, own, place))
        else:
            index_of[own, version] = index
    wanted = replaced(elf, limit, known, path)
    missing = sorted(set(wanted.values()) - set(index_of))
    for index, own, place in free:
        mine = next((k for k in missing if k[0] == own), None)
        if mine:
            missing.remove(mine)
            index_of[mine] = index
        name = mine[1] if mine else FIRST
        struct.pack_into("<I", data, place, hash_of(name))
        struct.pack_into("<I", data, place + 8, texts.index(name.encode() + b"\0"))
    for i, version in wanted.items():
        struct.pack_into("<H", data, numbers + 2 * i, index_of[version])
    path.write_bytes(data)
    print(f"{path}: {len(wanted)} functions of an older version")


def main(version, files):
    known, limit = defined(), number(f"GLIBC_{version}")
    for file in files:
        with open(file, "rb") as f:
            elf = ELFFile(f)
            texts = elf.get_section_by_name(".dynstr").data()
            versions = {FIRST, *(v for _, v in replaced(elf, limit, known, file).values())}
        # Where functions are in a glibc before 2.34. The text of a version stays in the file when the
        # library of this name is removed again.
        added = [v for v in versions if v.encode() + b"\0" not in texts]
        for option, names in (("--add-needed", ["libpthread.so.0", "libdl.so.2", *added]),
                              ("--remove-needed", added)):
            for name in names:
                subprocess.run(["patchelf", option, name, file], check=True)
        rewrite(pathlib.Path(file), limit, known)


main(sys.argv[1], sys.argv[2:])
