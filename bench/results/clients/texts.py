"""Files with one list of names, as each HDF5 type of texts, written by the HDF5 of h5py."""
import h5py, numpy as np
names = ["te", "größe", "p"]
raw = [n.encode() for n in names]
N = max(map(len, raw))
def scale(f, name, n):
    d = f.create_dataset(name, (n,), dtype="i1")
    h5py.h5ds.set_scale(d.id, b"This is a netCDF dimension but not a netCDF variable.%10d" % n)
    return d
def fixed(f, name, pad, cset):
    t = h5py.h5t.C_S1.copy(); t.set_size(N if pad != h5py.h5t.STR_NULLTERM else N + 1); t.set_strpad(pad); t.set_cset(cset)
    d = h5py.h5d.create(f.id, name.encode(), t, h5py.h5s.create_simple((3,)))
    arr = np.array(raw, dtype=f"S{t.get_size()}")
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, arr, mtype=t)
    return h5py.Dataset(d)
kinds = {}
def kind(f): kinds[f.__name__] = f; return f
@kind
def chars(f):
    n = scale(f, "n", 3); l = scale(f, "strlen", N)
    d = f.create_dataset("name", (3, N), dtype="S1", data=np.array(raw, dtype=f"S{N}").view("S1").reshape(3, N))
    d.dims[0].attach_scale(n); d.dims[1].attach_scale(l)
    t = h5py.h5t.C_S1.copy(); t.set_size(5); t.set_cset(h5py.h5t.CSET_UTF8)
    a = h5py.h5a.create(d.id, b"_Encoding", t, h5py.h5s.create(h5py.h5s.SCALAR)); a.write(np.array(b"utf-8", dtype="S5"), mtype=t)
@kind
def fixed_utf8(f):
    n = scale(f, "n", 3); fixed(f, "name", h5py.h5t.STR_NULLPAD, h5py.h5t.CSET_UTF8).dims[0].attach_scale(n)
@kind
def fixed_ascii(f):
    n = scale(f, "n", 3); fixed(f, "name", h5py.h5t.STR_NULLPAD, h5py.h5t.CSET_ASCII).dims[0].attach_scale(n)
@kind
def variable_utf8(f):
    n = scale(f, "n", 3); f.create_dataset("name", data=names, dtype=h5py.string_dtype("utf-8")).dims[0].attach_scale(n)
@kind
def variable_ascii(f):
    n = scale(f, "n", 3); f.create_dataset("name", data=raw, dtype=h5py.string_dtype("ascii")).dims[0].attach_scale(n)
for k, w in kinds.items():
    with h5py.File(f"text_{k}.h5", "w", libver=("v110", "v110"), track_order=True) as f:
        w(f)
        d = f.create_dataset("x", data=np.arange(3.)); d.dims[0].attach_scale(f["n"])
        d.attrs.create("coordinates", np.bytes_("name"))
