"""Model families. A package here is one, others are those of installed packages; registry.py finds them."""

from __future__ import annotations

from simulst.models.registry import (
    check_languages,
    digest_of_part,
    digest_of_weights,
    files_of_model,
    files_of_part,
    is_name,
    load_model,
    option_names,
    parse_options,
)

__all__ = [
    "check_languages",
    "digest_of_part",
    "digest_of_weights",
    "files_of_model",
    "files_of_part",
    "is_name",
    "load_model",
    "option_names",
    "parse_options",
]
