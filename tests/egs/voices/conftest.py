"""Makes tests/egs/voices/games.py importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
