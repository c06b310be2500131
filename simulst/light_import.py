"""ESPnet's import in two seconds of processor time instead of fifteen.

Most of the time goes to typeguard, which parses and compiles every decorated function again, and to packages for what
no model of ours has: phonemes (g2p_en, inflect), Hugging Face's models, and scikit-learn, which NLTK looks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

UNUSED = ("sklearn", "transformers")
"""What ESPnet and NLTK import only if it is there."""


def skip_type_checks() -> None:
    """Functions that later imports define don't check the types of their arguments at each call."""
    import typeguard

    typeguard.typechecked = _unchecked  # type: ignore[assignment]


@contextmanager
def without_type_checks() -> Iterator[None]:
    """The same for the imports within."""
    try:
        import typeguard
    except ImportError:  # then nothing will ask for it
        yield
        return
    checked = typeguard.typechecked
    skip_type_checks()
    try:
        yield
    finally:
        typeguard.typechecked = checked


def leave_out_unused(keep: Collection[str] = ()) -> None:
    """Let later imports in this process do without packages that the recipes' trainings never use.

    keep: those of `UNUSED` that are used all the same, such as "transformers" where a configuration names it.
    """
    # ESPnet imports it without asking whether it is there, and uses it only for phonemes.
    phonemes = ModuleType("g2p_en")
    phonemes.__spec__ = ModuleSpec("g2p_en", None)  # others do ask
    sys.modules.setdefault("g2p_en", phonemes)
    for name in UNUSED:
        if name not in keep:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def _unchecked(function: Callable[..., Any] | None = None, **_: Any) -> Callable[..., Any]:
    return function if function is not None else _unchecked
