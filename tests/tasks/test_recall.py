"""Recall: the task against theory that it does not use."""

import numpy as np
import pytest

from ctlearn.features import elu_plus_one, quadratic
from ctlearn.tasks import recall


def draw(seed, n, d, cosine=0.0):
    rng = np.random.default_rng(seed)
    if cosine:
        k = recall.keys_with_cosine(rng, n, d, cosine)
    else:
        k = recall.unit_vectors(rng, n, d)
    return k, recall.unit_vectors(rng, n, d)


def test_orthonormal_keys_are_recalled_exactly():
    k = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    v = np.random.default_rng(1).standard_normal((6, 4))
    assert recall.recall(k, v) == pytest.approx(v)


def test_a_shared_direction_gives_the_cosine_asked_for():
    k, _ = draw(0, 400, 32, cosine=0.3)
    assert np.linalg.norm(k, axis=1) == pytest.approx(1)
    cosines = recall.cosines(k)
    assert cosines.mean() == pytest.approx(0.3, abs=0.005)
    assert (cosines**2).mean() == pytest.approx(0.3**2 + 0.7**2 / 31, rel=0.02)
    alike, _ = draw(0, 3, 4, cosine=1)
    assert alike == pytest.approx(np.tile(alike[0], (3, 1)))


@pytest.mark.parametrize("cosine", [-0.1, 1.1])
def test_a_cosine_that_keys_cannot_share_is_refused(cosine):
    with pytest.raises(ValueError, match="cosine: expected"):
        recall.keys_with_cosine(np.random.default_rng(0), 2, 3, cosine)


@pytest.mark.parametrize(("n", "cosine"), [(8, 0), (64, 0), (40, 0.2)])
def test_the_mean_error_is_the_expected_one(n, cosine):
    errors = []
    for seed in range(40):
        k, v = draw(seed, n, 32, cosine)
        errors.append(recall.error(recall.recall(k, v), v))
    spread = np.std(errors) / np.sqrt(len(errors))
    expected = recall.expected_error(n, 32, cosine)
    assert abs(np.mean(errors) - expected) < 4 * spread


def test_the_best_scale_is_shared_and_beats_its_neighbours():
    drawn = [draw(seed, 30, 16) for seed in range(3)]
    v = np.stack([v for _, v in drawn])
    answers = np.stack([recall.recall(k, v) for k, v in drawn])
    c = recall.best_scale(answers, v)
    best = recall.error(c * answers, v)
    assert best < min(recall.error(s * c * answers, v) for s in (0.98, 1.02))
    x = 29 / 16
    assert best == pytest.approx(x / (1 + x), rel=0.1)


def test_no_matrix_beats_the_best_one():
    k, v = draw(0, 30, 10)
    best = recall.error(recall.recall_best(k, v), v)
    assert best == pytest.approx(1 - 10 / 30, rel=0.15)
    S = np.linalg.lstsq(k, v, rcond=None)[0]
    for seed in range(5):
        other = S + 0.01 * np.random.default_rng(seed).standard_normal(S.shape)
        assert recall.error(k @ other, v) > best
    few_k, few_v = draw(0, 10, 10)
    assert recall.error(recall.recall_best(few_k, few_v), few_v) < 1e-20


def test_accuracy_counts_the_right_value_among_the_stored():
    v = np.eye(3)
    answers = np.array([[0.2, 0.1, 0], [0.5, 0.4, 0], [-3, -2, -1]])
    assert recall.accuracy(answers, v) == pytest.approx(2 / 3)


def test_features_change_the_cosines_as_their_kernels_say():
    k, _ = draw(0, 50, 8)
    assert recall.cosines(k, quadratic) == pytest.approx(recall.cosines(k) ** 2)
    assert recall.cosines(k, elu_plus_one).min() > 0
    assert len(recall.cosines(k)) == 50 * 49


def test_most_pairs_finds_the_first_failure_of_a_rule_that_fails_once():
    rng = np.random.default_rng(0)
    assert recall.most_pairs(lambda _, v: len(v) <= 13, rng, 4, 3, 100) == 13
    assert recall.most_pairs(lambda _, v: True, rng, 4, 3, 20) == 20
    assert recall.most_pairs(lambda _, v: False, rng, 4, 3, 20) == 0


@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (64, 128)])
def test_the_rule_of_thumb_for_argmax_is_of_the_right_size(d_k, d_v):
    def passes(answers, v):
        return recall.accuracy(answers, v) >= 0.99

    held = [
        recall.most_pairs(passes, np.random.default_rng(seed), d_k, d_v, 1024)
        for seed in range(10)
    ]
    thumb = recall.pairs_by_argmax(d_k, d_v)
    assert np.mean(held) / thumb == pytest.approx(1.2, abs=0.3)


# What a memory of 64 by 64 recalls of N random pairs, in mean squared error, where
# answering zero scores 1: means of 6 draws or more that were made elsewhere.
TABLE = {
    8: (".101", ".062", ".000", ".842"),
    32: (".478", ".291", ".022", ".962"),
    64: (".977", ".595", ".279", ".980"),
    128: ("1.98", "1.06", "1.00", ".990"),
    256: ("3.99", "1.49", "1.50", ".995"),
}
RIDGE = {8: ".0000", 32: ".0000", 64: ".0001", 128: ".499", 256: ".748"}
MEMORIES = {
    "sum": recall.ask_sum,
    "delta rule": recall.ask_delta,
    "delta rule, four passes": lambda told: recall.ask_delta(told, passes=4),
    "softmax, scale 1/8": lambda told: recall.ask_softmax(told, 1 / 8),
}
# The same where every memory has its best scale, and the delta rule its best rate too.
FAIR = {
    32: (".318", ".273", ".248"),
    64: (".496", ".532", ".445"),
    128: (".661", ".796", ".638"),
    256: (".797", ".937", ".789"),
}
BETAS = np.arange(1, 21) / 20
DECAYS = 1 - np.geomspace(0.003, 0.3, 20)


def told(order, cosine=0.0, seeds=range(12)):
    """Draws of one binding task with keys and values of 64 channels."""
    draws = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        draws.append(recall.bindings(rng, order(rng), 64, 64, cosine))
    return draws


def once(n):
    return lambda _: np.arange(n)


def ask_ridge(facts):
    return recall.ask_ridge(facts, 1e-6)


def errors(ask, draws):
    return np.array([recall.error(ask(facts), facts.answers) for facts in draws])


@pytest.mark.parametrize("n", TABLE)
def test_recall_against_capacity(n, agrees):
    """T1 and T10: all pairs told once, read back without any scale."""
    draws = told(once(n))
    for (name, ask), wanted in zip(MEMORIES.items(), TABLE[n], strict=True):
        assert agrees(f"recall of {n}, {name}", errors(ask, draws), wanted)
    found = errors(recall.ask_sum, draws)
    spread = found.std() / 12**0.5
    assert found.mean() == pytest.approx(recall.expected_error(n, 64), abs=4 * spread)
    # a softmax that is sharp enough recalls whatever it has kept
    assert errors(lambda facts: recall.ask_softmax(facts, 64), draws).max() < 1e-9


@pytest.mark.parametrize("n", RIDGE)
def test_recall_by_least_squares(n, agrees):
    """T1: nothing is lost up to n = d; more draws, for at n = d a few carry the mean.

    There the least squared singular value s^2 may be as small as the ridge r, which
    leaves (r / (s^2 + r))^2 of one direction in d. s d is near 0 with density 1, so the
    mean is sqrt(r) pi / 4, while most draws have next to no error.
    """
    seeds = range(200 if n == 64 else 20)
    found = errors(ask_ridge, told(once(n), seeds=seeds))
    assert agrees(f"recall of {n}, ridge", found, RIDGE[n])
    theory = recall.expected_least_error(n, 64) + (n == 64) * 1e-3 * np.pi / 4
    assert abs(found.mean() - theory) < 3 * found.std() / len(found) ** 0.5 + 1e-6
    if n == 64:
        assert np.median(found) < 1e-5


@pytest.mark.parametrize("n", FAIR)
def test_recall_at_the_best_scale_and_rate(n, agrees):
    """One scale serves all draws: a sum gains most, and the delta rule barely leads."""
    draws = told(once(n))
    scaled = recall.tuned(recall.ask_sum, draws, [1.0])
    plain = recall.tuned(recall.ask_delta, draws, [1.0])
    delta = recall.tuned(recall.ask_delta, draws, BETAS)
    found = {"sum": scaled, "delta rule": plain, "delta rule, best rate": delta}
    for (name, best), wanted in zip(found.items(), FAIR[n], strict=True):
        assert agrees(f"scaled recall of {n}, {name}", best.errors, wanted)
    assert scaled.errors.mean() == pytest.approx(
        recall.expected_scaled_error(n, 64), abs=3 * scaled.errors.std() / 12**0.5
    )
    assert delta.errors.mean() < scaled.errors.mean()
    assert (plain.errors.mean() < scaled.errors.mean()) == (n < 64)


def test_recall_of_the_latest_of_eight_values(agrees):
    """T1a: 16 keys are bound eight times each, in rounds."""
    draws = told(lambda rng: recall.in_rounds(rng, 16, 8))
    scaled = recall.tuned(recall.ask_sum, draws, [1.0])
    faded = recall.tuned(recall.ask_sum, draws, DECAYS)
    assert agrees("rebinding, scaled sum", scaled.errors, ".905")
    # elsewhere from .33 to .36, with less of a choice of decays
    assert agrees("rebinding, decayed sum", faded.errors, ".33")
    assert agrees("rebinding, delta rule", errors(recall.ask_delta, draws), ".21")
    ridge = errors(ask_ridge, draws)
    assert agrees("rebinding, ridge", ridge, ".880")
    # least squares averages the bindings of a key, unless it forgets
    forgets = errors(lambda facts: recall.ask_ridge(facts, 1e-6, decay=0.5), draws)
    assert forgets.max() < 0.1


@pytest.mark.parametrize(
    ("cosine", "wanted"), [(0.3, (".751", ".509")), (0.6, (".917", ".807"))]
)
def test_recall_with_keys_that_resemble_each_other(cosine, wanted, agrees):
    """T1b: 32 pairs told once, the sum scaled, the delta rule at its best rate."""
    draws = told(once(32), cosine)
    scaled = recall.tuned(recall.ask_sum, draws, [1.0])
    delta = recall.tuned(recall.ask_delta, draws, BETAS, rescale=False)
    assert agrees(f"cosine {cosine}, scaled sum", scaled.errors, wanted[0])
    assert agrees(f"cosine {cosine}, delta rule", delta.errors, wanted[1])
    assert errors(ask_ridge, draws).max() < 1e-9
    assert scaled.errors.mean() == pytest.approx(
        recall.expected_scaled_error(32, 64, cosine), rel=0.02
    )


@pytest.mark.parametrize(("n", "d"), [(5, 2), (12, 8)])
def test_one_pass_leaves_each_pair_the_error_that_is_expected(n, d):
    draws = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        facts = recall.bindings(rng, np.arange(n), d, 3)
        missed = recall.ask_delta(facts) - facts.answers
        draws.append((missed**2).sum(axis=1))
    spread = np.std(draws, axis=0) / 20
    expected = recall.expected_delta_errors(n, d)
    assert (np.abs(np.mean(draws, axis=0) - expected) < 4 * spread + 1e-12).all()
    assert abs(expected[-1]) < 1e-12


def test_bindings_ask_for_the_latest_value_of_each_bound_key():
    order = np.array([0, 2, 0, 3, 2])
    facts = recall.bindings(np.random.default_rng(0), order, 8, 5)
    assert facts.k[[0, 1]] == pytest.approx(facts.k[[2, 4]])
    assert facts.asked == pytest.approx(facts.k[[2, 4, 3]])
    assert facts.answers == pytest.approx(facts.v[[2, 4, 3]])
    in_rounds = recall.in_rounds(np.random.default_rng(0), 5, 3).reshape(3, 5)
    assert (np.sort(in_rounds) == np.arange(5)).all()
    assert (in_rounds[0] != in_rounds[1]).any()


def test_memories_agree_where_theory_says_so():
    """Orthonormal keys told once: every memory without forgetting is exact."""
    k = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    v = np.random.default_rng(1).standard_normal((6, 4))
    facts = recall.Facts(k, v, k, v)
    for ask in (recall.ask_sum, recall.ask_delta, ask_ridge):
        assert ask(facts) == pytest.approx(v, abs=1e-5)
    # the token before the last has faded once
    assert recall.ask_sum(facts, 0.5)[-2] == pytest.approx(v[-2] / 2)


def test_tuning_takes_the_setting_that_serves_all_draws():
    draws = told(once(8), seeds=range(3))
    best = recall.tuned(lambda facts, c: c * facts.answers, draws, [0.5, 0.9, 2.0])
    assert best.scale * best.setting == pytest.approx(1)
    plain = recall.tuned(
        lambda facts, c: c * facts.answers, draws, [0.5, 0.9, 2.0], rescale=False
    )
    assert (plain.setting, plain.scale) == (0.9, 1)
    assert plain.errors == pytest.approx(np.full(3, 0.01))
    with pytest.raises(ValueError, match="settings: expected at least one"):
        recall.tuned(recall.ask_sum, draws, [])


def test_draws_that_are_reported_have_no_say_in_the_setting():
    """The tuning draws want what is said halved, the reported ones as it is."""
    draws, others = (told(once(8), seeds=seeds) for seeds in (range(3), range(3, 5)))
    others = [facts._replace(answers=facts.answers / 2) for facts in others]

    def ask(facts, c):
        return c * facts.v

    best = recall.tuned(ask, draws, [0.5, 1.0], tuning=others, rescale=False)
    assert (best.setting, best.errors.tolist()) == (0.5, [0.25] * 3)
    best = recall.tuned(ask, draws, [1.0], tuning=others)
    assert best.scale == pytest.approx(0.5)
    assert best.errors == pytest.approx([0.25] * 3)
