"""Logs: their entry, the forms of SimulEval and simulstream, and `read_log`, which reads both."""

from __future__ import annotations

from simulst.log.read import LOG, read_log

__all__ = ["LOG", "read_log"]
