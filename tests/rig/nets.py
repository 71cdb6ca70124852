"""Weights of the networks in model.h5."""
from rig import np


def parameters_of(f, network):
    """The row of the tables in /net of a network, and its parameters [member, parameter]; f: an open
    model.h5."""
    net = f["net"]
    row = {name: item[network] for name, item in net.items() if item.shape[:1] == net["n_layers"].shape}
    first, of = net["first_parameter"][()], net["network_of_member"][()]
    begin = first[of == network][0]
    end = min(first[of > network], default=net["parameters"].size)
    return row, net["parameters"][begin:end].reshape((of == network).sum(), -1)


def layers_of(f, network=0):
    """[(weights [member, output, input], biases [member, output])] of the dense layers."""
    net, w = parameters_of(f, network)
    found = []
    for layer in range(int(net["n_layers"])):
        out, into = int(net["layer_out"][layer]), int(net["layer_in"][layer])
        at, bias = int(net["weight_offset"][layer]), int(net["bias_offset"][layer])
        found.append((np.reshape(w[:, at:at + out * into], (-1, out, into)), w[:, bias:bias + out]))
    return found
