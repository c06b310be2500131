"""Beam search over many utterances at once, by the decoder alone: `joint_beam_search` without CTC, for batch work.

The hypotheses of all utterances grow together, so that a step of the decoder is paid once for all of them. What each
finds is what it would find alone.
"""

from __future__ import annotations

from collections.abc import Sequence

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
) -> list[Tokens]:
    """For each utterance the best text that begins with its prefix, without <sos> and <eos>.

    frames: of the encoder, (t, width) each. options: beam, length_bonus and max_length_ratio; ctc_weight must be 0.
    Where nothing can follow the prefix (no frames, no room) it is the result.
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
    best_at: dict[int, dict[int, float]] = {row: {} for row in rows}
    base = torch.tensor([len(prefixes[row]) for row in rows], device=device)
    running = torch.zeros(len(rows), 1, dtype=torch.float64, device=device)
    text = torch.zeros(len(rows), 1, 0, dtype=torch.long, device=device)

    def end(row: int, score: float, tokens: list[int]) -> None:
        if row not in found or score > found[row][0]:
            found[row] = (score, (*results[row], *tokens))

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
            end(row, value, text[index, parents[index, k]].tolist())
            best_at[row][step] = max(value, best_at[row].get(step, value))
        text = torch.cat([text.gather(1, parents[:, :, None].expand(-1, -1, step)), tokens[:, :, None]], 2)
        values = values.masked_fill(ends, -torch.inf)
        running = values - bonus
        # Scores only fall as a text grows, unless length is rewarded: what is behind now will not win any more.
        hopes = values.amax(1).tolist()
        step += 1
        for i, row in enumerate(rows):
            beaten = options.length_bonus <= 0 and row in found and hopes[i] <= found[row][0]
            if hopes[i] == -torch.inf or beaten or is_over(best_at[row], step - 1):
                over.add(row)
            elif step == rooms[row]:
                over.add(row)
                for value, more in zip(values[i].tolist(), text[i].tolist(), strict=True):
                    if value > -torch.inf:
                        end(row, value, more)
        state = state.hypotheses(parents)
        left = [i for i, row in enumerate(rows) if row not in over]
        if len(left) <= MOST_LEFT * len(rows):
            keep = torch.tensor(left, dtype=torch.long, device=device)
            rows = [rows[i] for i in left]
            if rows:
                state, base = state.utterances(keep), base[keep]
            running, text, tokens = running[keep], text[keep], tokens[keep]
        elif over:
            running = running.masked_fill(torch.tensor([[row in over] for row in rows], device=device), -torch.inf)
        if not rows:
            break
        log_p, state = decoder.step(tokens, state)
    return [found[row][1] if row in found else result for row, result in enumerate(results)]
