"""Where the chapters train: the setting of a machine, and what it changes."""

import pytest
import torch

from ctlearn.tasks.training import ON_A_GPU, ON_A_PROCESSOR, on, setting


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
