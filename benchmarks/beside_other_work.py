"""How much slower a command is beside a busy process, with threads that sleep or that spin while they wait.

    python benchmarks/beside_other_work.py [--rounds 3] [--sleep] -- simulst evaluate ... --force

The command runs in turns: alone and beside a loop that keeps one processor busy. OpenMP's threads wait as simulst sets
it (they sleep), or spin (OMP_WAIT_POLICY=ACTIVE). It must do the same work each time, so give it `--force`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import click

from simulst.commands.common import run_command
from simulst.errors import SimulstError
from simulst.machine.processor import processor

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # simulst sets them when it is imported
BUSY = "while True: pass"
POLICIES = ("as simulst sets it", "spin")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1), help="Runs of each kind.")
@click.option("--spin/--sleep", default=True, help="Whether to measure threads that spin, too; they may take long.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def main(rounds: int, spin: bool, command: tuple[str, ...]) -> None:
    """Time COMMAND alone and beside a busy process."""
    print(processor())
    kinds = [(policy, beside) for policy in POLICIES[: 1 + spin] for beside in (False, True)]
    seconds: dict[tuple[str, bool], list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for policy, beside in kinds:
            seconds[policy, beside].append(_time(command, policy, beside))
            where = "beside a busy process" if beside else "alone"
            print(f"round {number + 1}, {policy}, {where}: {seconds[policy, beside][-1]:.1f} s", file=sys.stderr)
    print("| threads | alone (s) | beside a busy process (s) | speed kept |")
    print("|---|---:|---:|---:|")
    for policy in POLICIES[: 1 + spin]:
        alone, beside_it = (statistics.median(seconds[policy, beside]) for beside in (False, True))
        print(f"| {policy} | {alone:.1f} | {beside_it:.1f} | {100 * alone / beside_it:.0f} % |")


def _time(command: tuple[str, ...], policy: str, beside: bool) -> float:
    """Seconds of wall time. Raises SimulstError: the command fails."""
    environment = {name: value for name, value in os.environ.items() if name not in WAITING}
    if policy == "spin":
        environment["OMP_WAIT_POLICY"] = "ACTIVE"
    other = subprocess.Popen([sys.executable, "-c", BUSY]) if beside else None
    try:
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        taken = time.perf_counter() - started
    finally:
        if other is not None:
            other.kill()
            other.wait()
    if done.returncode:
        raise SimulstError(f"'{' '.join(command)}' ended with exit code {done.returncode}; try it by itself first.")
    return taken


if __name__ == "__main__":
    run_command(main)
