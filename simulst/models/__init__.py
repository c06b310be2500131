"""Model families. A package here is one, others are those of installed packages; registry.py finds them."""

from __future__ import annotations

from simulst.models.registry import load_model

__all__ = ["load_model"]
