"""Speech LLMs: decoder-only models of transformers that read audio as tokens of a chat.

They are found and loaded as the other models of Hugging Face's are (simulst/models/huggingface). architectures.py has a
record for each type, model.py has what an utterance does.
"""
