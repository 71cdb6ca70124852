"""Find the program tutti and its library."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import urllib.parse
from typing import Iterator, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]
PACKAGE = pathlib.Path(__file__).resolve().parent


def _source_trees() -> list[pathlib.Path]:
    """The source tree around this package, and the one that `pip install ./python` has read."""
    from importlib import metadata

    try:
        installed = metadata.distribution("tutti").read_text("direct_url.json")  # PEP 610
        url = urllib.parse.urlsplit(json.loads(installed or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError):
        url = urllib.parse.urlsplit("")
    trees = [PACKAGE.parents[1]]
    if url.scheme == "file":
        trees.append(pathlib.Path(urllib.parse.unquote(url.path)).parent)
    return trees


def _places() -> Iterator[pathlib.Path]:
    """Where the program may be, beside PATH. PREFIX/share/tutti/python is the package that CMake
    installs."""
    yield PACKAGE.parents[3] / "bin" / "tutti"
    for tree in _source_trees():
        yield from (tree / build / "tutti" for build in ("build", "build-demo"))


def find_program(program: Optional[PathLike] = None) -> str:
    """Path of the program: the argument, the environment variable TUTTI, the program that this
    package carries, PATH, the installation of this package, or a build (build, build-demo) of the
    source tree around it or from which pip has installed it.

    Raises
    ------
    FileNotFoundError
        There is no program; the message lists the places.
    """
    given = os.fspath(program) if program else os.environ.get("TUTTI")
    if given:
        found = shutil.which(given)
        if not found:
            raise FileNotFoundError(f"{given} is not a program (argument program, or TUTTI)")
        return os.path.abspath(found)
    found = shutil.which(PACKAGE / "bin" / "tutti") or shutil.which("tutti")
    tried = []
    for place in () if found else _places():
        tried.append(str(place))
        found = found or shutil.which(place)
    if found:
        return os.path.abspath(found)
    raise FileNotFoundError(
        "the program tutti is not in PATH, nor is it one of " + ", ".join(tried) + ": install it, "
        "or set the environment variable TUTTI to its path")


def find_library(program: Optional[PathLike] = None) -> str:
    """Path of libtutti.so: the environment variable TUTTI_LIBRARY, or near the program.

    Raises
    ------
    FileNotFoundError
        There is no library; the message lists the folders.
    """
    given = os.environ.get("TUTTI_LIBRARY")
    if given:
        return given
    place = pathlib.Path(find_program(program)).resolve().parent
    folders = [place, place.parent / "lib", place.parent / "lib64"]
    folders += sorted((place.parent / "lib").glob("*-linux-gnu"))
    for folder in folders:
        for name in ("libtutti.so.0", "libtutti.so"):
            if (folder / name).exists():
                return str(folder / name)
    raise FileNotFoundError(
        f"libtutti.so is not near {place}/tutti, in none of {', '.join(map(str, folders))}: "
        "install it, or set the environment variable TUTTI_LIBRARY to its path")
