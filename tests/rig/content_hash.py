"""The hash of the content of model.h5, as docs/internals/architecture.md defines it: for tests that change a model."""
import ctypes

from rig import h5py, np

xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
TYPES = {"int8": 1, "int32": 2, "int64": 3, "uint64": 4, "float32": 5, "float64": 6}
ATTRIBUTES = "tutti_schema", "given"


def of(data, seed):
    return xxhash.XXH3_64bits_withSeed(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed % 2**64))


def of_attribute(path, name, value):
    seed = of(name.encode(), of(path.encode(), 1))
    if isinstance(value, (str, bytes)):
        return of(value.encode() if isinstance(value, str) else value, seed)
    return of(np.asarray(value, float).tobytes(), seed)


def of_dataset(path, item):
    seed = of(path.encode(), 0)
    if item.dtype.kind == "S":
        for text in item[()].reshape(item.shape[0], -1):
            seed = of(text.tobytes().rstrip(b"\0 "), seed)
        return seed
    shape = np.array(item.shape, np.int64)
    return of(shape.tobytes() + item[()].tobytes(), seed + TYPES[item.dtype.name])


def content_hash(f):
    total = 0

    def visit(path, item):
        nonlocal total
        if path.startswith("provenance"):
            return
        if not isinstance(item, h5py.Dataset) or path.startswith("names/"):
            total += sum(of_attribute(path, n, item.attrs[n]) for n in ATTRIBUTES if n in item.attrs)
        if isinstance(item, h5py.Dataset) and b"but not a netCDF variable" not in item.attrs.get("NAME", b""):
            total += of_dataset(path, item)

    visit("", f["/"])
    f.visititems(visit)
    return f"{total % 2**64:016x}"


def seal(f):
    """Write the hash of a model that a test has changed; f: the file, open for writing."""
    f.attrs["content_hash_xxh3"] = content_hash(f)
