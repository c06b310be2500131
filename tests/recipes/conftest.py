"""Makes tests/recipes/recipe.py, the tiny models of tests/models and tests/egs/debs.py importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).parents[1] / "egs"))
