"""What plans move, against tensors that are made; and the roofline."""

import pytest

from ctlearn.tasks import traffic

WORK = (
    *traffic.RUNGS,
    "linear_attention",
    "softmax_attention",
    "decode_state",
    "decode_cache",
)


def test_the_rungs_move_what_their_docstrings_say():
    said = {"recurrent": 1026, "naive_chunkwise": 4612, "chunkwise": 1540}
    assert {rung: traffic.bytes_moved(rung) for rung in said} == said
    assert traffic.bytes_moved("chunkwise, with decay") == 1548


def test_sizes_that_differ_are_not_mistaken_for_each_other():
    """As `tests/kernels/test_delta_rule.py` counts the addresses of these."""
    sizes = traffic.Sizes(24, 40, 16)
    assert traffic.bytes_moved("recurrent", sizes) == 2 * (48 + 80 + 1)
    assert traffic.bytes_moved("naive_chunkwise", sizes) == 2 * (168 + 240 + 32 + 122)
    assert traffic.bytes_moved("chunkwise", sizes) == 2 * (72 + 80 + 32 + 2)


def test_the_standard_plan_is_counted_by_hand():
    """Launch by launch, at sizes that differ; a decay and its sum are float32."""
    launches = (
        2 + 2,  # g, and its running sum
        16,  # A, filled with zeros
        24 + 2 + 1 + 16,  # k, the sum, beta, A
        24 + 40 + 2 + 1 + 16 + 24 + 40,  # k, v, the sum, beta, A, W, U
        24 + 24 + 40 + 2 + 40 + 60,  # k, W, U, the sum, R, a state for every chunk
        24 + 24 + 2 + 40 + 60 + 40,  # q, k, the sum, R, the states, o
    )
    plan, sizes = traffic.PLANS["flash-linear-attention"], traffic.Sizes(24, 40, 16)
    found = [traffic.numbers(tensors.split(), sizes) for tensors in plan.values()]
    assert found == list(launches)


def test_other_mechanisms_are_counted_by_hand():
    """In chunks of 16 with programs of 32 columns, and after 100 tokens."""
    sizes = traffic.Sizes(24, 40, 16, 32, 100)
    told = 2 * (48 + 80)
    moved = {
        "linear_attention": told,
        "softmax_attention": told,
        "decode_state": told + 2 + 2 * 4 * 24 * 40,
        "decode_cache": told + 2 * 100 * 64,
    }
    work = {
        # two programs have the scores of their own
        "linear_attention": 2 * 24 * 40 + 16 * (2 * 24 + 40),
        "softmax_attention": sum(t * 64 for t in range(1, 101)) / 100,
        "decode_state": 3 * 24 * 40,
        "decode_cache": 100 * 64,
    }
    for plan, wanted in moved.items():
        assert traffic.bytes_moved(plan, sizes) == wanted, plan
        assert traffic.multiplications(plan, sizes) == work[plan], plan


def test_a_floor_is_that_of_the_given_machine():
    """One that moves a byte a second, and multiplies by far faster, and the reverse."""
    slow = traffic.floors(plans=WORK, machine=traffic.Machine(1, 1e9, 1e9))
    for plan, (moved, _, time) in slow.items():
        assert time == 1e12 * moved, plan
    idle = traffic.Machine(bandwidth=1e9, peak=2.0, numbers_peak=1.0)
    for plan, (_, work, time) in traffic.floors(plans=WORK, machine=idle).items():
        assert time == 1e12 * work / (1 if plan in traffic.VECTORS else 2), plan


def test_columns_that_are_left_over_are_a_program_of_their_own():
    even, odd = (traffic.Sizes(d_v=d_v) for d_v in (96, 97))
    more = traffic.multiplications("chunkwise", odd)
    more -= traffic.multiplications("chunkwise", even)
    # one column of the state and of two products of a chunk, and the scores once more
    assert more == 3 * 128 + 2 * 64 + 64 * 128


def test_a_floor_is_that_of_the_slower():
    assert traffic.roofline(10, 10, bandwidth=1, peak=5) == 10
    assert traffic.roofline(10, 10, bandwidth=5, peak=1) == 10
    assert traffic.roofline(10, 10, bandwidth=5, peak=4) == 2.5


def test_what_moves_least_has_the_highest_floor():
    floors = traffic.floors()
    moved, _, time = zip(*floors.values(), strict=True)
    assert min(moved) == moved[0]
    assert max(time) == time[0]
    assert min(time) == time[2]


def test_a_launch_of_an_unknown_tensor_is_refused():
    with pytest.raises(KeyError):
        traffic.numbers(["Z"], traffic.Sizes())
