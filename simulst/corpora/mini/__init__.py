"""The mini recipe's corpus: parallel sentences from a grammar, spoken by a synthesiser."""
