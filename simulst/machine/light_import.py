"""ESPnet's import in two seconds of processor time instead of fifteen.

Most of the time goes to typeguard, which parses and compiles every decorated function again, to packages for what
our trainings never use (phonemes, NLTK and scikit-learn, which NLTK looks for, Hugging Face's models), and, with the
first optimizer, to torch's compiler.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

UNUSED = ("sklearn", "transformers")
"""What ESPnet and NLTK import only if it is there."""
LATER = ("g2p_en", "h5py", "nltk")
"""What ESPnet imports without asking whether it is there, for phonemes, HDF5, and BLEU during training."""


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


class _Later(ModuleType):
    """Stands for a module until something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        # Whoever looks through all modules asks for __file__ and the like; the import of a submodule asks for __path__.
        if name.startswith("__") and name not in ("__path__", "__version__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def leave_out_unused(keep: Collection[str] = ()) -> None:
    """Let later imports in this process do without packages that the recipes' trainings never use.

    Packages that ESPnet imports in any case (`LATER`) are imported when something in them is used.

    keep: those of `UNUSED` that are used all the same, such as "transformers" where a configuration names it.
    """
    for name in LATER:
        if name not in sys.modules:
            module = _Later(name)
            module.__spec__ = importlib.util.find_spec(name) or ModuleSpec(name, None)
            sys.modules[name] = module
    for name in UNUSED:
        if name not in keep:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def leave_out_compiler() -> None:
    """Let torch's optimizers do without its compiler, for programs that compile nothing.

    They import it to exclude their methods from compilation, which takes nearly as long as the import of torch. Here
    each method has what torch would then keep with it: the function to call instead, which is the method itself.
    """
    from torch.optim import Optimizer

    for method in vars(Optimizer).values():
        if plain := getattr(method, "__wrapped__", None):
            plain.__dynamo_disable = plain


def _unchecked(function: Callable[..., Any] | None = None, **_: Any) -> Callable[..., Any]:
    return function if function is not None else _unchecked
