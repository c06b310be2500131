"""Beam search over many utterances at once, by the decoder alone: `joint_beam_search` without CTC, for batch work.

The hypotheses of all utterances grow together, so that a step of the decoder is paid once for all of them. What each
finds is what it would find alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simulst.errors import SimulstError
from simulst.models.batch_decoder import BatchDecoder
from simulst.search import JointOptions, Tokens
from simulst.search.beam import is_over

MOST_LEFT = 0.9  # of the utterances: once so many are left, the others' room is given up


@torch.inference_mode()
def batch_beam_search(
    decoder: BatchDecoder,
    frames: Sequence[Tensor],
    prefixes: Sequence[Tokens],
    options: JointOptions,
    sos: int,
    eos: int,
    wanted: Sequence[Tokens | None] | None = None,
    endings: Sequence[int] = (),
) -> list[Tokens]:
    """For each utterance the best text that begins with its prefix, without <sos> and <eos>.

    frames: of the encoder, (t, width) each. options: beam, length_bonus and max_length_ratio; ctc_weight must be 0.
    Where nothing can follow the prefix (no frames, no room) it is the result.
    wanted: for some utterances a text that the result is to be a prefix of, but for tokens of `endings` behind it. As
        soon as the best text can't be one, that search is given up, and the prefix is the result.
    Raises SimulstError: a CTC weight; scores that are not numbers.
    """
    if options.ctc_weight:
        raise SimulstError("search: CTC scores are not computed for many utterances at once; write 'ctc_weight: 0.0'.")
    results = [tuple(prefix) for prefix in prefixes]
    rooms = [
        max(1, int(options.max_length_ratio * len(one))) - len(prefix)
        for one, prefix in zip(frames, prefixes, strict=True)
    ]
    rows = [row for row, room in enumerate(rooms) if room > 0 and len(frames[row])]
    if not rows:
        return results
    log_p, state = decoder.start([frames[row] for row in rows], [(sos, *prefixes[row]) for row in rows])
    device = log_p.device
    found: dict[int, tuple[float, Tokens]] = {}
    found_useful: dict[int, bool] = {}
    best_at: dict[int, dict[int, float]] = {row: {} for row in rows}
    base = torch.tensor([len(prefixes[row]) for row in rows], device=device)
    running = torch.zeros(len(rows), 1, dtype=torch.float64, device=device)
    text = torch.zeros(len(rows), 1, 0, dtype=torch.long, device=device)
    use = _Use.start([(wanted[row] if wanted else None, prefixes[row]) for row in rows], endings, log_p)

    def end(row: int, score: float, tokens: list[int], useful: bool) -> None:
        if row not in found or score > found[row][0]:
            found[row] = (score, (*results[row], *tokens))
            found_useful[row] = useful

    step, over = 0, set[int]()
    while rows:
        width = min(options.beam, log_p.shape[2])
        best, candidates = log_p.topk(width)
        if torch.isnan(best).any():  # NaN counts as the greatest
            raise SimulstError("the decoder's scores are not numbers (NaN); the checkpoint or the audio is broken.")
        candidates = torch.cat([candidates, torch.full_like(candidates[:, :, :1], eos)], 2)
        scores = torch.cat([best, log_p[:, :, eos : eos + 1]], 2) + running[:, :, None]
        # The end is a candidate of its own, in the last column.
        scores[:, :, :-1].masked_fill_(candidates[:, :, :-1] == eos, -torch.inf)
        bonus = options.length_bonus * (base + step + 1)[:, None]
        values, places = (scores.flatten(1) + bonus).topk(min(options.beam, scores[0].numel()))
        parents = places // (width + 1)
        tokens = candidates.flatten(1).gather(1, places)
        ends = (places % (width + 1) == width) & ~torch.isneginf(values)
        for index, k in ends.nonzero().tolist():
            row, value = rows[index], float(values[index, k])
            parent = parents[index, k]
            end(row, value, text[index, parent].tolist(), bool(use.useful[index, parent]))
            best_at[row][step] = max(value, best_at[row].get(step, value))
        text = torch.cat([text.gather(1, parents[:, :, None].expand(-1, -1, step)), tokens[:, :, None]], 2)
        values = values.masked_fill(ends, -torch.inf)
        running = values - bonus
        # Scores only fall as a text grows, unless length is rewarded: what is behind now will not win any more.
        hopes = values.amax(1).tolist()
        use = use.grow(step, parents, tokens)
        useful_hopes = values.masked_fill(~use.useful, -torch.inf).amax(1).tolist()
        step += 1
        for i, row in enumerate(rows):
            bound = found[row][0] if options.length_bonus <= 0 and row in found else -torch.inf
            if hopes[i] <= bound or is_over(best_at[row], step - 1):
                over.add(row)
            elif useful_hopes[i] <= bound and not found_useful.get(row, False):
                over.add(row)
                found.pop(row, None)
            elif step == rooms[row]:
                over.add(row)
                for value, more, useful in zip(values[i].tolist(), text[i].tolist(), use.useful[i], strict=True):
                    if value > -torch.inf:
                        end(row, value, more, bool(useful))
        state = state.hypotheses(parents)
        left = [i for i, row in enumerate(rows) if row not in over]
        if len(left) <= MOST_LEFT * len(rows):
            keep = torch.tensor(left, dtype=torch.long, device=device)
            rows = [rows[i] for i in left]
            if rows:
                state, base, use = state.utterances(keep), base[keep], use.utterances(keep)
            running, text, tokens = running[keep], text[keep], tokens[keep]
        elif over:
            running = running.masked_fill(torch.tensor([[row in over] for row in rows], device=device), -torch.inf)
        if not rows:
            break
        log_p, state = decoder.step(tokens, state)
    return [found[row][1] if row in found else result for row, result in enumerate(results)]


@dataclass(frozen=True)
class _Use:
    """Which of the hypotheses (B, K) may become a result that is wanted."""

    texts: Tensor  # (B, n) the tokens wanted behind the prefix, -1 behind their end
    anything: Tensor  # (B, 1) whether all texts are wanted
    endings: Tensor  # (V,) whether a token may follow what is wanted
    same: Tensor  # (B, K) whether all its tokens are those wanted
    useful: Tensor  # (B, K) ... but for endings

    @staticmethod
    def start(texts: Sequence[tuple[Tokens | None, Tokens]], endings: Sequence[int], log_p: Tensor) -> _Use:
        """texts: what is wanted of each utterance, None for anything, and the prefix."""
        behind = [list((wanted or ())[len(prefix) :]) for wanted, prefix in texts]
        longest = 1 + max(map(len, behind))
        rows = torch.tensor([tokens + [-1] * (longest - len(tokens)) for tokens in behind], device=log_p.device)
        anything = torch.tensor([[wanted is None] for wanted, _ in texts], device=log_p.device)
        fits = [[wanted is not None and wanted[: len(prefix)] == prefix] for wanted, prefix in texts]
        same = torch.tensor(fits, device=log_p.device)
        allowed = torch.zeros(log_p.shape[2], dtype=torch.bool, device=log_p.device)
        allowed[torch.tensor(list(endings), dtype=torch.long, device=log_p.device)] = True
        return _Use(rows, anything, allowed, same, same | anything)

    def grow(self, step: int, parents: Tensor, tokens: Tensor) -> _Use:
        """Hypotheses (B, K) that add a token each to one of these, their token number `step` behind the prefix."""
        column = min(step, self.texts.shape[1] - 1)
        same = self.same.gather(1, parents) & (tokens == self.texts[:, column : column + 1])
        useful = same | (self.useful.gather(1, parents) & (self.endings[tokens] | self.anything))
        return replace(self, same=same, useful=useful)

    def utterances(self, rows: Tensor) -> _Use:
        return _Use(self.texts[rows], self.anything[rows], self.endings, self.same[rows], self.useful[rows])
