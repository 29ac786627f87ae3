"""Messages between parent and child: plain numbers, text and arrays, and nothing else.

Numbers of arrays travel as bytes with a dtype and a shape, the rest as JSON. So no
object of the child's is ever loaded by the parent, and what is no message is told from
one by its bytes.
"""

import json
import math
import os
from typing import Any

import numpy as np

# Dtypes that may be sent: booleans, integers, floats and complex numbers of C.
CODES = "?bhilqBHILQefdFD"
NUMBERS = frozenset(np.dtype(code).type for code in CODES)
# Each by its name on the way, where the first byte of a number is the lowest.
DTYPES = {np.dtype(code).newbyteorder("<").str: np.dtype(code) for code in CODES}
# Bytes of JSON in a message: what holds a thousand names and no million lists.
HEAD = 2**20

# What may come of bytes that are no message.
_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class Unfit(Exception):
    """A value that cannot be sent; the message says what it is."""


class TooMuch(Exception):
    """A value that is larger than what may be sent."""


def pack(value: Any, limit: float = math.inf) -> bytes:
    """The bytes of a value: plain numbers, text, bytes, arrays, and what holds them.

    Raises Unfit for another type, and TooMuch if they were more than `limit`.
    """
    parts: list[bytes] = []
    try:
        head = json.dumps(_tree(value, parts, limit)).encode()
    except (ValueError, RecursionError) as error:
        raise Unfit("a number or a list that is too long to be sent") from error
    if len(head) > HEAD or len(head) + sum(map(len, parts)) > limit:
        raise TooMuch
    return len(head).to_bytes(8, "big") + head + b"".join(parts)


def _tree(value: Any, parts: list[bytes], limit: float) -> Any:
    # by exact types: a subclass may say anything of itself
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in NUMBERS:
        return _tree(value.item(), parts, limit)
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is bytes:
        parts.append(value)
        return {"bytes": len(value)}
    if kind is np.ndarray and value.dtype.char in CODES:
        if value.nbytes > limit:
            raise TooMuch
        dtype = value.dtype.newbyteorder("<")
        parts.append(value.astype(dtype).tobytes())
        return {"array": [dtype.str, list(value.shape)]}
    if kind is list:
        return [_tree(x, parts, limit) for x in value]
    if kind is tuple:
        return {"tuple": [_tree(x, parts, limit) for x in value]}
    if kind is dict:
        return {"dict": [[str(n), _tree(x, parts, limit)] for n, x in value.items()]}
    raise Unfit(described(value))


def described(value: Any) -> str:
    """What a value is, in words."""
    if type(value) is np.ndarray:
        return f"an array of {value.dtype.name[:40]}"
    return f"a value of the type {type(value).__name__[:40]}"


def unpack(data: bytes) -> Any:
    """The value of packed bytes; raises ValueError whatever else they are."""
    size = int.from_bytes(data[:8], "big")
    try:
        if len(data) < 8 or size > min(HEAD, len(data) - 8):
            raise ValueError("too short for what it tells")
        tree = json.loads(data[8 : 8 + size])
        value, rest = _value(tree, memoryview(data)[8 + size :])
        if len(rest):
            raise ValueError("longer than it tells")
    except _FAULTS as error:
        raise ValueError(f"no message: {error}") from error
    return value


def _value(tree: Any, parts: memoryview) -> tuple[Any, memoryview]:
    """What a tree stands for, and the bytes that are left."""
    if isinstance(tree, list):
        held = []
        for inner in tree:
            x, parts = _value(inner, parts)
            held.append(x)
        return held, parts
    if not isinstance(tree, dict):
        return tree, parts
    if len(tree) != 1:
        raise ValueError("no such kind")
    ((tag, inner),) = tree.items()
    if tag == "tuple":
        held, parts = _value(list(inner), parts)
        return tuple(held), parts
    if tag == "dict":
        held, parts = _value([x for _, x in inner], parts)
        return {str(n): x for (n, _), x in zip(inner, held, strict=True)}, parts
    if tag == "complex":
        real, imaginary = inner
        return complex(real, imaginary), parts
    if tag == "bytes":
        return bytes(_cut(parts, inner)), parts[inner:]
    if tag != "array":
        raise ValueError("no such kind")
    code, shape = inner
    dtype = DTYPES[code]
    size = math.prod(shape) * dtype.itemsize
    array: np.ndarray = np.ndarray(
        tuple(shape), dtype.newbyteorder("<"), bytes(_cut(parts, size))
    )
    return array.astype(dtype), parts[size:]


def _cut(parts: memoryview, size: Any) -> memoryview:
    if type(size) is not int or not 0 <= size <= len(parts):
        raise ValueError("fewer bytes than are told")
    return parts[:size]


class Channel:
    """Frames to and from the parent: eight bytes of length, and as many as they say."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target

    def receive(self) -> Any:
        """The next message; the process ends where there is none."""
        return unpack(self._read(int.from_bytes(self._read(8), "big")))

    def send(self, data: bytes) -> None:
        """Write packed bytes."""
        data = len(data).to_bytes(8, "big") + data
        while data:
            data = data[os.write(self.target, data) :]

    def _read(self, size: int) -> bytes:
        read = bytearray()
        while len(read) < size:
            more = os.read(self.source, size - len(read))
            if not more:
                os._exit(0)
            read += more
        return bytes(read)
