"""The interpreter of the teachers' graphs, on graphs of a few nodes: no file, no package, no teacher."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from training import onnx_rewrite
from training.onnx_graph import Graph, read
from training.onnx_ops import Node
from training.onnx_rewrite import Model
from training.teachers import packs, quietest, take_apart
from training.trimming import FADE, LEVEL, RATE, finish, resample, statistics


def model(nodes, constants=None, inputs=("x",), outputs=("y",)):
    return Model(tuple(nodes), dict(constants or {}), tuple(inputs), tuple(outputs))


def run(nodes, constants=None, *, x, **options):
    return Graph(model(nodes, constants), "cpu", **options)({"x": x})["y"]


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(left, right, tolerance=1e-5):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


# Running


def test_shapes_stay_on_the_host():
    nodes = [Node("Shape", ("x",), ("s",)), Node("Gather", ("s", "one"), ("n",)), Node("Mul", ("n", "two"), ("y",))]
    y = run(nodes, {"one": np.array(1), "two": np.array(2)}, x=torch.zeros(3, 5))
    assert isinstance(y, np.ndarray) and y == 10


def test_what_depends_on_constants_alone_is_worked_out_once():
    nodes = [Node("Mul", ("g", "v"), ("w",)), Node("Exp", ("w",), ("e",)), Node("MatMul", ("x", "e"), ("y",))]
    g, v = array(8, 1), array(8, 6, seed=1)
    graph = Graph(model(nodes, {"g": g, "v": v}), "cpu")
    assert [node.op for node in graph.nodes] == ["MatMul"]
    same(graph({"x": torch.eye(8)})["y"], torch.from_numpy(np.exp(g * v)))


def test_a_given_input_is_folded_away():
    nodes = [Node("Exp", ("style",), ("e",)), Node("Add", ("x", "e"), ("y",))]
    graph = Graph(model(nodes, inputs=("x", "style")), "cpu", given={"style": np.ones(64, np.float32)})
    assert len(graph.nodes) == 1
    same(graph({"x": torch.zeros(64)})["y"], torch.full((64,), float(np.e)))


def test_other_values_can_be_asked_for_and_the_rest_is_left_out():
    nodes = [Node("Exp", ("x",), ("middle",)), Node("Neg", ("middle",), ("y",)), Node("Sin", ("x",), ("unused",))]
    graph = Graph(model(nodes), "cpu", outputs=("y", "middle"))
    found = graph({"x": torch.zeros(2)})
    assert len(graph.nodes) == 2 and set(found) == {"y", "middle"}
    same(found["middle"], torch.ones(2))


def test_values_are_freed_after_their_last_use():
    nodes = [Node("Exp", ("x",), ("a",)), Node("Neg", ("a",), ("b",)), Node("Add", ("a", "b"), ("y",))]
    assert [set(names) for names in Graph(model(nodes), "cpu")._dead] == [{"x"}, set(), {"a", "b"}]


def test_half_precision_holds_for_its_part_only():
    steps = (("x", "first", "a"), ("a", "second", "b"), ("b", "third", "y"))
    nodes = [Node("Add", (value, constant), (result,)) for value, constant, result in steps]
    tiny = 2.0**-14
    constants = {name: np.full(64, tiny, np.float32) for name in ("first", "second", "third")}
    y = run(nodes, constants, x=torch.ones(64), half=("second", "third"))
    assert y.dtype == torch.float32
    same(y, torch.full((64,), 1 + tiny), tolerance=1e-7)  # the first two are lost on the way through half precision
    with pytest.raises(ValueError, match="nowhere"):
        run(nodes, constants, x=torch.ones(64), half=("nowhere", None))


def test_an_unknown_operator_is_named():
    with pytest.raises(NotImplementedError, match="Bogus"):
        run([Node("Bogus", ("x",), ("y",))], x=torch.zeros(1))


# Operators


def test_slice_backwards_and_with_open_ends():
    end = np.array([np.iinfo(np.int64).min])
    constants = {"from": np.array([-1]), "to": end, "axis": np.array([1]), "by": np.array([-1])}
    x = noise(2, 5)
    same(run([Node("Slice", ("x", "from", "to", "axis", "by"), ("y",))], constants, x=x), x.flip(1))
    constants = {"from": np.array([-2]), "to": np.array([99]), "axis": np.array([1])}
    same(run([Node("Slice", ("x", "from", "to", "axis"), ("y",))], constants, x=x), x[:, 3:])


def test_points_are_gathered_and_scattered():
    index, x = torch.tensor([[0, 1], [2, 0]]), noise(3, 2)
    nodes = [Node("GatherND", ("x", "i"), ("u",)), Node("Neg", ("u",), ("n",))]
    nodes.append(Node("ScatterND", ("x", "i", "n"), ("y",)))
    wanted = x.clone()
    wanted[0, 1], wanted[2, 0] = -x[0, 1], -x[2, 0]
    same(run(nodes, {"i": index}, x=x), wanted)


def test_gather_along_a_later_axis_keeps_the_shape_of_the_index():
    x, index = noise(2, 5, 3), np.array([[4, 0], [1, 1]])
    same(run([Node("Gather", ("x", "i"), ("y",), {"axis": 1})], {"i": index}, x=x), x[:, torch.from_numpy(index)])


def test_resize_repeats_or_interpolates():
    x = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    twice, half = np.array([1, 1, 2], np.float32), np.array([1, 1, 0.5], np.float32)
    repeated = run([Node("Resize", ("x", "", "s"), ("y",), {"mode": "nearest"})], {"s": twice}, x=x)
    same(repeated, x.repeat_interleave(2, -1))
    between = run([Node("Resize", ("x", "", "s"), ("y",), {"mode": "linear"})], {"s": half}, x=x)
    same(between, torch.tensor([[[0.5, 2.5]]]))


def test_stft_is_that_of_torch():
    window, x = np.hanning(21)[:20].astype(np.float32), noise(1, 100)
    constants = {"step": np.array(5), "window": window, "length": np.array(20)}
    y = run([Node("STFT", ("x", "step", "window", "length"), ("y",))], constants, x=x[..., None])
    wanted = torch.stft(x, 20, 5, 20, torch.from_numpy(window), center=False, return_complex=True)
    same(y, torch.view_as_real(wanted).transpose(1, 2))


def test_the_phase_of_nothing_is_a_number():
    same(run([Node("Div", ("x", "x"), ("d",)), Node("Atan", ("d",), ("y",))], x=torch.zeros(2)), torch.zeros(2))


# Rewriting


def quantised(weight, axis=None):
    scale = np.asarray(np.abs(weight).max(axis) / 127, dtype=np.float32)
    return np.round(weight / scale).astype(np.int8), scale


def test_an_integer_product_becomes_a_float_one():
    weight, scale = quantised(array(6, 4), axis=0)
    nodes = [
        Node("DynamicQuantizeLinear", ("x",), ("xq", "xs", "xz")),
        Node("MatMulInteger", ("xq", "w", "xz", "wz"), ("p",)),
        Node("Mul", ("xs", "ws"), ("s",)),
        Node("Cast", ("p",), ("c",), {"to": 1}),
        Node("Mul", ("c", "s"), ("y",)),
    ]
    x = noise(3, 6)
    zero = np.array([0, 1, 2, 3], np.int8)
    y = run(nodes, {"w": weight, "wz": zero, "ws": scale}, x=x)
    same(y, x @ torch.from_numpy((weight - zero.astype(np.float32)) * scale))


def test_an_integer_convolution_takes_its_bias_unrounded():
    weight, scale = quantised(array(4, 3, 5))
    nodes = [
        Node("DynamicQuantizeLinear", ("x",), ("xq", "xs", "xz")),
        Node("ConvInteger", ("xq", "w", "xz", "wz"), ("p",), {"pads": [2, 2]}),
        Node("Mul", ("xs", "ws"), ("s",)),
        Node("Div", ("bias", "s"), ("b1",)),
        Node("Floor", ("b1",), ("b2",)),
        Node("Cast", ("b2",), ("b3",), {"to": 6}),
        Node("Reshape", ("b3", "shape"), ("b4",)),
        Node("Add", ("p", "b4"), ("q",)),
        Node("Cast", ("q",), ("c",), {"to": 1}),
        Node("Mul", ("c", "s"), ("y",)),
    ]
    bias, x = array(4, seed=3), noise(1, 3, 9)
    constants = {"w": weight, "wz": np.array(0, np.int8), "ws": scale, "bias": bias, "shape": np.array([1, -1, 1])}
    y = run(nodes, constants, x=x)
    same(y, F.conv1d(x, torch.from_numpy(weight * scale), torch.from_numpy(bias), padding=2))


def test_a_quantised_recurrent_layer_keeps_its_gates_in_order():
    hidden, size = 3, 4
    layer = torch.nn.LSTM(size, hidden, bidirectional=True).requires_grad_(False)
    to_file = np.r_[0:hidden, 3 * hidden : 4 * hidden, hidden : 3 * hidden]  # i, f, c, o -> i, o, f, c

    def both(part):
        return np.stack([getattr(layer, f"{part}_l0{end}").numpy()[to_file] for end in ("", "_reverse")])

    one = np.ones(2, np.float32)
    steps = 64.0
    constants = {"w": np.round(both("weight_ih") * steps), "r": np.round(both("weight_hh") * steps)}
    for end in ("", "_reverse"):
        for part in ("weight_ih", "weight_hh"):
            getattr(layer, f"{part}_l0{end}").copy_(torch.round(getattr(layer, f"{part}_l0{end}") * steps) / steps)
    constants = {name: value.transpose(0, 2, 1).astype(np.int8) for name, value in constants.items()}
    constants["b"] = np.concatenate([both("bias_ih"), both("bias_hh")], 1)
    constants |= {"z": np.zeros(2, np.int8), "s": one / np.float32(steps)}
    node = Node(
        "DynamicQuantizeLSTM",
        ("x", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"),
        ("y", "h", "c"),
        {"hidden_size": hidden, "direction": "bidirectional"},
    )
    x = noise(7, 1, size)
    same(run([node], constants, x=x), layer(x)[0].unflatten(-1, (2, hidden)).transpose(1, 2))


def test_a_table_of_integers_becomes_one_of_floats():
    table, scale = quantised(array(9, 5))
    nodes = [Node("Gather", ("t", "x"), ("q",)), Node("DequantizeLinear", ("q", "s", "z"), ("y",))]
    y = run(nodes, {"t": table, "s": scale, "z": np.array(2, np.int8)}, x=torch.tensor([[8, 0]]))
    same(y, torch.from_numpy((table[[[8, 0]]] - np.float32(2)) * scale))


@pytest.mark.parametrize(
    ("stride", "kernel", "pads", "extra"), [(4, 8, 2, 0), (5, 20, 0, 0), (3, 6, 2, 1), (2, 3, 1, 1)]
)
def test_a_transposed_convolution_is_the_same_in_phases(stride, kernel, pads, extra):
    weight, bias, x = array(3, 2, kernel), array(2), noise(2, 3, 11)
    node = Node(
        "ConvTranspose",
        ("x", "w", "b"),
        ("y",),
        {"strides": [stride], "pads": [pads, pads], "output_padding": [extra], "group": 1},
    )
    graph = Graph(model([node], {"w": weight, "b": bias}), "cpu")
    assert graph.nodes[0].op == ("ConvTranspose" if kernel % stride else "Polyphase")
    wanted = F.conv_transpose1d(x, torch.from_numpy(weight), torch.from_numpy(bias), stride, pads, extra)
    same(graph({"x": x})["y"], wanted)


def norm_nodes():
    return [
        Node("ReduceMean", ("x", "last"), ("m",)),
        Node("Sub", ("x", "m"), ("d",)),
        Node("Mul", ("d", "d"), ("q",)),
        Node("ReduceMean", ("q", "last"), ("v",)),
        Node("Add", ("v", "eps"), ("e",)),
        Node("Sqrt", ("e",), ("r",)),
        Node("Div", ("d", "r"), ("n",)),
    ]


def test_norms_and_snakes_become_one_node_each():
    nodes = [
        *norm_nodes(),
        Node("Mul", ("gamma", "n"), ("g",)),
        Node("Add", ("g", "beta"), ("z",)),
        Node("Mul", ("alpha", "z"), ("a",)),
        Node("Sin", ("a",), ("sin",)),
        Node("Pow", ("sin", "two"), ("p",)),
        Node("Mul", ("inverse", "p"), ("w",)),
        Node("Add", ("z", "w"), ("y",)),
    ]
    parts = {name: array(1, 40, 1, seed=seed) for seed, name in enumerate(("gamma", "beta", "alpha", "inverse"))}
    constants = parts | {"last": np.array([-1]), "eps": np.array(1e-5, np.float32), "two": np.array(2, np.float32)}
    graph = Graph(model(nodes, constants), "cpu")
    assert [node.op for node in graph.nodes] == ["InstanceNormalization", "Snake"]
    x = noise(1, 40, 50) * 3 + 1
    gamma, beta, alpha, inverse = (torch.from_numpy(parts[name]) for name in ("gamma", "beta", "alpha", "inverse"))
    z = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() * gamma + beta
    same(graph({"x": x})["y"], z + inverse * (alpha * z).sin() ** 2)


def test_a_norm_that_others_read_too_keeps_its_value():
    nodes = [*norm_nodes(), Node("Mul", ("n", "n"), ("y",))]
    constants = {"last": np.array([-1]), "eps": np.array(1e-5, np.float32)}
    x = noise(1, 40, 50)
    same(run(nodes, constants, x=x), F.instance_norm(x).square(), tolerance=1e-4)


def test_pruning_keeps_what_is_needed_and_nothing_else():
    left = onnx_rewrite.prune(model([Node("Exp", ("x",), ("y",)), Node("Add", ("x", "k"), ("z",))], {"k": np.ones(1)}))
    assert len(left.nodes) == 1 and not left.constants


# Files


def test_a_file_is_read_with_half_constants_as_floats():
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weight = array(4, 16).astype(np.float16)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("LeakyRelu", ["m"], ["y"], alpha=0.5)],
        "tiny",
        [value("x", TensorProto.FLOAT, [2, 4])],
        [value("y", TensorProto.FLOAT, [2, 16])],
        [numpy_helper.from_array(weight, "w")],
    )
    loaded = read(onnx.helper.make_model(graph).SerializeToString())
    x = noise(2, 4)
    y = Graph(loaded, "cpu")({"x": x})["y"]
    same(y, F.leaky_relu(x @ torch.from_numpy(weight.astype(np.float32)), 0.5))


# Sound


def tone(seconds, loud=0.2, rate=RATE, pitch=440.0):
    return loud * torch.sin(2 * torch.pi * pitch * torch.arange(round(seconds * rate)) / rate)


def test_resampling_keeps_a_tone_and_its_length():
    low = tone(1.0, rate=22_050, pitch=1000.0)[None]
    high = resample(low)
    assert high.shape == (1, 24_000)
    same(high[0, 500:-500], tone(1.0, pitch=1000.0)[500:-500], tolerance=2e-4)


def test_an_utterance_is_cut_levelled_and_its_durations_sum_to_its_length():
    wave = torch.cat([torch.zeros(RATE // 2), tone(1.0), torch.zeros(RATE)]) + 0.05
    ends = np.array([RATE // 4, RATE, 2 * RATE, len(wave)])
    spoken = finish(wave, statistics(wave[None])[0], 0, ends)
    assert spoken.durations.sum() == len(spoken.samples) and len(spoken.durations) == 4
    assert len(spoken.samples) == pytest.approx((0.12 + 1.0 + 0.25) * RATE, abs=RATE // 100)
    assert spoken.durations[0] == 0  # what was cut from the front is taken from the first ids
    assert spoken.samples.square().mean().sqrt() * (1.37 / 1.0) ** 0.5 == pytest.approx(LEVEL, rel=0.03)
    assert abs(float(spoken.samples.mean())) < 1e-3 and spoken.samples[0].abs() < 0.01 / FADE


def test_a_loud_click_limits_the_level():
    wave = tone(1.0, loud=0.01)
    wave[12_000] = 0.9
    spoken = finish(wave, statistics(wave[None])[0], 0, np.array([len(wave)]))
    assert 0.9 < float(spoken.samples.abs().max()) <= 0.95
    assert float(spoken.samples[FADE:1000].abs().max()) < 0.02  # the whole is scaled, not the click alone clipped


def test_silence_is_no_trouble():
    wave = torch.zeros(RATE)
    spoken = finish(wave, statistics(wave[None])[0], 0, np.array([100, RATE]))
    assert spoken.durations.sum() == len(spoken.samples) and spoken.samples.isfinite().all()


def test_packs_hold_what_fits():
    assert packs([100, 150, 150, 390, 400, 5], 400) == [[0, 1], [2], [3], [4], [5]]
    assert sorted(sum(packs(list(range(1, 80)), 400), [])) == list(range(79))
    with pytest.raises(ValueError, match="utterance 1 has 600 ids"):
        packs([5, 600], 400)


def test_a_pack_is_cut_in_its_pauses():
    unit = 600
    speech, pause = torch.ones(20 * unit) * 0.1, torch.zeros(12 * unit)
    high, low = (speech * tone(20 * unit / RATE, 1.0, pitch=pitch) for pitch in (440.0, 300.0))
    wave = torch.cat([pause, high, pause, low, pause])
    # mark, then two ids of speech and a full stop, the separator, two ids and a full stop, the mark
    ends = np.cumsum([12, 10, 10, 6, 6, 10, 10, 6, 6]) * unit
    one, two = take_apart(wave, statistics(wave[None])[0], ends, [3, 3])
    for spoken in (one, two):
        assert spoken.durations.sum() == len(spoken.samples) and len(spoken.durations) == 3
        loud = spoken.samples.unfold(0, 240, 240).square().mean(-1) > 1e-4
        assert int(loud.sum()) == pytest.approx(20 * unit / 240, abs=2)
    assert one.durations[1] == 10 * unit


def test_the_quietest_place_is_the_middle_of_a_pause():
    wave = torch.cat([tone(0.5), torch.zeros(RATE // 2), tone(0.5)])
    assert quietest(statistics(wave[None])[0], RATE // 4, RATE * 5 // 4) == pytest.approx(0.75 * RATE, abs=480)
