"""Logs of runs, in the forms of simulst, SimulEval and simulstream."""
