"""What a model predicts, by NumPy: of the arrays that torch_module.py reads from model.h5, so that its
reader and its formulas are checked where PyTorch is not installed."""
import sys
import unittest.mock

from rig import h5py, np, ROOT

TORCH_MODULE = ROOT / "src/export/torch_module.py"


def read_model(file, group=None):
    """What the module of PyTorch reads from model.h5, without PyTorch."""
    torch = unittest.mock.MagicMock()
    torch.nn.Module = object
    with unittest.mock.patch.dict(sys.modules, {"torch": torch, "torch.nn": torch.nn}):
        space = {}
        exec(TORCH_MODULE.read_text(), space)
    with h5py.File(file) as f:
        return space["read_model"](f, group)


erf = np.vectorize(__import__("math").erf, otypes=[float])
softplus = lambda z: np.logaddexp(0, z)
sigmoid = lambda z: 1 / (1 + np.exp(-z))
ACTIVATION = {"identity": lambda z: z, "relu": lambda z: np.maximum(z, 0), "tanh": np.tanh,
              "leaky_relu": lambda z: np.maximum(z, 0.01 * z), "sigmoid": sigmoid, "softplus": softplus,
              "silu": lambda z: z * sigmoid(z), "gelu": lambda z: z * (1 + erf(z / 2 ** 0.5)) / 2,
              "elu": lambda z: np.where(z < 0, np.expm1(np.minimum(z, 0)), z), "sine": np.sin,
              "hardtanh": lambda z: np.clip(z, -1, 1)}


def yeo_johnson(v, p):                          # p in [0, 2]; the limit of power 0 is the logarithm
    power = np.maximum(np.where(v < 0, 2 - p, p), 1e-12)
    return np.copysign(np.expm1(power * np.log1p(abs(v))) / power, v)


TRANSFORM = {"identity": lambda v, p: v, "log": lambda v, p: np.log(v), "log1p": lambda v, p: np.log1p(v),
             "yeo_johnson": yeo_johnson}


def undo(kind, m, v, p):                        # Gaussian numbers (mean m, variance v) in user's units
    if kind == "identity":
        return m, v
    if kind != "yeo_johnson":                  # log-normal
        return np.exp(m + v / 2) - (kind == "log1p"), np.expm1(v) * np.exp(2 * m + v)
    z = np.arange(-18, 19) / 2                  # by the trapezoidal rule
    t, weight = m[..., None] + np.sqrt(v)[..., None] * z, np.exp(-z ** 2 / 2)
    power = np.maximum(np.where(t < 0, 2 - p, p), 1e-12)
    value = np.copysign(np.expm1(np.log1p(power * abs(t)) / power), t)
    mean = value @ weight / weight.sum()
    return mean, (value - mean[..., None]) ** 2 @ weight / weight.sum()


def windows(h, f):                              # (..., y, x) -> (..., y, x, position of the kernel)
    n = [(have - d * (s - 1) - 1) // t + 1
         for have, s, t, d in zip(h.shape[-2:], f("size"), f("stride"), f("dilation", (1, 1)))]
    at = lambda k, axis: slice(k * f("dilation", (1, 1))[axis], k * f("dilation", (1, 1))[axis] + (n[axis] - 1) * f("stride")[axis] + 1, f("stride")[axis])
    return np.stack([h[..., at(v, 0), at(u, 1)] for v in range(f("size")[0]) for u in range(f("size")[1])], -1)


def front_layer(h, kind, f):                    # h (member, row, channel, y, x)
    channel = lambda name: f(name)[:, None, :, None, None]
    if kind in ("conv", "pool"):
        outside = -np.inf if f("pool") == "max" else 0
        p = windows(np.pad(h, [(0, 0)] * 3 + [(n, n) for n in f("pad")], constant_values=outside), f)
    if kind == "conv":
        w = f("weight").astype(float)
        p = p.reshape(*h.shape[:2], f("groups"), w.shape[2], *p.shape[3:])
        z = np.einsum("mrgcyxk,mgock->mrgoyx", p, w.reshape(len(w), f("groups"), -1, w.shape[2], p.shape[-1]))
        z = z.reshape(*h.shape[:2], -1, *z.shape[-2:])
        return z if f("bias") is None else z + channel("bias")
    if kind == "group_norm":
        z = h.reshape(*h.shape[:2], f("groups"), -1)
        z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
        return z.reshape(h.shape) * channel("weight") + channel("bias")
    if kind == "batch_norm":
        z = (h - channel("running_mean")) / np.sqrt(channel("running_variance").astype(float) + 1e-5)
        return z * channel("weight") + channel("bias")
    if kind == "pool":
        return {"max": np.max, "mean": np.mean}[f("pool")](p, -1)
    if kind == "global_mean":
        return h.mean((-2, -1), keepdims=True)
    return h


def head(o, kind, floor):                       # o (member, row, target, output) -> mean, variance
    if kind == "mean_variance":
        return o[..., :1], softplus(o[..., 1:]) + floor
    if kind == "softmax":
        log_p = o - np.logaddexp.reduce(o, axis=-1, keepdims=True)
        p, entropy = np.exp(log_p), -(np.exp(log_p) * log_p).sum(-1, keepdims=True)
        return np.concatenate([p, entropy], -1), np.concatenate([p * (1 - p), 0 * entropy], -1)
    mean = {"quantiles": lambda o: np.sort(o, -1), "sigmoid": sigmoid, "rate": np.exp}.get(kind, lambda o: o)(o)
    return mean, {"sigmoid": mean * (1 - mean), "rate": mean}.get(kind, 0 * mean)


def network(get, h):                            # h (row, input) -> (member, row, output)
    if get("front"):                            # images and profiles
        values = [np.repeat(h.reshape(1, -1, *get("front_shape")), get("members"), 0)]
        for layer in get("front"):
            z, activation = front_layer(values[layer["source"]], layer["kind"], layer.get), ACTIVATION[layer["activation"]]
            skip = values[layer["skip"]] if layer["skip"] >= 0 else 0
            values.append(activation(z + skip) if layer["activates_sum"] else activation(z) + skip)
        h = values[-1].reshape(*values[-1].shape[:2], -1)
    for layer in get("layers"):
        z = h @ layer["weight"].swapaxes(1, 2).astype(float) + layer["bias"][:, None]
        if "gain" in layer:
            z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
            z = z * layer["gain"][:, None] + layer["shift"][:, None]
        z = ACTIVATION[layer["activation"]](z)
        h = z + h if layer["residual"] else z
    return h


def predict(f, x):                              # of read_model; x (row, input) -> mean, total, aleatoric, epistemic
    results = []
    if f["mapped"]:                             # categories, or inputs that may be missing
        v = x[:, f["x_column"]]
        x = np.where(np.isnan(v), f["x_fill"], v)
        x = np.where(f["is_level"], v == f["x_level"], x)
        x = np.where(f["is_missing"], np.isnan(v), x)
    t = np.stack([TRANSFORM[kind](x[:, i], f["x_lambda"][i]) for i, kind in enumerate(f["x_transform"])], 1)
    for cohort in f["cohorts"]:
        get = cohort.get
        h = (t - f["x_mean"]) / f["x_scale"]
        h = np.concatenate([network(n.get, h) for n in get("networks")])
        o = h.reshape(*h.shape[:2], -1, get("targets")).swapaxes(2, 3)
        mu, v = (a.reshape(*h.shape[:2], -1) for a in head(o, get("output"), get("variance_floor")))
        if get("component") is not None:        # amplitudes of components -> targets
            mu = mu @ get("component") + get("component_mean")
            v = v @ get("component") ** 2 + get("residual_variance")
        of, width = get("ensemble"), mu.shape[-1]
        share = get("share")[:, None] * (of[:, None] == np.arange(get("ensembles")))
        average = lambda a: np.einsum("ge,gnw->new", share, a)
        of_members = lambda a: a.swapaxes(0, 1)[of]
        each = lambda name: get(name)[of[:, None] * width + np.arange(width)][:, None]
        center = of_members(average(mu))        # recalibration, and the same without a wider member
        near, apart = np.minimum(each("std_scale"), each("scale")), of_members(average((mu - center) ** 2))
        mu = center * each("scale") + each("offset") + (mu - center) * near
        own = v * each("std_scale") ** 2 + each("noise") ** 2
        v = own + (each("std_scale") ** 2 - near ** 2) * apart
        for column, kind in enumerate(get("transform")):
            at = np.s_[of == column // width, :, column % width]
            own[at] = undo(kind, mu[at], own[at], get("y_lambda")[column])[1]
            mu[at], v[at] = undo(kind, mu[at], v[at], get("y_lambda")[column])
        mean, within = average(mu), average(own)
        between = average((mu - of_members(mean)) ** 2 + v - own)
        rows = lambda a: a.reshape(len(x), -1)
        results.append([rows(mean), *np.sqrt([rows(within + between), rows(within), rows(between)])])
    return np.concatenate(results, axis=-1)
