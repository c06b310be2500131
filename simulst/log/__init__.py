"""Logs: their entry, the forms of SimulEval and simulstream, and `read_log`, which reads both."""

from __future__ import annotations

from simulst.log.read import read_log

__all__ = ["read_log"]
