"""Where the chapters train: the setting of a machine, and what it changes."""

from collections.abc import Callable

import pytest
import torch

from ctlearn.tasks import (
    inner_steps,
    taught_memories,
    trained_learners,
    trained_recall,
    trained_regression,
    trained_starts,
    trained_tracking,
)
from ctlearn.tasks.training import (
    ON_A_GPU,
    ON_A_PROCESSOR,
    Setting,
    cut,
    on,
    one_cycle,
    setting,
)


@pytest.mark.parametrize("there", [True, False])
def test_a_gpu_trains_more_and_longer(monkeypatch, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    found = setting()
    assert found == (ON_A_GPU if there else ON_A_PROCESSOR)
    assert ON_A_GPU.seeds > ON_A_PROCESSOR.seeds
    assert ON_A_GPU.longer > ON_A_PROCESSOR.longer


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_tensors_are_made_there_and_the_threads_given_back():
    elsewhere = ON_A_PROCESSOR._replace(device="meta")
    with on(elsewhere):
        assert torch.get_num_threads() == 1
        assert torch.zeros(2).device.type == "meta"
    with pytest.raises(KeyError), on(ON_A_PROCESSOR):
        raise KeyError
    assert torch.get_num_threads() == 2
    assert torch.zeros(2).device.type == "cpu"


class Elsewhere(Setting):
    """A device without numbers, for which a processor's generator will do."""

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)


TRAININGS: dict[str, Callable[..., object]] = {
    "inner steps": lambda **x: inner_steps.train(
        inner_steps.Learner(deep=True, squared=True, keeps_lengths=True), updates=1, **x
    ),
    "features": lambda **x: taught_memories.teach("features", 4, steps=1, **x),
    "perceptron": lambda **x: taught_memories.teach("perceptron", 4, steps=1, **x),
    "learners by token": lambda **x: trained_learners.train(1, steps=1, **x),
    "learners": lambda **x: trained_learners.train(8, steps=1, **x),
    "recall": lambda **x: trained_recall.train(
        trained_recall.Task(documents=2, told=2, times=2, untold=2, steps=1),
        trained_recall.MEMORIES["gated delta"],
        **x,
    ),
    "stack": lambda **x: trained_regression.train(
        trained_regression.stack,
        trained_regression.Lessons(3, [1.0, 0.5], batch=2),
        parts=2,
        steps=1,
        **x,
    ),
    "softmax heads": lambda **x: trained_regression.train(
        trained_regression.softmax_heads,
        trained_regression.Lessons(3, [1.0, 0.5], questions=2, batch=2),
        steps=1,
        **x,
    ),
    "starts": lambda **x: trained_starts.teach(both=True, steps=1, **x),
    "tracking": lambda **x: trained_tracking.train(
        trained_tracking.THREE._replace(steps=1),
        [trained_tracking.Kind(2, 2.0)],
        tested=4,
        **x,
    ),
}


@pytest.mark.parametrize("train", TRAININGS.values(), ids=TRAININGS)
def test_all_that_a_training_needs_is_on_its_device(train, monkeypatch):
    """Two devices never meet in one operation, except where a result is fetched."""
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: x)
    train(where=Elsewhere("meta", seeds=2, longer=1))


def test_the_numbers_follow_from_the_seed():
    drawn = [torch.rand(3, generator=ON_A_PROCESSOR.generator(s)) for s in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_gradients_are_cut_for_each_layer_over_all_its_weights():
    """The first is 3 and 4 long in its two weights, the second short."""
    weights = [torch.zeros(2, n, requires_grad=True) for n in (3, 1)]
    weights[0].grad = torch.tensor([[3.0, 0, 0], [0, 0.3, 0]])
    weights[1].grad = torch.tensor([[4.0], [0.4]])
    cut([*weights, torch.zeros(2, 1, requires_grad=True)])
    assert weights[0].grad.flatten().tolist() == pytest.approx([0.6, 0, 0, 0, 0.3, 0])
    assert weights[1].grad.flatten().tolist() == pytest.approx([0.8, 0.4])


def test_rates_go_up_and_down_once_and_groups_have_their_own():
    """While the slopes stay the same, Adam moves a weight by about its rate."""
    slow, fast = (torch.zeros(3, requires_grad=True) for _ in range(2))
    moves = []
    for turn in one_cycle([([slow], 0.1), ([fast], 0.5)], 20):
        assert turn == len(moves)
        assert slow.grad is None
        moves.append(slow.detach().clone())
        (slow.sum() + 3 * fast.sum()).backward()
    assert torch.allclose(fast, 5 * slow)
    sizes = (torch.stack(moves) - torch.stack([*moves[1:], slow.detach()]))[:, 0]
    top = int(sizes.argmax())
    # less than the rate, since momentum falls while the rate goes up
    assert 0.05 < sizes[top] < 0.1
    assert 0 < top < 19
    assert (sizes[:top].diff() > 0).all()
    assert (sizes[top:].diff() < 0).all()
    assert sizes[-1] < 0.001


def test_no_steps_leave_the_weights_and_fewer_are_refused():
    weight = torch.ones(1, requires_grad=True)
    assert list(one_cycle([([weight], 0.1)], 0)) == []
    with pytest.raises(ValueError, match="total_steps"):
        one_cycle([([weight], 0.1)], -1)
