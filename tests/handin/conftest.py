"""Makes the tiny models and the commands of runs importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), *(str(TESTS / room) for room in ("models", "runs", "serve"))]
