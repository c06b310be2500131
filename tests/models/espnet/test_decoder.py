"""The cached decoder computes what ESPnet's batch_score does, call by call."""

import copy
import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

logging.disable(logging.WARNING)
from espnet2.asr.decoder.transformer_decoder import (  # noqa: E402
    LightweightConvolutionTransformerDecoder,
    TransformerDecoder,
)

logging.disable(logging.NOTSET)
from espnet.nets.pytorch_backend.transformer.embedding import ScaledPositionalEncoding  # noqa: E402

from simulst.errors import SimulstError  # noqa: E402
from simulst.kernels.compiled_attention import Compiled  # noqa: E402
from simulst.kernels.compiled_products import PANEL  # noqa: E402
from simulst.models.espnet.network import decoder as decoder_module  # noqa: E402
from simulst.models.espnet.network.decoder import CachedDecoder  # noqa: E402
from simulst.models.espnet.network.lagging import Lagging  # noqa: E402
from simulst.models.espnet.network.linear import PRECISIONS  # noqa: E402
from simulst.search.beam import DecoderStep, Read, chosen  # noqa: E402

WIDTH, SIZE, SOS = 16, 20, 19
torch.set_num_threads(1)  # on so little, threads only wait for each other
seeds = st.integers(0, 10**6)


def tiny(seed: int = 0, width: int = WIDTH, **options: Any) -> TransformerDecoder:
    """A random decoder whose norms and scores are not those of an untrained one."""
    torch.manual_seed(seed)
    options = {"attention_heads": 2, "linear_units": 24, "num_blocks": 3, **options}
    decoder = TransformerDecoder(SIZE, width, **options).eval()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if "norm" in name:
                parameter += 0.3 * torch.randn_like(parameter)
            elif name.startswith("output_layer"):
                parameter *= 4
    return decoder


def frames(count: int, seed: int = 0, width: int = WIDTH) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def memory_of(model: CachedDecoder, *pieces: torch.Tensor) -> Any:
    memory = model.memory()
    for piece in pieces:
        memory.append(piece)
    return memory


class Both:
    """The same hypotheses, decoded by ESPnet and here."""

    def __init__(self, decoder: TransformerDecoder, model: CachedDecoder, memory: Any) -> None:
        self.decoder, self.model, self.memory = decoder, model, memory
        self.tokens = torch.zeros(1, 0, dtype=torch.int64)
        self.theirs: list[Any] = [None]
        self.ours = model.start()

    def select(self, rows: torch.Tensor) -> None:
        self.tokens, self.theirs = self.tokens[rows], [self.theirs[row] for row in rows.tolist()]
        self.ours = self.ours[rows]

    @torch.no_grad()
    def step(self, tokens: torch.Tensor, seen: torch.Tensor, attention: bool = False) -> tuple[torch.Tensor, ...]:
        """log p (n, V) by both decoders. seen: (T, width) all frames in the memory."""
        self.tokens = torch.cat([self.tokens, tokens[:, None]], 1)
        theirs, self.theirs = self.decoder.batch_score(self.tokens, self.theirs, seen.expand(len(tokens), -1, -1))
        ours, self.ours = self.model.step(tokens, self.ours, self.memory, attention=attention)
        assert self.ours.length == self.tokens.shape[1] and len(self.ours) == len(tokens)
        return theirs, ours


def close(ours: torch.Tensor, theirs: torch.Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


@settings(max_examples=20)
@given(
    seeds,
    st.booleans(),
    st.sampled_from([1, 2, 4]),
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 5)), min_size=1, max_size=15),
)
def test_equal_to_espnet(seed: int, normalize_before: bool, heads: int, steps: list[tuple[int, int]]) -> None:
    """Hypotheses are re-ordered and the memory grows. steps: hypotheses of each, and the frames that come before it."""
    decoder = tiny(seed, normalize_before=normalize_before, attention_heads=heads)
    model = CachedDecoder(decoder)
    seen = frames(3, seed)
    both = Both(decoder, model, memory_of(model, seen))
    theirs, ours = both.step(torch.tensor([SOS]), seen)
    close(ours, theirs)
    for count, more in steps:
        new = frames(more, seed + len(seen))
        both.memory.append(new)
        seen = torch.cat([seen, new])
        both.select(torch.randint(len(both.tokens), (count,)))
        theirs, ours = both.step(torch.randint(SIZE, (count,)), seen)
        close(ours, theirs)


def test_a_long_wide_beam() -> None:
    """Many more tokens than the initial slots of a pool; most belong to hypotheses that were dropped."""
    decoder = tiny(1)
    model = CachedDecoder(decoder)
    both = Both(decoder, model, memory_of(model, frames(9)))
    both.step(torch.tensor([SOS]), frames(9))
    for _ in range(40):
        both.select(torch.randint(len(both.tokens), (12,)))
        theirs, ours = both.step(torch.randint(SIZE, (12,)), frames(9))
        close(ours, theirs)
    assert both.ours.slots.used < 40 * 12 / 2


@settings(max_examples=20)
@given(seeds, st.booleans(), st.lists(st.integers(0, SIZE - 1), max_size=90), st.integers(1, 20))
def test_a_prefix_at_once(seed: int, normalize_before: bool, prefix: list[int], count: int) -> None:
    decoder = tiny(seed, normalize_before=normalize_before)
    model = CachedDecoder(decoder)
    memory = memory_of(model, frames(count, seed))
    tokens = torch.tensor([SOS, *prefix])
    at_once, state = model.prefill(tokens, memory, attention=True)
    both = Both(decoder, model, memory)
    for token in tokens:
        theirs, ours = both.step(token[None], frames(count, seed), attention=True)
    assert at_once.shape == (1, SIZE) and state.length == len(tokens) and len(state) == 1
    close(at_once, ours)
    close(at_once, theirs)
    assert state.attention is not None and both.ours.attention is not None
    close(state.attention, both.ours.attention)
    with torch.no_grad():
        close(at_once, decoder.batch_score(tokens[None], [None], frames(count, seed)[None])[0])
    # What follows is the same, too.
    rows, tokens = torch.zeros(4, dtype=torch.int64), torch.arange(4)
    close(model.step(tokens, state[rows], memory)[0], model.step(tokens, both.ours[rows], memory)[0])


@settings(max_examples=30)
@given(seeds, st.lists(st.integers(0, 30), min_size=1, max_size=8), st.sampled_from(["float32", "int8"]))
def test_memory_in_pieces(seed: int, counts: list[int], precision: str) -> None:
    model = CachedDecoder(tiny(seed), precision)
    whole = frames(sum(counts) + 1, seed)
    memory = memory_of(model, *whole[:-1].split(counts), whole[-1:])
    assert len(memory) == len(whole)
    for token in (SOS, 3):  # the second is in the cache
        ours, theirs = (model.prefill(torch.tensor([SOS, token]), m)[0] for m in (memory, memory_of(model, whole)))
        close(ours, theirs)


def test_memory_is_computed_once() -> None:
    model = CachedDecoder(tiny())
    memory = memory_of(model, frames(4))
    before = memory.keys[:, :, 0, :, :4].copy(), memory.values[:, :, :4].copy()
    places = [memory.addresses]
    for seed in range(1000):
        memory.append(frames(1, seed))
        places.append(memory.addresses)
    assert (memory.keys[:, :, 0, :, :4] == before[0]).all() and (memory.values[:, :, :4] == before[1]).all()
    assert sum(place != last for last, place in pairwise(places)) < 10  # it rarely moves


def by_torch(decoder: TransformerDecoder, *options: Any) -> CachedDecoder:
    """A decoder as on a GPU, where attention is not compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder_module, "compiled_attention", lambda: None)
        return CachedDecoder(decoder, *options)


@settings(max_examples=20)
@given(
    seeds,
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 14), st.integers(1, 150), st.booleans()), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([(16, 4), (6, 2), (2 * PANEL - 2, 2), (2 * PANEL + 2, 1)]),
    st.sampled_from([1, 3]),
)
def test_together_as_alone_and_as_by_torch(
    seed: int,
    normalize_before: bool,
    sizes: list[tuple[int, int, bool]],
    lags: bool,
    widths: tuple[int, int],
    threads: int,
) -> None:
    """sizes: rows and frames of each search, and whether attention is asked for. widths: width, heads."""
    width, heads = widths
    decoder = tiny(seed, width, normalize_before=normalize_before, attention_heads=heads, num_blocks=2)
    lagging = Lagging(2, 280, 3) if lags else None
    compiled = CachedDecoder(decoder, "float32", lagging)
    found = []
    for model in (compiled, by_torch(decoder, "float32", lagging)):
        memories = [memory_of(model, frames(count, seed, width)) for _, count, _ in sizes]
        reads, random = [], torch.Generator().manual_seed(seed)
        for (rows, _, attention), memory in zip(sizes, memories, strict=True):
            tokens = torch.randint(SIZE, (rows,), generator=random)
            state = model.prefill(tokens, memory)[1][torch.zeros(rows, dtype=torch.int64)]
            state = model.step(tokens, state, memory)[1].with_room(2 * rows)
            reads += [Read(tokens, state, memory, attention), Read(tokens, None, memory, attention)]
            reads.append(Read(tokens.flip(0), state, memory, attention))  # from the same state
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Compiled, "threads", lambda *_: threads)
            log_p, states = model.read_together(reads)
        found.append((log_p, states))
        alone = [model.prefill(r.tokens, r.memory) if r.state is None else model.step(*r[:3]) for r in reads]
        close(log_p, torch.cat([scores for scores, _ in alone]), 0 if model is compiled else 1e-4)
        then = [torch.zeros(len(state), dtype=torch.int64) for state in states]
        more = [Read(t, state, r.memory, False) for t, state, r in zip(then, states, reads, strict=True)]
        after, _ = model.read_together(more)
        parts = zip(then, alone, reads, strict=True)
        apart = torch.cat([model.step(t, state, r.memory)[0] for t, (_, state), r in parts])
        close(after, apart, 0 if model is compiled else 1e-4)
    (log_p, states), (theirs, their_states) = found
    close(log_p, theirs, 1e-4)
    for state, their_state, read in zip(states, their_states, reads, strict=True):
        if read.attention:
            close(state.attention, their_state.attention, 1e-4)
        else:
            assert state.attention is None


@pytest.mark.parametrize("lags", [False, True])
def test_a_draft_is_read_as_by_steps(lags: bool) -> None:
    """At once, and from any of its places on. A prefix of a wait-k model sees less than what follows it."""
    model = CachedDecoder(tiny(), "float32", Lagging(2, 280, 3) if lags else None)
    memory, prefix, draft = memory_of(model, frames(30)), [SOS, 3, 4, 5, 6], [7, 3, 4]
    log_p, whole = model.prefill(torch.tensor(prefix + draft), memory, draft=len(draft))
    expected, state = model.prefill(torch.tensor(prefix), memory)
    for place, token in enumerate([*draft, 0]):
        close(log_p[place : place + 1], expected, 1e-5)
        other = torch.tensor([2])
        cut = whole.cut(len(prefix) + place)
        close(model.step(other, cut, memory)[0], model.step(other, state, memory)[0], 1e-5)
        expected, state = model.step(torch.tensor([token]), state, memory)


def test_what_is_no_number_stays_in_its_search() -> None:
    model = CachedDecoder(tiny())
    broken, whole = memory_of(model, frames(5) * torch.nan), memory_of(model, frames(5))
    tokens = torch.tensor([SOS, 3, 4])
    log_p, _ = model.read_together([Read(tokens, None, memory, False) for memory in (broken, whole)])
    assert log_p[0].isnan().all() and torch.equal(log_p[1:], model.prefill(tokens, whole)[0])


def test_without_frames_nothing_is_read() -> None:
    model = CachedDecoder(tiny())
    with pytest.raises(SimulstError, match="no encoder frames"):
        model.step(torch.tensor([SOS]), model.start(), model.memory())


def test_a_state_can_be_used_again() -> None:
    """Other states write into the same pool meanwhile, and the pool grows."""
    model = CachedDecoder(tiny(4))
    memory = memory_of(model, frames(7))
    _, parent = model.prefill(torch.tensor([SOS, 3, 5]), memory)
    two = parent[torch.tensor([0, 0])]
    first, child = model.step(torch.tensor([6, 7]), two, memory)
    then, _ = model.step(torch.tensor([8, 9]), child, memory)
    for token in range(SIZE):
        model.step(torch.tensor([token] * 10), parent[torch.zeros(10, dtype=torch.int64)], memory)
        close(model.step(torch.tensor([6, 7]), two, memory)[0], first)
        close(model.step(torch.tensor([8, 9]), child, memory)[0], then)
        close(model.step(torch.tensor([9]), child[torch.tensor([1])], memory)[0], then[1:])


@pytest.mark.parametrize("normalize_before", [True, False])
def test_attention(normalize_before: bool) -> None:
    decoder = tiny(5, normalize_before=normalize_before)
    with torch.no_grad():
        for layer in decoder.decoders:
            layer.src_attn.linear_q.weight *= 5  # else the weights hardly differ
    model = CachedDecoder(decoder)
    seen = frames(11)
    both = Both(decoder, model, memory_of(model, seen))
    both.step(torch.tensor([SOS]), seen)
    for n in (3, 5, 2):
        both.select(torch.randint(len(both.tokens), (n,)))
        theirs, ours = both.step(torch.randint(SIZE, (n,)), seen, attention=True)
        close(ours, theirs)
        attention = both.ours.attention
        assert attention is not None and attention.shape == (6, n, 1, 11)
        close(attention.sum(-1), torch.ones(6, n, 1))
        theirs = [layer.src_attn.attn[:, :, -1:].transpose(0, 1) for layer in decoder.decoders]
        close(attention, torch.cat(theirs))
        rows = torch.tensor([n - 1, 0])
        selected = both.ours[rows].attention
        assert selected is not None and torch.equal(selected, attention[:, rows])
    both.step(torch.tensor([1, 2]), seen)
    assert both.ours.attention is None


@pytest.mark.parametrize("precision", ["int8", "bfloat16", "float16"])
def test_other_precisions(precision: str) -> None:
    decoder = tiny(6)
    model, exact = CachedDecoder(decoder, precision), CachedDecoder(decoder)
    memory, exact_memory = memory_of(model, frames(5), frames(8)), memory_of(exact, frames(5), frames(8))
    prefix = torch.tensor([SOS, 3, 4, 5])
    log_p, state = model.prefill(prefix, memory, attention=True)
    exact_log_p, exact_state = exact.prefill(prefix, exact_memory, attention=True)
    for step in range(4):
        assert log_p.dtype == torch.float32 and log_p.shape == exact_log_p.shape
        close(log_p.exp().sum(1), torch.ones(len(log_p)))
        close(log_p, exact_log_p, atol=0.4)
        assert not torch.equal(log_p, exact_log_p)
        assert state.attention is not None and exact_state.attention is not None
        close(state.attention, exact_state.attention, atol=0.05)
        rows, tokens = torch.zeros(3, dtype=torch.int64), torch.tensor([step, 7, 8])
        log_p, state = model.step(tokens, state[rows], memory, attention=True)
        exact_log_p, exact_state = exact.step(tokens, exact_state[rows], exact_memory, attention=True)


def test_numbers_that_are_too_large_for_float16() -> None:
    decoder, tokens = tiny(), torch.tensor([SOS, 3, 4])
    with torch.no_grad():
        decoder.output_layer.weight *= 1e6
    whole, half = CachedDecoder(decoder), CachedDecoder(decoder, "float16")
    (log_p, state), (broken, other) = (one.prefill(tokens, memory_of(one, frames(5))) for one in (whole, half))
    step = DecoderStep(whole, torch.zeros(1, 1).numpy(), state, None, 3, SOS, torch.device("cpu"))
    assert chosen([step], log_p, [state])[0].tokens.shape == (1, 3)
    with pytest.raises(SimulstError, match=r"decoder's scores are not numbers .* too large for float16"):
        chosen([step], broken, [other])


def test_more_tokens_than_the_table_of_positions_has() -> None:
    decoder = tiny()
    short = copy.deepcopy(decoder)
    short.embed[1].pe = short.embed[1].pe[:, :4]
    model = CachedDecoder(short)
    both = Both(decoder, model, memory_of(model, frames(5)))
    for token in (SOS, *range(10)):
        theirs, ours = both.step(torch.tensor([token]), frames(5))
        close(ours, theirs)


def test_dropout_is_off_and_weights_are_copied() -> None:
    decoder = tiny()
    tokens = torch.tensor([SOS, 3, 4])
    expected = CachedDecoder(decoder)
    model = CachedDecoder(decoder.train())
    log_p = expected.prefill(tokens, memory_of(expected, frames(5)))[0]
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.fill_(1)
    assert torch.equal(model.prefill(tokens, memory_of(model, frames(5)))[0], log_p)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-4), ("bfloat16", 0.4), ("float16", 0.1)])
def test_on_a_gpu(precision: str, atol: float) -> None:
    decoder = tiny()
    model, gpu = CachedDecoder(decoder), CachedDecoder(copy.deepcopy(decoder).cuda(), precision)
    memory, gpu_memory = memory_of(model, frames(5)), memory_of(gpu, frames(5).cuda())
    log_p, state = model.prefill(torch.tensor([SOS, 3]), memory)
    gpu_log_p, gpu_state = gpu.prefill(torch.tensor([SOS, 3]).cuda(), gpu_memory)
    for _ in range(30):
        close(gpu_log_p.cpu(), log_p, atol)
        rows, tokens = torch.randint(len(state), (4,)), torch.randint(SIZE, (4,))
        log_p, state = model.step(tokens, state[rows], memory)
        gpu_log_p, gpu_state = gpu.step(tokens.cuda(), gpu_state[rows.cuda()], gpu_memory)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: tiny(input_layer="linear"), "input_layer"),
        (lambda: tiny(pos_enc_class=ScaledPositionalEncoding), "pos_enc_class"),
        (lambda: tiny(use_output_layer=False), "use_output_layer"),
        (lambda: tiny(concat_after=True), "concat_after"),
        (lambda: tiny(qk_norm=True), "qk_norm"),
        (
            lambda: LightweightConvolutionTransformerDecoder(
                SIZE, WIDTH, num_blocks=1, conv_wshare=2, conv_kernel_length=[3]
            ),
            "decoder: 'LightweightConvolutionTransformerDecoder'",
        ),
    ],
)
def test_options_of_espnet_that_are_refused(make: Callable[[], Any], name: str) -> None:
    with pytest.raises(SimulstError, match=name):
        CachedDecoder(make())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_reads_share_a_batch_unless_rows_depend_on_each_other(precision: str) -> None:
    """If they do, words would depend on --streams."""
    model = CachedDecoder(tiny(), precision)
    assert (model.together(1, model.start(), model.memory()) is None) == (precision in ("bfloat16", "float16"))
