"""Findings of papers, tested on finished runs: declared in YAML, decided by a rule."""

from __future__ import annotations

from findings.declared import Finding, load_findings
from findings.verdict import Outcome, decide, tested

__all__ = ["Finding", "Outcome", "decide", "load_findings", "tested"]
