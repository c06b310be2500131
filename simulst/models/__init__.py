"""Model families. A folder or file here is one family; registry.py finds them."""

from __future__ import annotations

from simulst.models.registry import (
    digest_of_part,
    digest_of_weights,
    files_of_model,
    files_of_part,
    load_model,
    option_names,
    parse_options,
)

__all__ = [
    "digest_of_part",
    "digest_of_weights",
    "files_of_model",
    "files_of_part",
    "load_model",
    "option_names",
    "parse_options",
]
