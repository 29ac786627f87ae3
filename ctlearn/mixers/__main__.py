"""`python -m ctlearn.mixers`: the design space as a table, and the family tree."""

import textwrap

from ctlearn.mechanism import Mechanism
from ctlearn.mixers import branches, mechanisms

_WIDTH = 100


def main() -> None:
    """Print each mechanism's choices, then which becomes which under which setting."""
    for mechanism in mechanisms().values():
        print(f"{mechanism.title}  [{mechanism.name}]")
        for choice, words in mechanism.place.words().items():
            said = textwrap.wrap(words, _WIDTH - 20)
            print(f"  {choice.replace('_', ' '):<16}  " + f"\n{'':20}".join(said))
        print()
    print("The family tree: each becomes the one it stands under, if")
    for mechanism, when, depth in branches():
        condition = f"  if {when}" if when else ""
        print(f"{'    ' * depth}{_short(mechanism)}{condition}")
        for limit in mechanism.limits[1:]:
            other = _short(mechanisms()[limit.target])
            print(f"{'    ' * depth}  also {other}, if {limit.when}")


def _short(mechanism: Mechanism) -> str:
    return mechanism.title.partition(" (")[0]


if __name__ == "__main__":
    main()
