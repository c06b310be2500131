"""The names by which decoding configurations call the policies."""

from __future__ import annotations

from simulst.policy import commit, late, read, segment, stop
from simulst.policy.boundary import Boundary
from simulst.policy.ctc_guide import CTCGuide

READ: dict[str, type[read.Read]] = {
    "chunk": read.Chunk,
    "block": read.Block,
    "wait_k": read.WaitK,
    "test_time_wait_k": read.WaitKAtTestTime,
    "wait_stride": read.WaitStride,
    "boundary": Boundary,
    "offline": read.Offline,
}
STOP: dict[str, type[stop.Stop]] = {
    "end_of_sentence": stop.EndOfSentence,
    "max_tokens": stop.MaxTokens,
    "max_words": stop.MaxWords,
    "ctc": stop.CTC,
    "align_att": stop.AlignAtt,
    "ctc_guide": CTCGuide,
    "entropy": stop.Entropy,
    "divergence": stop.Divergence,
    "token": stop.Token,
    "any_of": stop.AnyOf,
}
COMMIT: dict[str, type[commit.Commit]] = {
    "all": commit.All,
    "hold": commit.Hold,
    "local_agreement": commit.LocalAgreement,
    "shared_prefix": commit.SharedPrefix,
}
SEGMENT: dict[str, type[segment.Segmentation]] = {
    "none": segment.Whole,
    "pause": segment.Pause,
    "attention": segment.Attention,
}
LATE: dict[str, type[late.Late]] = {"wait": late.Wait, "skip": late.Skip}
