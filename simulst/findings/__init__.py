"""Findings of the papers, tested on finished runs: declared in YAML, decided by a rule, written as a page."""

from __future__ import annotations

from simulst.findings.declared import Finding, Paper, load_findings
from simulst.findings.page import Decided, decided, findings_page
from simulst.findings.verdict import Outcome, decide

__all__ = ["Decided", "Finding", "Outcome", "Paper", "decide", "decided", "findings_page", "load_findings"]
