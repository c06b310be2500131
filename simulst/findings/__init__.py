"""Findings of the papers, tested on finished runs: declared in YAML, decided by a rule, written as a page."""

from __future__ import annotations

from simulst.findings.declared import Finding, Paper, load_findings
from simulst.findings.page import findings_page
from simulst.findings.verdict import Outcome, decide

__all__ = ["Finding", "Outcome", "Paper", "decide", "findings_page", "load_findings"]
