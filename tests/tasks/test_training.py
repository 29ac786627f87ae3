"""Where the chapters train: the setting of a machine, and what it changes."""

import pytest
import torch

from ctlearn.tasks.training import ON_A_GPU, ON_A_PROCESSOR, cut, on, setting


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
