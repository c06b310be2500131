"""A tiny speech LLM of each kind, saved once and loaded from its folder."""

import tiny_huggingface
import tiny_speech_llm

folders, models, model = tiny_huggingface.fixtures(tiny_speech_llm.KINDS, tiny_speech_llm.write)
