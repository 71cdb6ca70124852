"""Weights of the networks in model.h5, of jobs with one shape of networks or several."""
from rig import np


def parameters_of(f, cohort):
    """The row of the tables in /net of a cohort, and its parameters [member, parameter]; f: an open
    model.h5 with several cohorts."""
    several = f["net/members"].shape
    net = {name: item[cohort] for name, item in f["net"].items() if item.shape[:1] == several}
    count, each, begin = (int(net[n]) for n in ("members", "member_parameters", "first_parameter"))
    return net, f["net/parameters"][begin:begin + count * each].reshape(count, each)


def layers_of(f, cohort=0):
    """[(weights [member, output, input], biases [member, output])] of the dense layers."""
    if "cohorts" not in f.attrs:
        names = sorted(n for n in f["net"] if n.startswith("layer"))
        return [(f[f"net/{n}/weight"][()], f[f"net/{n}/bias"][()]) for n in names]
    net, w = parameters_of(f, cohort)
    found = []
    for layer in range(int(net["n_layers"])):
        out, into = int(net["layer_out"][layer]), int(net["layer_in"][layer])
        at, bias = int(net["weight_offset"][layer]), int(net["bias_offset"][layer])
        found.append((np.reshape(w[:, at:at + out * into], (-1, out, into)), w[:, bias:bias + out]))
    return found
