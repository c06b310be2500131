"""Makes tests/models/tiny_espnet.py, tests/search/tiny_search.py and tones.py importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "models"), str(HERE.parent / "search")]
