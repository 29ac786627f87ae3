"""A text and a model that are small enough to be trained by a test."""

import pytest


@pytest.fixture(scope="session")
def own_file(root, tmp_path_factory):
    """A copy of the README, as a reader's own file: it stays as it is meanwhile."""
    file = tmp_path_factory.mktemp("own") / "own.txt"
    file.write_text((root / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def text(own_file):
    """Its two parts."""
    from ctlearn.train import text

    return text.own(own_file)


@pytest.fixture(scope="session")
def shape():
    """Two layers of one head."""
    from ctlearn.train.contestants import Shape

    return Shape(d_model=16, n_heads=1, d_head=8)


@pytest.fixture(autouse=True)
def one_thread():
    """These tensors are too small to be shared out between processors."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
