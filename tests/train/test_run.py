"""Training learns, is set by its settings, and can be taken up again."""

import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train.contestants import weights  # noqa: E402
from ctlearn.train.kept import Kept  # noqa: E402
from ctlearn.train.processes import Processes  # noqa: E402
from ctlearn.train.run import Run, learn, nats, optimiser, setting, take  # noqa: E402
from ctlearn.train.text import of, windows  # noqa: E402

RUN = Run(steps=20, B=4, T=16, rate=1e-2)


def model_of(shape, seed=0):
    torch.manual_seed(seed)
    return shape.build(3)


@pytest.fixture(scope="module")
def part():
    return of("abcacb" * 40, "ab").learned


def test_the_rate_rises_and_falls():
    run = Run(steps=100, rate=2.0)
    rates = [run.rate_at(step) for step in range(101)]
    assert rates[:6] == [0.4, 0.8, 1.2, 1.6, 2.0, 2.0]
    assert all(a > b for a, b in pairwise(rates[5:]))
    assert rates[100] == pytest.approx(0)
    assert Run(steps=1, rate=2.0).rate_at(0) == 2.0


def test_a_gpu_takes_the_larger_setting(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shape, run = setting()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    larger, longer = setting()
    with torch.device("meta"):
        assert weights(larger.build(87)) > 50 * weights(shape.build(87))
    assert longer.steps * longer.B * longer.T > 100 * run.steps * run.B * run.T


def test_a_text_that_repeats_is_learned(shape, part):
    losses = learn(model_of(shape), part, RUN._replace(steps=40))
    assert losses[0] == pytest.approx(math.log(3), abs=0.1)
    assert losses[-5:].mean() < 0.3


def test_the_seed_of_a_run_sets_what_is_read(shape, part):
    three = [
        learn(model_of(shape), part, RUN._replace(steps=2, seed=seed))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(three[0], three[1])
    assert not torch.equal(three[0], three[2])


def test_a_step_follows_gradients_that_are_no_longer_than_one(shape, part):
    batch = windows(part, 4, 16, seed=0, step=0)

    def length(model):
        return torch.cat([w.grad.flatten() for w in model.parameters()]).norm().item()

    plain, model = model_of(shape), model_of(shape)
    wanted = nats(plain, batch).mean()
    wanted.backward()
    assert length(plain) > 1.5
    assert take(0, model, optimiser(model), batch, RUN) == wanted
    assert length(model) == pytest.approx(1, rel=1e-4)


def test_gains_and_biases_do_not_decay(shape):
    groups = optimiser(model_of(shape)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {w.dim() > 1 for w in groups[0]["params"]} == {True}
    assert {w.dim() > 1 for w in groups[1]["params"]} == {False}


def test_a_first_step_moves_a_weight_as_far_as_the_rate():
    """Whatever its gradient: this is what forgetting the averages does."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    adam = optimiser(torch.nn.ParameterList([weight]))
    adam.param_groups[1]["lr"] = 0.25
    weight.grad = torch.tensor([1e-4, -5.0, 0.0])
    adam.step()
    assert weight.tolist() == pytest.approx([0.75, -1.75, 3.0], abs=1e-4)


def test_a_run_goes_on_where_it_was_kept(shape, part, tmp_path):
    whole = learn(model_of(shape), part, RUN)

    def broken(steps):
        for step in steps:
            if step == 13:
                raise KeyboardInterrupt
            yield step

    kept = Kept(tmp_path / "run", RUN, Processes())
    with pytest.raises(KeyboardInterrupt):
        learn(model_of(shape), part, RUN, keep=(kept, 5), show=broken)
    assert {x.name for x in kept.folder.iterdir()} == {"run.json", "step-000010"}
    # killed while one was written, before an older one was removed
    (kept.folder / "part").mkdir()
    (kept.folder / "part" / "stale").touch()
    (kept.folder / "step-000005").mkdir()
    steps = []
    again = learn(
        model_of(shape, seed=1),
        part,
        RUN,
        keep=(Kept(tmp_path / "run", RUN, Processes()), 10),
        show=lambda left: steps.extend(left) or left,
    )
    assert steps == list(range(10, 20))
    assert torch.equal(again, whole)
    assert {x.name for x in kept.folder.iterdir()} == {"run.json", "step-000020"}
    assert not (kept.folder / "step-000020" / "stale").exists()


def test_another_run_is_not_taken_up(tmp_path):
    Kept(tmp_path, RUN, Processes())
    Kept(tmp_path, RUN, Processes())
    with pytest.raises(ValueError, match="holds another run"):
        Kept(tmp_path, RUN._replace(rate=2e-2), Processes())


def test_processes_read_equal_shares_of_a_batch():
    batch = torch.arange(6)[:, None]
    shares = [Processes(rank, 3).share(batch) for rank in range(3)]
    assert torch.cat(shares).flatten().sort()[0].tolist() == list(range(6))
    assert [len(share) for share in shares] == [2, 2, 2]
    with pytest.raises(ValueError, match="multiple of 4"):
        Processes(0, 4).share(batch)
