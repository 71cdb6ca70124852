"""Trainer: steps, losses of the caller, states, models, what is refused, tensors of torch."""
import os
import tempfile
import unittest

import numpy as np

import common  # noqa: F401, the path of the package
import tutti

try:
    import torch
except ImportError:
    torch = None

ROWS, INPUTS, TARGETS, MEMBERS = 16, 3, 2, 3
OPTIONS = {"inputs": INPUTS, "targets": TARGETS, "members": MEMBERS, "hidden": [8, 5],
           "activation": "tanh", "loss": "mse", "optimizer": "adam", "batch_size": ROWS, "seed": 5}


def make(**more):
    return tutti.Trainer(**{**OPTIONS, **more})


def rows(count=ROWS, seed=7):
    random = np.random.default_rng(seed)
    return (random.normal(size=(count, INPUTS)).astype(np.float32),
            random.normal(size=(count, TARGETS)).astype(np.float32))


def weights(trainer):
    return np.stack([trainer.get_weights(m) for m in range(trainer.members)])


def slope(output, y):
    """Derivative of the loss mse of each member; exact, since rows are a power of 2."""
    return (output - y) * np.float32(2 / TARGETS / output.shape[1])


def own_step(trainer, x, y):
    trainer.backward(slope(trainer.forward(x), y))
    trainer.update()


class Steps(unittest.TestCase):
    def test_a_step_is_forward_backward_and_update(self):
        x, y = rows()
        one, two = make(), make()
        for _ in range(5):
            output = two.forward(x)
            loss = one.step(x, y)
            np.testing.assert_allclose(loss, ((output - y) ** 2).mean((1, 2)), rtol=1e-5)
            two.backward(slope(output, y))
            two.update()
        np.testing.assert_array_equal(weights(one), weights(two))
        self.assertFalse(np.array_equal(weights(one), weights(make())))

    def test_shapes(self):
        x, y = rows()
        t = make(loss="gaussian_nll")
        self.assertEqual((t.members, t.outputs, t.inputs, t.targets), (3, 4, 3, 2))
        self.assertEqual(t.parameters, 3 * 8 + 8 + 8 * 5 + 5 + 5 * 4 + 4)
        self.assertEqual(repr(t), "<tutti.Trainer: 3 members, 3 inputs, 4 outputs, 101 parameters "
                                  "each>")
        self.assertEqual(t.step(x, y).shape, (3,))
        self.assertEqual(t.forward(x[:4]).shape, (3, 4, 4))
        self.assertIsNone(t.backward(np.zeros((3, 4, 4))))
        self.assertEqual(t.backward(np.zeros((3, 4, 4)), inputs=True).shape, (3, 4, 3))
        t.update()
        self.assertEqual(t.predict(np.tile(x, (5, 1))).shape, (3, 80, 4))
        self.assertEqual(t.predict(x[:0]).shape, (3, 0, 4))

    def test_one_target_needs_no_axis(self):
        x, y = rows()
        one, two = make(targets=1), make(targets=1)
        one.step(x, y[:, 0])
        two.step(x, y[:, :1])
        np.testing.assert_array_equal(weights(one), weights(two))
        one.forward(x)
        one.backward(np.ones((MEMBERS, ROWS)))

    def test_rows_of_each_member(self):
        x, y = rows(40)
        index = np.random.default_rng(1).integers(40, size=(MEMBERS, ROWS))
        one, two = make(), make()
        for _ in range(3):
            one.step(x, y, index=index)
            two.step(x[index], y[index])
        np.testing.assert_array_equal(weights(one), weights(two))
        np.testing.assert_array_equal(one.forward(x, index=index), one.forward(x[index]))

    def test_rows_without_weight_do_not_count(self):
        x, y = rows()
        weight = np.ones(ROWS)
        one, two = make(), make()
        one.step(x, y)
        two.step(x, y, weight)
        np.testing.assert_array_equal(weights(one), weights(two))
        weight[5:9] = 0
        other = y.copy()
        other[5:9] += 3
        one.step(x, y, weight)
        two.step(x, other, weight)
        np.testing.assert_array_equal(weights(one), weights(two))

    def test_gradients_of_several_calls_are_added(self):
        x, y = rows()
        one, two = make(optimizer="sgd"), make(optimizer="sgd")
        own_step(one, x, y)
        for part in np.split(np.arange(ROWS), 2):
            two.backward(slope(two.forward(x[part]), y[part]) / 2)
        two.update()
        np.testing.assert_allclose(weights(one), weights(two), atol=1e-6)

    def test_a_gradient_that_is_taken(self):
        """Steps of gradient descent with it are those of sgd; then it is gone."""
        x, y = rows()
        one, two = make(optimizer="sgd", learning_rate=0.1), make()
        for _ in range(3):
            own_step(one, x, y)
            for part in np.split(np.arange(ROWS), 2):
                two.backward(slope(two.forward(x[part]), y[part]) / 2)
            after = weights(two) - np.float32(0.1) * two.take_gradient()
            two.set_weights(-1, after)
        np.testing.assert_allclose(weights(one), weights(two), atol=1e-6)
        with self.assertRaisesRegex(tutti.InputError, "call Trainer.backward before Trainer.take"):
            two.take_gradient()
        two.step(x, y)
        front = make(inputs=16, model={"image": [1, 4, 4], "front": ["conv 2 3", "batch_norm"]})
        front.backward(slope(front.forward(np.ones((4, 1, 4, 4))), np.zeros((4, TARGETS))))
        with self.assertRaisesRegex(tutti.InputError, "batch_norm, whose running values"):
            front.take_gradient()
        front.update()

    def test_images_have_their_axes(self):
        options = {"inputs": 32, "model": {"image": [2, 4, 4], "front": ["conv 2 3"]}}
        x, y = np.random.default_rng(3).normal(size=(ROWS, 2, 4, 4)), rows()[1]
        one, two, three = make(**options), make(**options), make(**options)
        one.step(x, y)
        two.step(x.reshape(ROWS, 32), y)
        three.step(np.stack([x] * MEMBERS), np.stack([y] * MEMBERS))
        np.testing.assert_array_equal(weights(one), weights(two))
        np.testing.assert_array_equal(weights(one), weights(three))
        np.testing.assert_array_equal(one.predict(x), one.predict(x.reshape(ROWS, 32)))
        with self.assertRaisesRegex(ValueError, r"x has the shape \(16, 2, 4, 3\)"):
            one.step(x[..., :3], y)

    def test_gradient_of_the_inputs(self):
        x, _ = rows()
        for scale in (None, (np.zeros(INPUTS), [1.0, 2.0, 4.0])):
            t, step = make(x_scale=scale), 0.02
            output = t.forward(x)
            got = t.backward(np.ones_like(output), inputs=True)
            for i, move in enumerate(np.eye(INPUTS) * step):
                want = (t.predict(x + move) - t.predict(x - move)).sum(2) / (2 * step)
                np.testing.assert_allclose(got[:, :, i], want, atol=2e-3)

    def test_predict_is_forward_without_dropout(self):
        x, _ = rows()
        plain, noisy = make(), make(dropout=0.5)
        np.testing.assert_array_equal(plain.predict(x), plain.forward(x))
        many = np.tile(x, (5, 1))  # more than a batch
        np.testing.assert_array_equal(plain.predict(many), np.tile(plain.predict(x), (1, 5, 1)))
        np.testing.assert_array_equal(noisy.predict(x), plain.predict(x))
        self.assertFalse(np.array_equal(noisy.forward(x), plain.forward(x)))


class States(unittest.TestCase):
    def test_a_state_continues_with_the_same_bits(self):
        x, y = rows()
        options = {"dropout": 0.2, "schedule": "cosine", "epochs": 20, "epoch_rows": 2 * ROWS}
        whole, other = make(**options), make(**options)
        for _ in range(4):
            whole.step(x, y)
        state = whole.get_state()
        self.assertIsInstance(state, bytes)
        for _ in range(6):
            whole.step(x, y)
        other.set_state(state)
        for _ in range(6):
            other.step(x, y)
        np.testing.assert_array_equal(weights(whole), weights(other))
        self.assertEqual(whole.get_state(), other.get_state())

    def test_other_states_are_refused(self):
        t, state = make(), make(hidden=[9]).get_state()
        before = weights(t)
        with self.assertRaisesRegex(tutti.InputError, "other options"):
            t.set_state(state)
        with self.assertRaises(tutti.InputError):
            t.set_state(b"")
        damaged = bytearray(t.get_state())
        damaged[-3] ^= 4
        with self.assertRaises(tutti.InputError):
            t.set_state(bytes(damaged))
        np.testing.assert_array_equal(weights(t), before)

    def test_weights_rates_and_reset(self):
        x, y = rows()
        t = make(learning_rate=0.01)
        self.assertAlmostEqual(t.learning_rate(2), 0.01)
        start = weights(t)
        t.set_learning_rate(0, member=1)
        t.step(x, y)
        same = (weights(t) == start).all(1)
        self.assertEqual(same.tolist(), [False, True, False])
        t.set_weights(0, start[0])
        np.testing.assert_array_equal(t.get_weights(0), start[0])
        first = OPTIONS["hidden"][0] * INPUTS  # weights (out, in), then biases
        hidden = np.tanh(x @ start[0][:first].reshape(-1, INPUTS).T + start[0][first:first + 8])
        second, third = start[0][first + 8:first + 53], start[0][first + 53:]
        hidden = np.tanh(hidden @ second[:40].reshape(5, 8).T + second[40:])
        np.testing.assert_allclose(t.predict(x)[0], hidden @ third[:10].reshape(2, 5).T + third[10:],
                                   atol=1e-5)
        t.reset(0)
        self.assertFalse(np.array_equal(t.get_weights(0), start[0]))

    def test_model_and_file_predict_the_same(self):
        x, y = rows()
        scale = {"x_scale": ([1, 2, 3], [2, 3, 4]), "y_scale": ([-1, 5], [10, 0.5])}
        t = make(input_names=["a", "b", "c"], target_names=["u", "v"], **scale)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "m.h5")
            t.save(file)
            t.step(x, y)
            t.save(file)  # replaces the file
            saved = tutti.Model(file)
        model = t.model()
        t.step(x, y)  # does not change the model
        for one in (model, saved):
            self.assertEqual((one.input_names, one.targets), (["a", "b", "c"], ["u", "v"]))
        p, q = (one.predict(x, members=True) for one in (model, saved))
        for name in p:
            np.testing.assert_array_equal(p[name], q[name], err_msg=name)
        now = t.model().predict(x, members=True).member_mean
        np.testing.assert_allclose(now, t.predict(x) * np.float32([10, 0.5]) + np.float32([-1, 5]),
                                   atol=1e-5)
        self.assertFalse(np.array_equal(now, p.member_mean))


class Refused(unittest.TestCase):
    def check(self, calls):
        for call, kind, text in calls:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_options(self):
        self.check((
            (lambda: make(hiden=[3]), tutti.InputError, "^unknown parameter 'hiden'.*'hidden'"),
            (lambda: make(loss="mean"), tutti.InputError, "^loss: 'mean' is"),
            (lambda: make(members=0), tutti.InputError, "^members: 0"),
            (lambda: make(inputs=0), tutti.InputError, "0 inputs and 2 targets"),
            (lambda: make(resample="bootstrap"), tutti.InputError, "^resample: the caller"),
            (lambda: make(schedule="cosine"), tutti.InputError, "set epoch_rows"),
            (lambda: make(input_names=["a"]), ValueError, "1 input names for 3 columns"),
            (lambda: make(x_scale=([0, 0], [1, 1])), ValueError, "2 values for 3 columns"),
            (lambda: make(y_scale=([0, 0], [1, 0])), tutti.InputError, r"y_scale\[1\] is 0")))

    def test_arrays(self):
        t, (x, y) = make(), rows()
        wide = np.zeros((ROWS, 4))
        index = np.zeros((MEMBERS, 4), dtype=int)
        before = weights(t)
        self.check((
            (lambda: t.step(wide, y), ValueError, r"shape \(16, 4\): \(rows, 3\)"),
            (lambda: t.step(x[0], y), ValueError, r"x has the shape \(3,\)"),
            (lambda: t.step(x[None], y), ValueError, "rows of 1 members: there are 3"),
            (lambda: t.step(x, y[:9]), ValueError, r"y has the shape \(9, 2\): \(16, 2\)"),
            (lambda: t.step(x, y.T), ValueError, r"y has the shape \(2, 16\): \(16, 2\)"),
            (lambda: t.step(x, None), tutti.InputError, "y is NULL"),
            (lambda: t.step(x, y, np.ones(3)), ValueError, r"weight has the shape \(3,\): \(16,\)"),
            (lambda: t.step(x, y, -np.ones(ROWS)), tutti.InputError, r"weight\[0\] is -1"),
            (lambda: t.step(x, y, index=index[:2]), ValueError, r"index has the shape \(2, 4\)"),
            (lambda: t.step(x, y, index=index + 0.5), ValueError, "integers"),
            (lambda: t.step(x, y, index=index + ROWS), tutti.InputError, "rows are 0 to 15"),
            (lambda: t.step(np.tile(x, (2, 1)), np.tile(y, (2, 1))), tutti.InputError,
             "at most train.batch_size, 16"),
            (lambda: t.step(x * np.nan, y), tutti.InputError, r"x\[0\]\[0\] is nan"),
            (lambda: t.predict(wide), ValueError, r"x has the shape \(16, 4\)"),
            (lambda: t.set_weights(0, [1, 2]), ValueError, "2 weights: a member has 89"),
            (lambda: t.get_weights(3), tutti.InputError, "member 3"),
            (lambda: t.learning_rate(3), ValueError, "no member 3"),
            (lambda: t.set_learning_rate(-1), tutti.InputError, "learning rate"),
            (lambda: t.save("/nowhere/m.h5"), tutti.Error, "/nowhere")))
        np.testing.assert_array_equal(weights(t), before)

    def test_order_of_calls(self):
        t, (x, y) = make(), rows()
        zero = np.zeros((MEMBERS, ROWS, TARGETS))
        self.check(((t.update, tutti.InputError, "call Trainer.backward before"),))
        t.step(x, y)
        self.check(((lambda: t.backward(zero), tutti.InputError, "call Trainer.forward before"),))
        t.forward(x)
        self.check(((lambda: t.backward(zero.T), ValueError, r"\(2, 16, 3\): \(3, 16, 2\)"),))
        t.backward(zero)
        self.check(((lambda: t.step(x, y), tutti.InputError, "Trainer.update before"),
                    (t.get_state, tutti.InputError, "Trainer.update first")))
        t.update()
        t.step(x, y)

    def test_a_closed_trainer(self):
        x, y = rows()
        with make() as t:
            model = t.model()
        t.close()
        for call in (lambda: t.step(x, y), lambda: t.predict(x), t.model, t.get_state,
                     lambda: t.get_weights(0), t.update, t.learning_rate):
            with self.assertRaisesRegex(ValueError, "this Trainer is closed"):
                call()
        self.assertTrue(np.isfinite(model.predict(x).mean).all())


@unittest.skipUnless(torch, "torch is not installed")
class Torch(unittest.TestCase):
    def test_tensors_are_arrays(self):
        x, y = rows()
        index = np.random.default_rng(1).integers(ROWS, size=(MEMBERS, 4))
        one, two = make(), make()
        for kind in (torch.float32, torch.float64):
            one.step(x, y, np.ones(ROWS))
            two.step(torch.tensor(x, dtype=kind, requires_grad=True), torch.tensor(y, dtype=kind),
                     torch.ones(ROWS))
        one.step(x, y, index=index)
        two.step(torch.tensor(x), torch.tensor(y), index=torch.tensor(index))
        two.set_weights(0, torch.tensor(one.get_weights(0)))
        np.testing.assert_array_equal(weights(one), weights(two))
        turned = torch.tensor(x.T.copy()).T  # not contiguous
        np.testing.assert_array_equal(one.predict(x), two.predict(turned))

    def test_a_loss_of_torch(self):
        x, y = rows()
        one, two = make(), make()
        for _ in range(5):
            one.step(x, y)
            output = torch.from_numpy(two.forward(torch.tensor(x))).requires_grad_()
            ((output - torch.tensor(y)) ** 2).mean((1, 2)).sum().backward()
            two.backward(output.grad)
            two.update()
        np.testing.assert_allclose(weights(one), weights(two), atol=1e-5)


if __name__ == "__main__":
    unittest.main()
