"""Which precisions a processor has."""

import logging

import pytest
import torch

from simulst.errors import SimulstError
from simulst.models import base
from simulst.models.espnet.network.linear import PRECISIONS, check_precision


def test_a_gpu_has_no_int8() -> None:
    with pytest.raises(SimulstError, match="int8 runs on the CPU"):
        check_precision("int8", "cuda")


@pytest.mark.parametrize("fast", [True, False])
def test_a_processor_without_a_precision_is_told(
    fast: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(base, "has_bfloat16", lambda: True)
    monkeypatch.setattr(base.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: fast, raising=False)
    with caplog.at_level(logging.WARNING):
        for precision in PRECISIONS:
            check_precision(precision, "cpu")
    told = [name for record in caplog.records for name in ("bfloat16", " float16") if name in record.getMessage()]
    assert told == ([] if fast else ["bfloat16", " float16"])
