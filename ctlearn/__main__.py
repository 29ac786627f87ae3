"""`python -m ctlearn`: versions, device and back ends, as a bug report needs them."""

import importlib.metadata
import importlib.util
import os
import platform
import sys

import ctlearn

# what each extra brings, and what works once it is there
EXTRAS = {
    "numpy": "references",
    "sympy": "proofs",
    "matplotlib": "figures",
    "anywidget": "explorables in Jupyter",
    "torch": "layers",
    "triton": "kernels",
}


def main() -> None:
    """Print the report."""
    print(f"ctlearn {ctlearn.__version__}")
    print(f"python {platform.python_version()} on {platform.platform()}")
    for package, use in EXTRAS.items():
        print(f"{package} {_version(package)} ({use})")
    print(f"device: {_device()}")
    print(f"kernels: {_kernels()}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _device() -> str:
    cpu = f"CPU, {os.cpu_count()} cores"
    if importlib.util.find_spec("torch") is None:
        return cpu
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, and {cpu}"
    return cpu


def _kernels() -> str:
    if importlib.util.find_spec("triton") is None:
        not_here = (
            "" if sys.platform == "linux" else f"; it is not made for {sys.platform}"
        )
        return f"none: Triton is not installed{not_here}"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "Triton's interpreter, on CPU tensors"
    if _device().startswith("CPU"):
        return (
            "Triton is installed but there is no GPU; TRITON_INTERPRET=1 runs it here"
        )
    return "Triton, on the GPU"


if __name__ == "__main__":
    main()
