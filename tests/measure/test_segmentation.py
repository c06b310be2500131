from pathlib import Path

import pytest
import yaml

from simulst.errors import SimulstError
from simulst.measure.segmentation import BATCH, read_segments


@pytest.mark.parametrize("n", [1, BATCH, BATCH + 1, 2 * BATCH + 7])
def test_segments_are_read_in_batches(tmp_path: Path, n: int) -> None:
    lines = [f"- {{offset: {i}.5, wav: ted_{i}.wav}}" for i in range(n)]
    path = tmp_path / "x.yaml"
    path.write_text("---\n# of version 9\n" + "\n".join(lines))
    count, segments = read_segments(path)
    assert count == n and [*segments] == list(zip(range(3, n + 3), yaml.safe_load(path.read_text()), strict=True))
    path.write_text("\n".join([*lines[:-1], "- {offset: ["]))
    with pytest.raises(SimulstError, match=rf"x\.yaml, line {n}: not YAML"):
        [*read_segments(path)[1]]
