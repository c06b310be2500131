"""Products and attention of few rows, compiled for this processor, and by torch where they can't be.

The contract: `products.py` says what a product computes, and gives a compiled one only if it agrees with torch's;
`compiler.py` compiles at first use, so importing a module compiles nothing. Nobody else imports the other files.
"""
