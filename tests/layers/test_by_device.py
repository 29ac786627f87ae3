"""What runs is chosen by the tensors' device, and a CPU's never reach Triton."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers import backward, by_device  # noqa: E402

TRITON = 'no Triton: pip install "ctlearn[torch]" on Linux'


def test_a_gpu_has_the_kernels():
    """Case 45. HIP's devices go by the same name."""
    pytest.importorskip("triton", reason=TRITON)
    from ctlearn.kernels import memory

    gpu = torch.device("cuda", 1)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert by_device.form(gpu, dtype, 9) is memory.chunkwise
    # of one token a gradient may be asked, or chunks of some length
    assert by_device.form(gpu, torch.float32, 1) is memory.chunkwise
    with torch.no_grad():
        assert by_device.form(gpu, torch.float32, 1) is memory.recurrent
        assert by_device.form(gpu, torch.float32, 9) is memory.chunkwise
        sized = by_device.form(gpu, torch.float32, 1, chunk_size=16)
        assert sized is memory.chunkwise


@pytest.mark.parametrize("device", ["cpu", "meta", "mps", "xpu"])
def test_all_other_devices_have_torch(device, monkeypatch):
    """Case 45: whether Triton is installed or not."""
    for installed in (True, False):
        monkeypatch.setattr(by_device, "HAS_TRITON", installed)
        form = by_device.form(torch.device(device), torch.float32, 9)
        assert form is backward.chunkwise


def test_what_the_kernels_have_not_is_torch_on_a_gpu_too(monkeypatch):
    gpu = torch.device("cuda")
    assert by_device.form(gpu, torch.float64, 9) is backward.chunkwise
    monkeypatch.setattr(by_device, "HAS_TRITON", False)
    assert by_device.form(gpu, torch.float32, 9) is backward.chunkwise


def test_meta_tensors_have_shapes():
    """The choice and the form run without numbers."""
    q, z = (
        torch.empty(2, 5, 3, 4, device="meta"),
        torch.empty(2, 5, 3, 6, device="meta"),
    )
    o, S = by_device.chunkwise(q, q, z, e=q)
    assert o.shape == (2, 5, 3, 6)
    assert S.shape == (2, 3, 4, 6)


CPU_ONLY = """
import importlib, pkgutil, sys
from importlib.machinery import ModuleSpec

class Trap:  # Triton is there, and whoever imports it fails
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "triton" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        raise ImportError("Triton was reached")

sys.meta_path.insert(0, Trap())
import torch
from ctlearn import layers
for module in pkgutil.iter_modules(layers.__path__, "ctlearn.layers."):
    importlib.import_module(module.name)
from ctlearn.layers import by_device
from ctlearn.layers.gated_delta_rule import GatedDeltaRule
assert by_device.HAS_TRITON
layer = GatedDeltaRule(6, n_heads=2, d_k=4, d_v=4)
layer(torch.ones(1, 9, 6))[0].sum().backward()
assert not [name for name in sys.modules if name.startswith("ctlearn.kernels")]
"""


def test_layers_on_a_cpu_never_reach_triton():
    """Case 45."""
    subprocess.run([sys.executable, "-P", "-c", CPU_ONLY], check=True, timeout=300)
