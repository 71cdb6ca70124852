"""check_packaging.py SOURCE — every recipe in packaging/ has the version of the project, as Python and
CITATION.cff have, and names each library of cmake/dependencies.cmake and the oldest CMake that the project accepts."""
import ast
import pathlib
import re
import sys

# As the recipes call the libraries of cmake/dependencies.cmake.
NAMES = {"yaml-0.1": "yaml", "jansson": "jansson", "zlib": "zlib", "libxxhash": "xxhash"}


def main(source):
    project = (source / "CMakeLists.txt").read_text()
    version = re.search(r"project\(tutti VERSION ([\d.]+)", project)[1]
    cmake = re.search(r"cmake_minimum_required\(VERSION ([\d.]+?)\.\.\.", project)[1]
    found = (source / "cmake/dependencies.cmake").read_text()
    modules = re.findall(r"^tutti_pkg\(\w+ (\S+)", found, re.M)
    assert sorted(modules) == sorted(NAMES), f"a new library: {modules}; name it in the recipes and here"
    libraries = ["mpi", "hdf5", "random123", *NAMES.values()]
    for recipe in ("spack/spack_repo/tutti/packages/tutti/package.py", f"easybuild/tutti-{version}-foss-2024a.eb",
                   "conda/recipe.yaml", "apptainer/tutti.def", "docker/Dockerfile"):
        text = (source / "packaging" / recipe).read_text()
        words = text.lower().replace("toolchain = {'name': 'foss'", "mpi")  # foss has Open MPI
        missing = [library for library in libraries if library not in words]
        assert not missing, f"packaging/{recipe}: {missing} are missing"
        if not recipe.endswith((".def", "Dockerfile")):
            assert version in text, f"packaging/{recipe}: not version {version}"
        if recipe.endswith((".py", ".eb")):
            ast.parse(text)
        if "cmake@" in text or "cmake >=" in text:
            assert re.search(rf"cmake(@| >=){cmake}\b", text), f"packaging/{recipe}: not CMake {cmake}"
    for place in ("python/tutti/version.py", "CITATION.cff", "packaging/modules/tutti"):
        found = re.search(r"^(?:__version__ = |version: |module-whatis \"tutti )\"?([\d.]+)", (source / place).read_text(), re.M)
        assert found[1] == version, f"{place}: version {found[1]}, not {version}"
    repository = source / "packaging/spack/spack_repo/tutti/repo.yaml"  # Spack asks for these names
    assert "namespace: tutti\n" in repository.read_text()
    assert f"CMake {cmake}," in (source / "docs/install.md").read_text(), f"docs/install.md: not CMake {cmake}"


main(pathlib.Path(sys.argv[1]))
