"""Where the chapters train: the setting of a machine, and what it changes."""

import pytest
import torch

from ctlearn.tasks.training import (
    ON_A_GPU,
    ON_A_PROCESSOR,
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


def test_tensors_are_made_there_and_the_threads_given_back():
    before = torch.get_num_threads()
    elsewhere = ON_A_PROCESSOR._replace(device="meta")
    with on(elsewhere):
        assert torch.get_num_threads() == 1
        assert torch.zeros(2).device.type == "meta"
    with pytest.raises(KeyError), on(ON_A_PROCESSOR):
        raise KeyError
    assert torch.get_num_threads() == before
    assert torch.zeros(2).device.type == "cpu"


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
