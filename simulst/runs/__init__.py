"""Runs: decode a data directory under one or many configurations, keep the results, and score them.

folder.py has a run's task and its folder, with config.yaml and the log; decode.py fills it; score.py scores it.
"""
