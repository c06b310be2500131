"""Makes tests/prefix/tones.py and what it needs importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent.parent
sys.path[:0] = [str(HERE / name) for name in ("prefix", "models", "search")]
