"""A small reader and interpreter of ONNX files, with NumPy alone: the operators that tutti writes. It is
a second opinion where onnxruntime is not installed, and rejects what it does not know."""
import numpy as np

TYPES = {1: np.float32, 7: np.int64, 11: np.float64}  # TensorProto.DataType


def fields(data):
    """[(number, value)] of a message of Protocol Buffers: int or bytes."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << 64) if value >> 63 else value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size = varint()
            assert at + size <= len(data), "a field is longer than its message"
            found.append((key >> 3, data[at:at + size]))
            at += size
    return found


def all_of(message, number):
    return [value for key, value in message if key == number]


def tensor(data):
    """(name, array) of a TensorProto."""
    m = fields(data)
    kind = TYPES[all_of(m, 2)[0]]
    values = np.frombuffer(all_of(m, 9)[0], np.dtype(kind).newbyteorder("<"))
    return all_of(m, 8)[0].decode(), values.reshape(all_of(m, 1))


def value_info(data):
    """(name, element type, [dimensions]) of a ValueInfoProto of a tensor."""
    m = fields(data)
    t = fields(all_of(fields(all_of(m, 2)[0]), 1)[0])
    dims = [fields(d)[0][1] for d in all_of(fields(all_of(t, 2)[0]), 1)]
    return all_of(m, 1)[0].decode(), all_of(t, 1)[0], dims


def slice_of(a, start, end, axes):
    index = [slice(None)] * a.ndim
    for s, e, axis in zip(start, end, axes):
        index[axis] = slice(s, e)
    return a[tuple(index)]


OPERATORS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul,
    "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Neg": np.negative, "Abs": np.abs, "Tanh": np.tanh,
    "Sin": np.sin, "Max": np.maximum, "Min": np.minimum, "Less": np.less, "Where": np.where,
    "Identity": lambda a: a, "Relu": lambda a: np.maximum(a, 0),
    "Sigmoid": lambda a: 1 / (1 + np.exp(-a)), "Reshape": lambda a, to: a.reshape(to),
    "Cast": lambda a, to: a.astype(TYPES[to]), "Slice": slice_of,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Transpose": lambda a, perm: a.transpose(perm), "Gather": lambda a, index, axis=0: a.take(index, axis),
    "IsNaN": np.isnan, "Equal": np.equal,
    "Pad": lambda a, pads, by: np.pad(a, list(zip(pads[:a.ndim], pads[a.ndim:])), constant_values=by),
    "ReduceMean": lambda a, axes: a.mean(tuple(axes), keepdims=True),
    "ReduceMax": lambda a, axes: a.max(tuple(axes), keepdims=True),
    "ReduceSum": lambda a, axes: a.sum(tuple(axes), keepdims=True),
    "TopK": lambda a, k, largest: np.sort(a, -1)[..., :k[0]] if not largest else None,
}


def run(path, x):
    """({name: output}, {key: metadata}) of a model for the input x."""
    with open(path, "rb") as f:
        model = fields(f.read())
    assert all_of(model, 1) == [8] and all_of(fields(all_of(model, 8)[0]), 2) == [17]
    graph = fields(all_of(model, 7)[0])
    (name, kind, shape), = map(value_info, all_of(graph, 11))
    assert (name, kind, shape) == ("x", 11, [b"rows", x.shape[1]]), (name, kind, shape)
    values = dict(map(tensor, all_of(graph, 5)), x=x)
    for node in map(fields, all_of(graph, 1)):
        attributes = {}
        for a in map(fields, all_of(node, 5)):
            numbers = all_of(a, 8) if all_of(a, 20) == [7] else all_of(a, 3)[0]
            attributes[all_of(a, 1)[0].decode()] = numbers
        inputs = [values[i.decode()] for i in all_of(node, 1)]  # defined before: the order is right
        output, operator = all_of(node, 2)[0].decode(), all_of(node, 4)[0].decode()
        assert output not in values, f"{output} is set twice"
        values[output] = OPERATORS[operator](*inputs, **attributes)
    outputs = [value_info(o) for o in all_of(graph, 12)]
    for name, kind, shape in outputs:
        assert (kind, shape[0]) == (11, b"rows") and values[name].shape == (len(x), shape[1]), name
    pairs = [fields(p) for p in all_of(model, 14)]
    return ({name: values[name] for name, _, _ in outputs},
            {all_of(p, 1)[0].decode(): all_of(p, 2)[0].decode() for p in pairs})
