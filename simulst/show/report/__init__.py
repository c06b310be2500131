"""`simulst report`: runs as one file to look at, in any browser and without a network.

content.py says what the page shows, as typed data, and puts it with report.js and report.html into one file;
utterances.py chooses utterances.
"""
