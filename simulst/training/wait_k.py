"""ESPnet's trainer of speech translation, for wait-k and wait tokens (see simulst/models/espnet/network/lagging.py).

`python -m simulst.training.process simulst.training.wait_k --wait_k 3 ...` takes all options of ESPnet's st_train, too.
What it writes is an experiment like any other, and ESPnet's own classes load it, as an offline model.
"""

from __future__ import annotations

import argparse
from typing import Any

from espnet2.tasks.st import STTask
from espnet2.utils.types import str2bool

from simulst.errors import SimulstError
from simulst.models.espnet.network.lagging import WaitOptions, lagging_of, restrict_decoder, restrict_encoder


class WaitKTask(STTask):
    """ESPnet's task, with a model that sees the source as late as wait-k does."""

    @classmethod
    def add_task_arguments(cls, parser: argparse.ArgumentParser) -> None:
        super().add_task_arguments(parser)
        group = parser.add_argument_group(description="wait-k")
        group.add_argument("--wait_k", type=int, help="Units of speech before the first token")
        group.add_argument("--wait_unit_ms", type=float, default=WaitOptions.wait_unit_ms, help="Length of a unit")
        group.add_argument("--wait_writes", type=int, default=1, help="Tokens after each unit")
        group.add_argument("--wait_unidirectional", type=str2bool, default=False, help="A unidirectional encoder")
        group.add_argument("--wait_chunk_ms", type=float, help="Length of a chunk that ends with a wait token")
        group.add_argument("--wait_first_ms", type=float, help="Length of the first one")

    @classmethod
    def build_model(cls, args: argparse.Namespace) -> Any:
        """ESPnet's model. Raises SimulstError: neither way to wait is given, or it does not fit the model."""
        model = super().build_model(args)
        lagging = lagging_of(vars(args))
        if lagging is None:
            raise SimulstError("wait_k and wait_chunk_ms are missing; give one of them.")
        restrict_decoder(model.decoder, lagging)
        if lagging.unidirectional:
            restrict_encoder(model.encoder)
        return model


def main(cmd: list[str] | None = None) -> None:
    WaitKTask.main(cmd=cmd)
